//! Modules of its own kernel that a node is to have.

use kumiki_lab::{Cache, KernelName, Talk, kbuild};

use crate::Host;
use crate::pool::Kind;

const SOURCE: &str = r#"
#include <linux/module.h>
static int __init extra_init(void)
{
	pr_info("extra is here\n");
	return 0;
}
module_init(extra_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Something to load");
"#;

#[test]
fn an_image_brings_modules_into_its_nodes() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let cache = Cache::of_user().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let kernel = "6.1".parse::<KernelName>().unwrap().get(&cache, talk).unwrap();
    let sources = [("extra/Kbuild", "obj-m := extra.o\n"), ("extra/extra.c", SOURCE)]
        .map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
    let module = kbuild::build_from(&cache, &kernel, &sources, "extra", talk).unwrap();
    host.machine.guest().put(&module[0], "extra.ko".as_ref()).unwrap();
    host.ok("kumiki image add x --kernel /boot/vmlinuz --guest-module osnode-guest.ko \
             --modules extra.ko");
    host.ok("kumiki node create n1 --memory 256M --image x; kumiki node start n1 --timeout 120");
    let loaded = host.ok("kumiki node exec n1 -- cat /proc/modules");
    assert!(loaded.contains("extra ") && loaded.contains("osnode_guest "), "{loaded}");
    assert!(host.ok("kumiki node logs n1").contains("extra is here"));
    host.ok("kumiki node delete n1 --force; kumiki image rm x");
    host.leave();
}
