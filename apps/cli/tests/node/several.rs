//! Nodes of several cpus, and several nodes at once.

use kumiki_lab::{Accelerator, Config};

use crate::pool::{Kind, Turn};
use crate::{ALL_CPUS, Host, another_kernel, built, had};

/// Two nodes of a host: one of two cpus with the host's kernel, and one of two
/// pieces of memory with another.
fn nodes(host: &Host, other: &str) {
    let other = built(other).unwrap();
    host.ok("mkdir other");
    host.put(&other, "/root/other/vmlinuz", "/root/other/osnode-guest.ko");
    host.ok("kumiki image add other --kernel other/vmlinuz --guest-module other/osnode-guest.ko; \
         rm other/vmlinuz");
    host.ok("kumiki node create n1 --cpus 2 --memory 256M --image deb");
    // Words that its kernel does not know, and one that lacks its value.
    let words = "--append 'no_such_word --other panic_on_warn'";
    host.ok(&format!("kumiki node create n2 --cpus 1 --memory 192M,64M --image other {words}"));
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0\n");
    host.ok("kumiki node start n1 --timeout 120");
    host.ok("kumiki node start n2 --timeout 120");
    assert_eq!(host.ok("kumiki node exec n1 -- nproc"), "2\n");
    assert_eq!(host.ok("kumiki node exec n2 -- nproc"), "1\n");
    assert_eq!(host.ok("kumiki node exec n2 -- uname -r"), format!("{}\n", other.kernel.version));
    // The second piece is memory, too: the first alone has less than 192 MiB.
    let total = host.ok("kumiki node exec n2 -- grep MemTotal: /proc/meminfo");
    let kib: u64 = total.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib > 192 << 10, "{total}");
    // Talks at the same time, each with its own node.
    let both =
        host.ok("for n in 1 2 1 2 1 2; do kumiki node exec n$n -- hostname & done | sort; wait");
    assert_eq!(both, "n1\nn1\nn1\nn2\nn2\nn2\n");
    // The first ends, the second lives on.
    host.ok("kumiki node stop n1");
    host.ok("kumiki node rm n1");
    assert_eq!(host.ok("kumiki node exec n2 -- hostname"), "n2\n");
    host.ok("kumiki node rm n2 --force");
    host.ok("kumiki image rm other");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), ALL_CPUS);
}

#[test]
fn two_nodes_and_a_node_of_two_cpus_on_debian_12() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    nodes(&host, another_kernel());
    host.leave();
}

/// As many nodes as a machine has cpus beside the host's, by one file; then half of them again
/// by one command.
#[test]
#[ignore = "minutes: emulated cpus share the real ones; `cargo xtask test long`, after a change to starts"]
fn twelve_nodes_at_once() {
    let wanted = |config: &mut Config| {
        config.cpus = 13;
        config.memory_bytes = 5 << 30;
    };
    let Some(host) = Host::own("6.1", wanted) else { return };
    host.add_image();
    let nodes: Vec<_> = (1..=12).map(|n| format!("n{n}")).collect();
    let mut file = String::new();
    for node in &nodes {
        file += &format!("[node.{node}]\nimage = \"deb\"\nmemory = \"256M\"\n");
    }
    host.ok(&format!("cat > twelve.toml <<'EOF'\n{file}EOF\n"));
    let free = host.ok("cat /sys/class/misc/kumiki-osnode/slices_free");
    host.ok("kumiki node apply twelve.toml --timeout 300");
    let left = host.ok("cat /sys/class/misc/kumiki-osnode/slices_free");
    assert_eq!(left.trim().parse(), free.trim().parse::<u32>().map(|free| free - 12));
    let say = |node: &String| format!("kumiki node exec {node} -- hostname");
    let names: Vec<_> = nodes.iter().map(say).collect();
    assert_eq!(host.ok(&names.join("; ")), nodes.join("\n") + "\n");
    let half = nodes[..6].join(" ");
    host.ok(&format!("for n in {half}; do kumiki node kill $n; done"));
    host.ok(&format!("kumiki node start {half} --timeout 300"));
    assert_eq!(host.ok(&names.join("; ")), nodes.join("\n") + "\n");
    host.ok("for n in $(seq 12); do kumiki node rm n$n --force; done; kumiki image rm deb");
    assert_eq!(host.ok("cat /sys/class/misc/kumiki-osnode/slices_free"), free);
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-12\n");
}

/// QEMU's emulation has an x2APIC from version 9 on.
fn in_x2apic(more: impl Fn(&mut Config)) -> Option<Host> {
    let wanted = |config: &mut Config| {
        let words = "-cpu max,+x2apic,enforce -device intel-iommu,intremap=on,eim=on";
        config.qemu.extend(words.split(' ').map(Into::into));
        config.accelerator = Accelerator::Tcg;
        more(config);
    };
    match Host::start("6.1", wanted, Turn::wait()) {
        // Of more than 255 cpus an older one says the second.
        Err(error)
            if error.to_string().contains("TCG doesn't support requested features")
                || error.to_string().contains("requires kernel irqchip and X2APIC") =>
        {
            eprintln!("skipped: this QEMU emulates no x2APIC");
            None
        }
        host => had(host),
    }
}

/// Cpus that only an x2APIC can name, by the last numbers that QEMU gives.
#[test]
#[ignore = "ten minutes: `cargo xtask test long`, by itself, after a change to how cpus are named or started"]
fn nodes_of_cpus_above_254() {
    let many = |config: &mut Config| {
        (config.cpus, config.memory_bytes) = (288, 6 << 30);
        // What each of them would measure for seconds: ticks of a timer, for a loop that counts time stamps.
        config.append.push("lpj=10000000".to_owned());
    };
    let Some(host) = in_x2apic(many) else { return };
    host.add_image();
    host.ok("kumiki node create n1 --cpu-list 287 --memory 256M --image deb; \
             kumiki node create n2 --cpu-list 286,285 --memory 256M --image deb");
    assert_eq!(host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/cpus"), "287 287\n");
    let said = host.refused("kumiki node create n3 --cpus 65 --memory 1G --image deb");
    assert!(said.contains("65 cpus: a node has 1 to 64"), "{said}");
    let start = "kumiki node start n1 --timeout 900";
    for line in [&format!("{start} n2"), &format!("kumiki node kill n1; {start}")] {
        host.ok(line);
        assert_eq!(host.ok("kumiki node exec n1 -- nproc; kumiki node exec n2 -- nproc"), "1\n2\n");
        let log = host.ok("kumiki node logs n1; kumiki node logs n2");
        assert!(!log.contains("WARNING"), "{log}");
    }
    host.ok("kumiki node rm n1 --force; kumiki node rm n2 --force; kumiki image rm deb");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-287\n");
}

#[test]
fn nodes_of_a_host_in_x2apic() {
    let Some(host) = in_x2apic(|_| ()) else { return };
    assert!(host.machine.guest().log_text().contains("x2apic enabled"));
    host.add_image();
    nodes(&host, another_kernel());
    host.leave();
}

#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to starts or to where memory is"]
fn the_same_above_4_gib_on_debian_13() {
    let Some(host) = Host::shared(Kind::Debian13) else { return };
    nodes(&host, "6.1");
    // The allocator begins at the upper end.
    host.ok("kumiki node create n3 --memory 256M --image deb");
    let first = host.ok("head -n 1 /sys/class/misc/kumiki-osnode/nodes/n3/memory");
    let address = u64::from_str_radix(&first[2..first.find(' ').unwrap()], 16).unwrap();
    assert!(address >= 4 << 30, "{first}");
    host.ok("kumiki node rm n3");
    host.leave();
}
