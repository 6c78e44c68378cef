//! What a node may do without harm to the host and to other nodes.

use kumiki_lab::{Cache, KernelName, Talk, kbuild};

use crate::Host;
use crate::pool::Kind;
use crate::refused::changed;

/// A module that stops the cpu that loads it for good.
const LOOP: &str = r#"
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/processor.h>
static int __init loop_init(void)
{
	local_irq_disable();
	for (;;)
		cpu_relax();
	return 0;
}
module_init(loop_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("An endless loop with interrupts off");
"#;

#[test]
fn a_node_that_loops_with_interrupts_off_is_got_back_and_others_live_on() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let cache = Cache::of_user().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let kernel = crate::chosen_kernel().parse::<KernelName>().unwrap().get(&cache, talk).unwrap();
    let sources = [("loop/Kbuild", "obj-m := loop.o\n"), ("loop/loop.c", LOOP)]
        .map(|(path, text)| (path.into(), text.as_bytes().to_vec()));
    let module = kbuild::build_from(&cache, &kernel, &sources, "loop", talk).unwrap();
    host.machine.guest().put(&module[0], "loop.ko".as_ref()).unwrap();
    for name in ["n1", "n2"] {
        host.ok(&format!("kumiki node create {name} --memory 256M --image deb"));
        host.ok(&format!("kumiki node start {name} --timeout 120"));
    }
    for way in ["stop n1 --timeout 2", "kill n1"] {
        host.ok("kumiki node exec n1 -- sh -c 'cat > /loop.ko' < loop.ko");
        // No word of the program that ends it is waited for: its one cpu may stop before the agent
        // has sent it. It is gone, ...
        host.ok("kumiki node exec n1 -- insmod /loop.ko > /dev/null 2>&1 & \
                 while timeout -s KILL 3 kumiki node exec n1 -- hostname; do sleep 0.2; done");
        // ... the others are not, and what is written is read again.
        assert_eq!(host.ok("kumiki node exec n2 -- hostname"), "n2\n");
        host.ok("head -c 3000000 /dev/urandom > a; kumiki node exec n2 -- cat < a > b; cmp a b");
        host.ok(&format!("kumiki node {way}"));
        host.ok("kumiki node start n1 --timeout 120");
        assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
    }
    host.ok("kumiki node rm n1 --force; kumiki node rm n2 --force");
    host.leave();
}

/// Has the module see, at will, that an interrupt is not delivered; has as many SIPIs as one
/// says sent to nobody; and has memory be taken, and mapped page by page, for as long as one wants: from 1 on,
/// which is 2 once it waits.
const LOSSY: [(&str, &str); 6] = [
    (
        "static unsigned long alloc_range;",
        "#include <linux/delay.h>\nstatic uint slow;\nmodule_param(slow, uint, 0644);\n\
         static void be_slow(void)\n{\n\tif (slow)\n\t\tslow = 2;\n\twhile (READ_ONCE(slow))\n\
         \t\tmsleep(10);\n}\nstatic unsigned long alloc_range;",
    ),
    ("\tfor (zone = ZONE_NORMAL;", "\tbe_slow();\n\tfor (zone = ZONE_NORMAL;"),
    ("\tfor (; at < vma->vm_end", "\tbe_slow();\n\tfor (; at < vma->vm_end"),
    (
        "static int ipi(u32",
        "#include <linux/moduleparam.h>\nstatic bool lost;\nmodule_param(lost, bool, 0644);\n\
         static uint forgotten;\nmodule_param(forgotten, uint, 0644);\nstatic int ipi(u32",
    ),
    (
        "unsigned int turns = 0;\n",
        "unsigned int turns = 0;\n\tif (forgotten && (command & 0x700) == APIC_DM_STARTUP) {\n\
         \t\tforgotten--;\n\t\treturn 0;\n\t}\n",
    ),
    ("apic->icr_read() & APIC_ICR_BUSY &&", "(lost || apic->icr_read() & APIC_ICR_BUSY) &&"),
];

