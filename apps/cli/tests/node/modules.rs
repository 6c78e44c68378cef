//! Modules as DKMS builds them, and such as a node is to have beside ours.

use std::path::Path;

use kumiki_lab::{Cache, KernelName, Talk, kbuild};

use crate::pool::Kind;
use crate::{Host, TREE};

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
fn what_dkms_builds_is_loaded_and_an_image_brings_further_modules() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let cache = Cache::of_user().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let kernel = |name: &str| name.parse::<KernelName>().unwrap().get(&cache, talk).unwrap();
    let dkms = |name| kbuild::build_by_dkms(&cache, &kernel(name), Path::new(TREE), talk).unwrap();
    assert_eq!(dkms("6.12").len(), 9);
    let ours = dkms("6.1");
    host.ok("mkdir dkms");
    for name in ["osnode.ko", "osnode-guest.ko"] {
        let made = ours.iter().find(|path| path.ends_with(name)).unwrap();
        host.machine.guest().put(made, &Path::new("dkms").join(name)).unwrap();
    }
    host.ok("rmmod osnode; insmod dkms/osnode.ko");
    let kernel = kernel("6.1");
    let sources = [("extra/Kbuild", "obj-m := extra.o\n"), ("extra/extra.c", SOURCE)]
        .map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
    let module = kbuild::build_from(&cache, &kernel, &sources, "extra", talk).unwrap();
    host.machine.guest().put(&module[0], "extra.ko".as_ref()).unwrap();
    host.ok("kumiki image add x --kernel /boot/vmlinuz --guest-module dkms/osnode-guest.ko \
             --modules extra.ko");
    host.ok("kumiki node create n1 --memory 256M --image x; kumiki node start n1 --timeout 120");
    let loaded = host.ok("kumiki node exec n1 -- cat /proc/modules");
    assert!(loaded.contains("extra ") && loaded.contains("osnode_guest "), "{loaded}");
    assert!(host.ok("kumiki node logs n1").contains("extra is here"));
    host.ok("kumiki node rm n1 --force; kumiki image rm x; rmmod osnode; insmod osnode.ko");
    host.leave();
}
