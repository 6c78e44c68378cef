//! One node, from its image to the return of what it had.

use crate::Host;
use crate::pool::Kind;

#[test]
fn a_node_starts_answers_stops_and_gives_everything_back() {
    let Some(host) = Host::shared_without_image(Kind::Debian12) else { return };
    let before = host.resources();
    host.add_shipped_image();
    let images = host.ok("kumiki image ls --json");
    assert!(images.contains(r#""name":"deb""#) && images.contains(r#""state":"sealed""#));

    host.ok("kumiki node create n1 --cpus 1 --memory 288M --image deb");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-2\n");
    // The guard: the host's own way to take the cpu back is closed.
    host.run("echo 1 > /sys/devices/system/cpu/cpu3/online");
    assert_eq!(host.ok("cat /sys/devices/system/cpu/online"), "0-2\n");

    // Twice, because the first start has consumed what it was started from; the
    // second time as the kernel is shipped.
    for form in ["", "--bzimage"] {
        let stages = host.ok(&format!("kumiki node start n1 {form} --timeout 120 --json"));
        assert!(stages.contains("kernel_ms"), "{stages}");
        let host_release = host.ok("uname -r");
        assert_eq!(host.ok("kumiki node exec n1 -- uname -r"), host_release);
        assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
        // Up, and loopback: a client in a machine or node finds a server beside it.
        for machine in ["", "kumiki node exec n1 -- "] {
            assert_eq!(host.ok(&format!("{machine}cat /sys/class/net/lo/flags")), "0x9\n");
        }
        assert!(host.ok("kumiki node ls --json").contains(r#""state":"ready""#));
        let log = host.ok("kumiki node logs n1");
        assert!(log.contains("Run /bin/kumiki as init process"));
        // With it a start outlives a cpu that stands still.
        assert!(log.contains("ACPI: PM-Timer IO Port: 0x"), "{log}");
        if form.is_empty() {
            streams(&host);
        }
        let refusal = host.refused("kumiki node start n1");
        assert!(refusal.contains("kumiki node stop n1"), "{refusal}");
        let refusal = host.refused("kumiki node rm n1");
        assert!(refusal.contains("--force"), "{refusal}");
        // A node that runs holds the module.
        assert_ne!(host.run("rmmod osnode").exit.code(), 0);
        host.ok("kumiki node stop n1");
        assert!(host.ok("kumiki node ls").contains("stopped"));
    }
    host.ok("kumiki node rm n1");
    host.ok("kumiki image rm deb");
    let after = host.resources();
    assert_eq!(after.0, before.0);
    // Page cache and slabs move; a partition or an image would be 48 MiB and more.
    assert!(after.1 + 24 * 1024 > before.1, "{} KiB free, {} before", after.1, before.1);
    host.ok("rmmod osnode; insmod osnode.ko");
    host.leave();
}

/// Status, streams and their ends go through as if the command ran here.
fn streams(host: &Host) {
    let sh = |line: &str| host.run(&format!("kumiki node exec n1 -- sh -c '{line}'"));
    let output = sh("echo out; echo err >&2; exit 7");
    assert_eq!(output.exit.code(), 7);
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(sh("kill -TERM $$").exit.code(), 128 + 15);
    // A signal goes to the command, once that has said that it is there: a word of the
    // round before would have the client killed before it hears signals.
    let trapped = "rm -f said; kumiki node exec n1 -- sh -c \"trap 'exit 9' TERM; echo on; \
                   while :; do sleep 0.1; done\" > said & \
                   until grep -qs on said; do sleep 0.2; done; kill -TERM $!; wait $!";
    assert_eq!(host.run(trapped).exit.code(), 9);
    // More than a ring holds, in both directions at once.
    let there_and_back = "head -c 3000000 /dev/urandom > a; \
                          kumiki node exec n1 -- cat < a > b; cmp a b && wc -c < b";
    assert_eq!(host.ok(there_and_back), "3000000\n");
    let missing = host.run("kumiki node exec n1 -- /no/such/program");
    assert_eq!(missing.exit.code(), 127);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/no/such/program"));
    // A client that dies takes its program along and frees the channel.
    let until =
        |shown: &str| format!("until kumiki node exec n1 -- ps | {shown}; do sleep 0.2; done");
    host.ok(&format!(
        "kumiki node exec n1 -- sleep 1000 & {}; kill -9 $!; {}",
        until("grep -q 'sleep 1000'"),
        until("{ ! grep -q 'sleep 1000'; }")
    ));
    for _ in 0..10 {
        host.ok("kumiki node exec n1 -- true");
    }
}
