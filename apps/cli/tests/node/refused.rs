//! What is refused before the machine is touched, and what is left when a
//! command is killed.

use std::fs;
use std::path::{Path, PathBuf};

use kumiki_lab::{Cache, Config, Talk, kbuild};

use crate::pool::Kind;
use crate::{Host, TREE, another_kernel, built, chosen_kernel};

/// An image of the host's kernel, which nothing need be unpacked for.
const ADD: &str = "kumiki image add x --kernel /boot/vmlinux --guest-module osnode-guest.ko";
/// A node, but for what each case adds.
const CREATE: &str = "kumiki node create n2 --image deb";

#[test]
fn bad_input_is_refused_with_the_reason_before_anything_is_touched() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let ours = built(&chosen_kernel()).unwrap();
    let guest = host.machine.guest();
    guest.put(&ours.kernel.config, Path::new("config")).unwrap();
    let other = built(another_kernel()).unwrap();
    guest.put(other.module("osnode-guest.ko"), Path::new("other.ko")).unwrap();
    host.ok("kumiki node create n1 --cpu-list 2 --memory 256M --image deb");
    images(&host);
    nodes(&host);
    host.ok("kumiki node rm n1");
    killed(&host);
    host.ok("kumiki image rm deb");
    modules(&host);
    host.leave();
}

fn refused(host: &Host, cases: &[(String, &str)]) {
    let there = "kumiki node ls --json; kumiki image ls --json; cat /sys/devices/system/cpu/online";
    let before = host.ok(there);
    for (line, says) in cases {
        let said = host.refused(line);
        assert!(said.contains(says), "{line}: {said}");
    }
    assert_eq!(host.ok(there), before);
}

fn images(host: &Host) {
    let add = |more: &str| format!("{ADD} {more}");
    refused(
        host,
        &[
            (ADD.replace(" x ", " deb "), "image deb exists"),
            (ADD.replace(" x ", " X "), "1 to 31"),
            ("echo text > plain; ".to_owned() + &ADD.replace("/boot/vmlinux", "plain"), "no Linux"),
            (
                "head -c 1000000 /boot/vmlinuz > half; ".to_owned()
                    + &ADD.replace("/boot/vmlinux", "half"),
                "truncated",
            ),
            (ADD.replace("/boot/vmlinux", "none"), "none: No such file"),
            (ADD.replace("--guest-module osnode-guest.ko", ""), "--guest-module"),
            (ADD.replace("osnode-guest.ko", "plain"), "no kernel module"),
            (ADD.replace("osnode-guest.ko", "osnode.ko"), "osnode_guest is needed"),
            (ADD.replace("osnode-guest.ko", "other.ko"), "is built for kernel 6.1"),
            (
                format!("truncate -s 3G large; {}", add("--initrd large")),
                "large: its 3221225472 bytes are read",
            ),
            (
                format!("sed /CONFIG_KPROBES=/d config > c; {}", add("--config c")),
                "/boot/vmlinux, by c: the kernel was built without CONFIG_KPROBES (osnode-guest.ko",
            ),
            (add("--config plain"), "plain: this is no kernel configuration"),
        ],
    );
    // An initrd that fits into memory and not into the node; its own kernel's
    // configuration is all right.
    host.ok("rm large; truncate -s 100000000 zeros");
    let unchecked = host.run(&add("--initrd zeros"));
    let said = String::from_utf8_lossy(&unchecked.stderr).into_owned();
    assert!(said.contains("was not checked") && unchecked.exit.code() == 0, "{said}");
    let small = "kumiki node create n2 --image x --memory 144M".to_owned();
    refused(host, &[(small, "image x alone needs")]);
    // Enough for the initramfs as it is, and not for its files beside it.
    let packed = "kumiki node create n2 --image x --memory 256M".to_owned();
    refused(host, &[(packed, "image x needs ")]);
    host.ok("kumiki image rm x; rm zeros");
    host.ok(&format!("{} 2> said; cat said; ! grep 'not checked' said", add("--config config")));
    host.ok("kumiki image rm x");
}

