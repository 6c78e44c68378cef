//! Commands that are killed at each of their steps, and cpus that a node cannot have.

use kumiki_lab::{Cache, KernelName, Talk, kbuild};

use crate::pool::Kind;
use crate::refused::changed;
use crate::{ALL_CPUS, Host};

/// Has the module kill who makes the request of this number, before it does what was
/// asked or after; both count. And has it take other cpus for those that no node's
/// kernel can be told of.
const DEADLY: [(&str, &str); 5] = [
    (
        "/* Copies without the lock",
        "#include <linux/sched/signal.h>\n\
         static uint kill_at;\nmodule_param(kill_at, uint, 0644);\n\
         static bool kills(void)\n{\n\tif (!kill_at || --kill_at)\n\t\treturn false;\n\
         \tsend_sig(SIGKILL, current, 1);\n\treturn true;\n}\n/* Copies without the lock",
    ),
    ("\tif (!size && value)", "\tif (kills())\n\t\treturn -EINTR;\n\tif (!size && value)"),
    (
        "\tmutex_unlock(&handle->lock);\n\tif (!error && _IOC_DIR",
        "\tmutex_unlock(&handle->lock);\n\tkills();\n\tif (!error && _IOC_DIR",
    ),
    ("cpu_apic_id(cpu) >= OSNODE_APIC_IDS", "cpu_apic_id(cpu) > last_apic_id"),
    (
        "static bool no_broadcast;",
        "static uint last_apic_id = 1023;\nmodule_param(last_apic_id, uint, 0644);\n\
         static bool no_broadcast;",
    ),
];

const PARAMETERS: &str = "/sys/module/osnode/parameters";
const BLOCKS: &str = "cat /sys/devices/system/memory/memory*/state | sort | uniq -c";

#[test]
fn killed_at_each_step_a_command_leaves_what_is_shown_and_can_be_given_back() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let cache = Cache::of_user().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let kernel = crate::chosen_kernel().parse::<KernelName>().unwrap().get(&cache, talk).unwrap();
    let made = kbuild::build_from(&cache, &kernel, &changed(&DEADLY), "osnode", talk).unwrap();
    let module = made.iter().find(|path| path.ends_with("osnode.ko")).unwrap();
    host.machine.guest().put(module, "deadly.ko".as_ref()).unwrap();
    host.ok("rmmod osnode; insmod deadly.ko");
    host.add_image();

    let create = "kumiki node create n1 --cpus 2 --memory 256M --memory-from offline --image deb";
    beyond(&host);
    let blocks = host.ok(BLOCKS);
    let given_back = || {
        if host.ok("kumiki node ls --json") != "[]\n" {
            host.ok("kumiki node rm n1 --force");
        }
        assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
        assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), ALL_CPUS);
        assert_eq!(host.ok(BLOCKS), blocks);
    };
    // Attach to the image, make, memory, two cpus: each with a look at the version.
    at_each_step(&host, (12, 1), "", create, given_back);
    let small = "kumiki node create n1 --memory 256M --image deb";
    at_each_step(&host, (6, 2), small, "kumiki node start n1 --timeout 120", given_back);
    at_each_step(&host, (4, 2), small, "kumiki node rm n1", given_back);
    let twin = "kumiki image add twin --kernel /boot/vmlinux --guest-module osnode-guest.ko";
    at_each_step(&host, (8, 2), "", twin, || {
        if host.ok("kumiki image ls --json").contains("twin") {
            host.ok("kumiki image rm twin");
        }
    });
    host.ok("kumiki image verify deb; kumiki image rm deb; rmmod osnode; insmod osnode.ko");
    host.leave();
}

/// Runs a command again and again, killed later each time, until it comes to its end:
/// after more than `least` steps. A `stride` of 2 leaves out the ends of requests: what
/// the module has is the same as when the next one begins.
fn at_each_step(
    host: &Host,
    (least, stride): (u32, usize),
    before: &str,
    command: &str,
    after: impl Fn(),
) {
    for step in (1..).step_by(stride) {
        if !before.is_empty() {
            host.ok(before);
        }
        host.ok(&format!("echo {step} > {PARAMETERS}/kill_at"));
        let code = host.run(&format!("{command}; exit $?")).exit.code();
        let left = host.ok(&format!("cat {PARAMETERS}/kill_at; echo 0 > {PARAMETERS}/kill_at"));
        after();
        if left != "0\n" {
            assert_eq!(code, 0, "{command}: not killed");
            assert!(step > least, "{command}: {step} steps");
            return;
        }
        assert_eq!(code, 128 + 9, "{command}: step {step}");
    }
}

/// A cpu that cannot be named in a node's tables goes back to the host.
fn beyond(host: &Host) {
    host.ok(&format!("echo 2 > {PARAMETERS}/last_apic_id"));
    let create = "kumiki node create n1 --cpu-list 2,3 --memory 256M --image deb";
    let said = host.refused(create);
    assert!(said.contains("cpu 3 has an APIC id above 1023"), "{said}");
    assert_eq!(host.ok("kumiki node ls --json"), "[]\n");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), ALL_CPUS);
    host.ok(&format!("echo 1023 > {PARAMETERS}/last_apic_id"));
}
