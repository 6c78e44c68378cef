//! Nodes that are kept asleep, and start where they slept.

use crate::Host;
use crate::pool::Kind;

/// Standing in the snapshot: a file, and a program whose client has gone.
const LEAVE: &str = "kumiki node exec n1 -- sh -c 'echo before > /tmp/said; \
                     setsid sleep 100000 < /dev/null > /dev/null 2>&1 & echo $! > /tmp/pid'";
/// What a copy of that still has.
const HAS: &str = "kumiki node exec n1 -- sh -c 'cat /tmp/said; kill -0 $(cat /tmp/pid)'";

#[test]
fn a_node_is_kept_and_starts_where_it_slept() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("kumiki node create n1 --cpus 1 --memory 256M --image deb");
    host.ok("kumiki node start n1 --timeout 120");
    host.ok(LEAVE);
    host.ok("kumiki node keep n1 warm --json");
    assert!(host.ok("kumiki node ls").contains("stopped"));
    let list = host.ok("kumiki image ls");
    assert!(list.contains("warm") && list.contains("snapshot"), "{list}");
    host.ok("kumiki image verify warm");
    let mut drawn = Vec::new();
    for _ in 0..2 {
        let stages = host.ok("kumiki node start n1 --from warm --timeout 60 --json");
        assert!(stages.contains("kernel_ms"), "{stages}");
        assert_eq!(host.ok(HAS), "before\n");
        assert_eq!(host.ok("kumiki node exec n1 -- hostname"), "n1\n");
        let late = host.ok("echo $(($(date +%s) - $(kumiki node exec n1 -- date +%s)))");
        assert!(["-1\n", "0\n", "1\n"].contains(&&*late), "{late} s behind the host");
        drawn.push(host.ok("kumiki node exec n1 -- cat /proc/sys/kernel/random/uuid"));
        host.ok("kumiki node kill n1");
    }
    assert_ne!(drawn[0], drawn[1]);
    // The image, in the same memory.
    host.ok("kumiki node start n1 --timeout 120");
    assert_ne!(host.run(HAS).exit.code(), 0);
    host.ok("kumiki node delete n1 --force; kumiki image rm warm");
    host.leave();
}
