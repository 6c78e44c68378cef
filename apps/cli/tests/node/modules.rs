//! Modules as DKMS builds them, and such as a node is to have beside ours.

use std::fs;
use std::path::Path;
use std::process::Command;

use kumiki_lab::{Cache, KernelName, Talk, kbuild};

use crate::pool::Kind;
use crate::{Host, TREE, chosen_kernel};

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
    let dkms =
        |name: &str| kbuild::build_by_dkms(&cache, &kernel(name), Path::new(TREE), talk).unwrap();
    assert_eq!(dkms("6.12").len(), 9);
    let ours = dkms(&chosen_kernel());
    host.ok("mkdir dkms");
    for name in ["osnode.ko", "osnode-guest.ko"] {
        let made = ours.iter().find(|path| path.ends_with(name)).unwrap();
        host.machine.guest().put(made, &Path::new("dkms").join(name)).unwrap();
    }
    host.ok("rmmod osnode; insmod dkms/osnode.ko");
    let kernel = kernel(&chosen_kernel());
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

/// Kernels by DKMS's own rule: those that the modules were built for, and no others.
#[test]
fn dkms_leaves_kernels_alone_that_the_modules_were_not_built_for() {
    const KEY: &str = "BUILD_EXCLUSIVE_KERNEL=";
    let conf = fs::read_to_string(Path::new(TREE).join("dkms.conf")).unwrap();
    let line = conf.lines().find(|line| line.starts_with(KEY)).unwrap();
    let known = line[KEY.len()..].trim_matches('\'');
    let suits = |version: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", "[[ $0 =~ $1 ]]", version, known]).status().unwrap().success()
    };
    for version in
        ["6.1.0-57-amd64", "6.12.118+deb13-rt-amd64", "6.19.1", "7.0-rc3", "7.3.4+deb14-amd64"]
    {
        assert!(suits(version), "{version}");
    }
    for version in ["5.10.0-30-amd64", "6.0.1", "6.20.1", "6.100.0", "7.4.0", "7.30.1", "16.1.0"] {
        assert!(!suits(version), "{version}");
    }
    // DKMS heeds it before it needs any source.
    let cache = Cache::of_user().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let kernel = match "6.1".parse::<KernelName>().unwrap().get(&cache, talk) {
        Ok(kernel) => kernel,
        Err(error) if crate::is_lack(&error) => return eprintln!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let tree = tempfile::tempdir().unwrap();
    let other = conf.replace(line, &format!("{KEY}'^6\\.12'"));
    fs::write(tree.path().join("dkms.conf"), other).unwrap();
    let said = kbuild::build_by_dkms(&cache, &kernel, tree.path(), talk).unwrap_err().to_string();
    assert!(said.contains("BUILD_EXCLUSIVE"), "{said}");
}