#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to how the module sends INIT and SIPI"]
fn an_interrupt_that_does_not_arrive_is_told_or_sent_again() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let cache = Cache::of_user().unwrap();
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let kernel = crate::chosen_kernel().parse::<KernelName>().unwrap().get(&cache, talk).unwrap();
    let sources = changed(&LOSSY);
    let made = kbuild::build_from(&cache, &kernel, &sources, "osnode", talk).unwrap();
    let module = made.iter().find(|path| path.ends_with("osnode.ko")).unwrap();
    host.machine.guest().put(module, "lossy.ko".as_ref()).unwrap();
    host.ok("rmmod osnode; insmod lossy.ko");
    host.add_image();
    host.ok("kumiki node create n1 --memory 256M --image deb");
    let lost = |yes: u32| host.ok(&format!("echo {yes} > /sys/module/osnode/parameters/lost"));

    lost(1);
    let said = host.refused("kumiki node start n1");
    assert!(said.contains("was not seen to arrive") && said.contains("kumiki node kill n1"));
    // It may run: nobody else gets its cpu, its memory or the module.
    assert!(host.ok("kumiki node ls --json").contains(r#""state":"starting""#));
    for line in ["kumiki node start n1", "kumiki node rm n1", "kumiki node kill n1"] {
        host.refused(line);
    }
    assert_ne!(host.run("rmmod osnode").exit.code(), 0);
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-2\n");
    lost(0);
    host.ok("kumiki node kill n1");
    // More SIPIs go astray than a processor is sent.
    host.ok("echo 5 > /sys/module/osnode/parameters/forgotten");
    host.ok("kumiki node start n1 --timeout 120");
    assert_eq!(host.ok("cat /sys/module/osnode/parameters/forgotten"), "0\n");
    assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
    beside_memory(&host);
    lost(1);
    let said = host.refused("kumiki node rm n1 --force");
    assert!(said.contains("stopping node n1") && said.contains("was not seen to arrive"));
    assert!(host.ok("kumiki node ls").contains(" n1 "));
    lost(0);
    host.ok("kumiki node rm n1 --force");
    host.ok("kumiki image rm deb; rmmod osnode; insmod osnode.ko");
    host.leave();
}

/// While memory is taken for a node, or mapped by who serves it, the others are reached, stopped and
/// started.
fn beside_memory(host: &Host) {
    let slow = "/sys/module/osnode/parameters/slow";
    for line in ["create n2 --memory 256M --image deb --rng", "start n2 --timeout 240"] {
        host.ok(&format!(
            "echo 1 > {slow}; (kumiki node {line}; echo ended $?) > slowly 2>&1 & \
             until test $(cat {slow}) = 2; do sleep 0.1; done"
        ));
        for other in ["exec n1 -- hostname", "ls", "stop n1", "start n1 --timeout 120"] {
            host.ok(&format!("timeout 240 kumiki node {other}"));
        }
        host.ok(&format!(
            "test $(cat {slow}) = 2; ! grep ended slowly; echo 0 > {slow}; \
             until grep -q ended slowly; do sleep 0.1; done; grep 'ended 0' slowly"
        ));
    }
    host.ok("kumiki node exec n2 -- sh -c 'head -c 16 /dev/hwrng > /dev/null'; kumiki node rm n2 --force");
}

#[test]
fn what_ends_a_node_leaves_the_host_and_is_told() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --cpus 1 --memory 256M --image deb");
    host.ok("kumiki node start n1 --timeout 120");
    for (command, word) in [
        ("reboot -f", "restart"),
        ("poweroff -f", "halted"),
        ("sh -c \"echo c > /proc/sysrq-trigger\"", "panic"),
    ] {
        let output = host.run(&format!("kumiki node exec n1 {command}"));
        assert_eq!(output.exit.code(), 2);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("has ended ({word})")), "{said}");
        let list = host.ok("kumiki node ls --json");
        assert!(list.contains(&format!(r#""word":"{word}""#)), "{list}");
        assert_eq!(list.contains("sysrq triggered crash"), word == "panic", "{list}");
        assert!(!host.ok("kumiki node logs n1").is_empty());
        // From the image that is still there.
        host.ok("kumiki node restart n1 --timeout 120");
        assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
    }
    in_order(&host);
    // A node that is busy is not asked.
    host.run("kumiki node exec n1 -- sh -c 'while :; do :; done' > /dev/null 2>&1 & sleep 1");
    host.ok("kumiki node kill n1");
    host.ok("kumiki node rm n1");
    host.leave();
}

/// Without `-f` the first process is asked, which has programs end first; and what has ended
/// is in nobody's way.
fn in_order(host: &Host) {
    for (command, word) in [("reboot", "restart"), ("poweroff", "halted")] {
        // What a program says as it is told to end still arrives. It waits for a process
        // beside it: of a shell that runs one after the other a trap was missed once.
        host.ok(
            "rm -f said; (kumiki node exec n1 sh -c \"trap 'echo told; exit 3' TERM; sleep 1000 & \
                 echo on; while :; do wait; done\"; echo $?) > said & \
                 until grep -qs on said; do sleep 0.2; done",
        );
        host.run(&format!("kumiki node exec n1 {command}"));
        let until =
            format!(r#"until kumiki node ls --json | grep '"word":"{word}"'; do sleep 0.2; done"#);
        host.ok(&until);
        host.ok("until grep '^[0-9]' said; do sleep 0.2; done");
        let said = host.ok("cat said");
        assert!(said.starts_with("on\ntold\n"), "{said}");
        let plan = host.ok("kumiki node plan");
        assert!(plan.starts_with("free cpus: 2,1 (node n1 has 3), room for 15 more nodes\n"));
        host.ok("kumiki node start n1 --timeout 120");
    }
    by_memory(host);
    host.run("kumiki node exec n1 halt");
    host.ok(r#"until kumiki node ls --json | grep '"word":"halted"'; do sleep 0.2; done"#);
    host.ok("kumiki node rm n1");
    host.ok("kumiki node create n1 --memory 256M --image deb; kumiki node start n1 --timeout 120");
}

/// A node's kernel reads ports 0xcf8 and 0xcfc: as long as it may, the host does not.
///
/// Tasks' names are not recorded: for that the kernel patches its scheduler, and of a cpu that runs there
/// meanwhile QEMU's emulation may see the breakpoint for good.
fn by_memory(host: &Host) {
    host.ok("echo 0 > /sys/kernel/debug/tracing/options/record-cmd");
    let seen = |way: &str| {
        host.ok(&format!(
            "cd /sys/kernel/debug/tracing; echo pci_conf1_read pci_mmcfg_read > set_ftrace_filter; \
             echo function > current_tracer; cat /sys/bus/pci/devices/*/config > /dev/null; \
             {{ grep -c {way} trace || true; }}; echo nop > current_tracer; echo > set_ftrace_filter"
        ))
    };
    let none = "0\n";
    assert!(seen("pci_conf1_read") == none && seen("pci_mmcfg_read") != none);
    host.ok("kumiki node kill n1");
    assert!(seen("pci_mmcfg_read") == none && seen("pci_conf1_read") != none);
    host.ok("kumiki node start n1 --timeout 120");
}
