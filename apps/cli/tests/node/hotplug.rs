//! Memory that goes to a node and comes back while it runs, and what does not let go.

use kumiki_lab::Config;

use crate::Host;
use crate::pool::Kind;

/// KiB that the node's kernel has.
fn there(host: &Host) -> u64 {
    let line = host.ok("kumiki node exec n1 -- grep MemTotal /proc/meminfo");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes that the module gives the node.
fn given(host: &Host) -> u64 {
    let memory = host.ok("cat /sys/class/misc/kumiki-osnode/nodes/n1/memory");
    let bytes = |line: &str| {
        let word = line.split_whitespace().nth(1).unwrap();
        u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
    };
    memory.lines().map(bytes).sum::<u64>() >> 20
}

fn set(host: &Host, memory: &str) -> String {
    host.ok(&format!("kumiki node set n1 --memory {memory}"))
}

/// A node of 256 MiB that gets as much again and gives it back, its disk and card at work.
fn memory_comes_and_goes(host: &Host, rounds: usize) {
    host.ok("truncate -s 512M disk; dd if=/dev/urandom of=disk bs=1M count=160 conv=notrunc; \
             kumiki node create n1 --cpus 1 --memory 256M --image deb --disk disk \
             --net auto,address=10.77.0.2/24,host=10.77.0.1/24");
    let refusal = host.refused("kumiki node set n1 --memory 512M");
    assert!(refusal.contains("has not run since it was made"), "{refusal}");
    host.ok("kumiki node start n1 --timeout 240");
    let before = there(host);
    let refusal = host.refused("kumiki node set n1 --memory 254M");
    assert!(refusal.contains("256M to 8320M are possible, in steps of 128M"), "{refusal}");
    host.ok("(ping -i 0.05 10.77.0.2 > pings 2>&1 & echo $! > ping.pid)");
    for _ in 0..rounds {
        // The next step above.
        assert_eq!(set(host, "500M"), "512M\n");
        assert!(there(host) > before + (250 << 10) && given(host) == 512);
        // More than it had free before, read and written by its disk past all caches.
        for from in ["/dev/zero iflag=fullblock", "/dev/vda iflag=fullblock,direct"] {
            host.ok(&format!(
                "kumiki node exec n1 -- dd if={from} of=/dev/vda bs=160M count=1 seek=1 \
                 oflag=direct conv=notrunc"
            ));
        }
        host.ok(
            "dd if=disk of=copy bs=160M count=1 skip=1; dd if=disk bs=160M count=1 | cmp - copy",
        );
        assert_eq!(set(host, "384M"), "384M\n");
        assert_eq!(set(host, "256M"), "256M\n");
        let now = there(host);
        assert!(now.abs_diff(before) < 8 << 10 && given(host) == 256, "{now} KiB, was {before}");
    }
    host.ok("kill -INT $(cat ping.pid); until grep -q 'packets transmitted' pings; do sleep 0.1; \
             done; grep ' 0% packet loss' pings");
    let log = host.ok("kumiki node logs n1");
    assert!(!log.contains("WARNING") && !log.contains("BUG"), "{log}");
}

#[test]
fn memory_comes_and_goes_while_a_node_runs() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    memory_comes_and_goes(&host, 1);
    assert_eq!(set(&host, "384M"), "384M\n");
    // A kernel that cannot do without is told, and not hurt.
    host.ok(
        "kumiki node exec n1 -- sh -c 'mkdir /full && mount -t tmpfs -o size=300M none /full && \
             yes kumiki | head -c 230000000 > /full/a'",
    );
    let refusal = host.refused("kumiki node set n1 --memory 256M");
    assert!(refusal.contains("does not let go of 128M of its memory"), "{refusal}");
    assert_eq!(given(&host), 384);
    host.ok("kumiki node exec n1 -- sh -c 'yes kumiki | head -c 230000000 | cmp - /full/a'");
    host.ok("kumiki node exec n1 -- rm /full/a");
    assert_eq!(set(&host, "256M"), "256M\n");
    // It stays over a start from the image, and over a sleep, and goes after either.
    assert_eq!(set(&host, "384M"), "384M\n");
    let more = there(&host);
    host.ok("kumiki node restart n1 --timeout 240");
    assert!(there(&host).abs_diff(more) < 8 << 10);
    host.ok("kumiki node keep n1 warm; kumiki node start n1 --from warm --timeout 240");
    assert!(there(&host).abs_diff(more) < 8 << 10);
    assert_eq!(set(&host, "256M"), "256M\n");
    let refusal = host.refused("kumiki node stop n1; kumiki node start n1 --from warm");
    assert!(refusal.contains("memory at"), "{refusal}");
    // One that rests has it with its next start.
    assert_eq!(set(&host, "384M"), "384M\n");
    host.ok("kumiki image rm warm; kumiki node start n1 --timeout 240");
    assert!(there(&host).abs_diff(more) < 8 << 10);
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to how memory comes and goes"]
fn memory_comes_and_goes_on_debian_13() {
    let memory = |config: &mut Config| config.memory_bytes = 3 << 30;
    let Some(host) = Host::own("6.12", memory) else { return };
    host.add_image();
    memory_comes_and_goes(&host, 2);
    host.ok("kumiki node rm n1 --force; kumiki image rm deb");
    host.leave();
}