/// Cpu 2 is node n1's.
fn nodes(host: &Host) {
    let create = |more: &str| format!("{CREATE} {more}");
    refused(
        host,
        &[
            ("kumiki node create n1 --memory 256M --image deb".into(), "node n1 exists"),
            ("kumiki node create N1 --memory 256M --image deb".into(), "1 to 31"),
            ("kumiki node create n2 --memory 256M --image none".into(), "there is no image none"),
            (create("--memory 32M"), "image deb alone needs"),
            (create("--memory 92M"), "96468992 bytes in all, and image deb needs "),
            (create("--memory 4M"), "256M suit"),
            (create("--memory 255M"), "256M is the next"),
            (create("--memory 100G"), "are not free"),
            (create("--memory 256M --cpus 0"), "0 cpus: a node has 1 to 64"),
            (
                create("--memory 256M --cpus 3"),
                "2 online that it could give (cpu 0 stays its own; node n1 has 2)",
            ),
            (create("--memory 256M --cpu-list 0"), "cpu 0 stays the host's"),
            (create("--memory 256M --cpu-list 3,2"), "free are 3,1; node n1 has 2"),
            (create("--memory 256M --cpu-list 3,3"), "cpu 3 is there twice"),
            (create("--memory 256M --cpu-list 9"), "cpu 9 cannot be given"),
            ("kumiki node start n9".into(), "there is no node n9"),
        ],
    );
}

/// Killed at any time, also between what it asks the module (`steps.rs`), `create` leaves what is shown and can be given back.
fn killed(host: &Host) {
    let online = |when: String| {
        assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-3\n", "{when}");
    };
    let create = "kumiki node create n2 --cpus 2 --memory 256M --image deb";
    for seconds in ["0.1", "0.5", "1.0", "1.3", "1.5", "1.7", "2.0", "2.5"] {
        host.run(&format!("timeout -s KILL {seconds} {create}"));
        if host.ok("kumiki node ls --json") != "[]\n" {
            host.ok("kumiki node rm n2");
        }
        online(format!("create killed after {seconds} s"));
    }
    assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
}

/// The module is not there, or another version is.
fn modules(host: &Host) {
    host.ok("rmmod osnode");
    for line in [CREATE.to_owned() + " --memory 256M", ADD.to_owned(), "kumiki node ls".into()] {
        let said = host.refused(&line);
        assert!(said.contains("kumiki lab up --nodes"), "{line}: {said}");
    }
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let sources = changed(&[("#define OSNODE_VERSION ", "#define OSNODE_VERSION 999 //")]);
    let kernel = built(&chosen_kernel()).unwrap().kernel;
    let cache = Cache::of_user().unwrap();
    let made = kbuild::build_from(&cache, &kernel, &sources, "osnode", talk).unwrap();
    let module = made.iter().find(|path| path.ends_with("osnode.ko")).unwrap();
    host.machine.guest().put(module, Path::new("future.ko")).unwrap();
    host.ok("insmod future.ko");
    let said = host.refused(&format!("{CREATE} --memory 256M"));
    assert!(said.contains("version 999 is loaded: rmmod osnode"), "{said}");
    host.ok("rmmod osnode; insmod osnode.ko; kumiki node ls");
}

/// The module's sources with other texts in place of some, each of which is there.
pub(crate) fn changed(texts: &[(&str, &str)]) -> Vec<(PathBuf, Vec<u8>)> {
    let files = ["osnode", "uapi"].into_iter().flat_map(|folder| {
        let entries = fs::read_dir(Path::new(TREE).join(folder)).unwrap().flatten();
        entries.map(move |entry| Path::new(folder).join(entry.file_name()))
    });
    let mut files: Vec<(PathBuf, String)> = files
        .filter(|path| path.extension().is_none_or(|end| end == "c" || end == "h"))
        .map(|path| {
            let text = fs::read_to_string(Path::new(TREE).join(&path)).unwrap();
            (path, text)
        })
        .collect();
    for (from, to) in texts {
        assert!(files.iter().any(|(_, text)| text.contains(from)), "{from}");
        files.iter_mut().for_each(|(_, text)| *text = text.replace(from, to));
    }
    let mut files: Vec<_> =
        files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    files.sort();
    files
}

/// As Secure Boot does it.
#[test]
fn a_kernel_that_is_locked_down_is_told() {
    let small = |config: &mut Config| (config.cpus, config.memory_bytes) = (1, 512 << 20);
    let Some(host) = Host::own(&chosen_kernel(), small) else { return };
    host.ok("mount -t securityfs none /sys/kernel/security");
    host.ok("echo integrity > /sys/kernel/security/lockdown");
    for line in [CREATE.to_owned() + " --memory 256M", ADD.to_owned()] {
        let said = host.refused(&line);
        assert!(said.contains("/sys/kernel/security/lockdown; Secure Boot"), "{line}: {said}");
    }
    // This cannot be undone, and such a machine cannot report its end by a port: it is
    // just dropped.
}
