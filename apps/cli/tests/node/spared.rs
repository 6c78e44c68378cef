//! What must not wait for others, end with them, or be had twice.

use crate::Host;
use crate::pool::Kind;

#[test]
fn a_node_is_reached_beside_others_and_ends_alone() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok(
        "kumiki node create n1 --memory 256M --image deb --rng; kumiki node start n1 --timeout 120",
    );
    let said = host.refused("kumiki node create 0 --memory 256M --image deb");
    assert!(said.contains("own kernel"), "{said}");
    the_last_channel(&host);
    one_server(&host);
    assert_eq!(
        host.ok(
            "kumiki node exec n1 -- sh -c 'echo $HOME $HOSTNAME; cat /proc/self/oom_score_adj'"
        ),
        "/root n1\n0\n"
    );
    let agents = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q 'kumiki node agent' && \
                  test $(basename $p) != 1 && cat $p/oom_score_adj; done; true";
    host.ok(&format!("cat > line <<'EOF'\n{agents}\nEOF\n"));
    assert_eq!(host.ok("kumiki node exec n1 -- sh < line"), "-1000\n");
    memory_runs_out(&host);
    // The machine's kernel would wake to cpus that are not as it left them.
    let said = host.ok("! (echo mem > /sys/power/state) 2>&1");
    assert!(said.contains("busy"), "{said}");
    ends_alone(&host);
    host.ok("kumiki node rm n1 --force; ! ls /run/kumiki-node/n1.*");
    host.leave();
}

/// Programs take all channels but one; their clients are in `pids`.
fn seven_are_busy(host: &Host) {
    // One after the other: the look at them takes a channel, too, where one is free.
    host.ok(
        "for n in 1 2 3 4 5 6 7; do p=; \
             until test $(kumiki node exec --by-host n1 -- ps | grep -c 'sleep 100[0]') = $n; do \
             test \"$p\" && kill -0 $p 2> /dev/null || { kumiki node exec n1 -- sleep 1000 & p=$!; }; \
             sleep 0.2; done; echo $p >> pids; done",
    );
}

/// Who looks at the node for the host has one still.
fn the_last_channel(host: &Host) {
    seven_are_busy(host);
    let said = host.refused("kumiki node exec n1 -- true");
    assert!(said.contains("all 7 channels of node n1"), "{said}");
    host.ok("kumiki node exec --by-host n1 -- true; kumiki node top --once 2> /dev/null | grep -q n1 || true");
    host.ok("kill $(cat pids); until kumiki node exec n1 -- true 2> /dev/null; do sleep 0.2; done");
}

/// Programs that want more than there is end by that, and nothing else does.
fn memory_runs_out(host: &Host) {
    host.ok("kumiki node exec n1 -- sh -c 'for n in 1 2 3; do \
             dd if=/dev/zero of=/dev/null bs=120M count=5 2> /dev/null & done; wait'");
    let log = host.ok("kumiki node logs n1");
    assert!(log.contains("Out of memory: Killed process"), "{log}");
    host.ok("kumiki node exec n1 -- true; kumiki node ls | grep -q ready");
}

/// Also where the first one's socket is not to be seen.
fn one_server(host: &Host) {
    host.ok("rm /run/kumiki-node/n1.serve.sock");
    let said = host.refused("kumiki node serve n1");
    assert!(said.contains("node n1 is served already"), "{said}");
    host.ok("kumiki node exec n1 -- sh -c 'head -c 16 /dev/hwrng > /dev/null'");
}

/// The machine goes on, whatever a node has switched off; what it said last is kept.
fn ends_alone(host: &Host) {
    let off = [
        "echo 0 > /proc/sys/kernel/ftrace_enabled",
        "mkdir -p /d; mount -t debugfs none /d; echo 0 > /d/kprobes/enabled",
    ];
    for (round, line) in off.into_iter().enumerate() {
        host.ok(&format!(
            "kumiki node exec n1 -- sh -c 'echo round {round} > /dev/kmsg; {line}; \
             (setsid sh -c \"sleep 1; reboot -f\" > /dev/null 2>&1 &)'; \
             until kumiki node ls | grep -q restart; do sleep 0.2; done"
        ));
        host.ok("kumiki node start n1 --timeout 120");
        let last = host.ok("kumiki node logs n1 --previous");
        assert!(last.contains(&format!("round {round}")), "{last}");
        assert!(!host.ok("kumiki node logs n1").contains("round"));
    }
}

#[test]
#[ignore = "a minute of waiting: `cargo xtask test long`, after a change to how a node shows that it lives"]
fn a_node_whose_agent_stands_still_hangs() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("cat > one.toml <<'EOF'\n[node.n1]\nimage = \"deb\"\nmemory = \"256M\"\nrestart = true\nEOF\n\
             kumiki node apply one.toml --timeout 240; \
             kumiki node supervise one.toml > watched 2>&1 & echo $! > watch.pid");
    host.ok("sleep 25; kumiki node ls | grep -q ready");
    host.ok("(kumiki node exec n1 -- sh -c 'for p in /proc/[0-9]*; do \
             grep -q agent $p/cmdline 2> /dev/null && kill -STOP $(basename $p); done' &); \
             for n in $(seq 1200); do grep -q 'n1: it hangs' watched && break; sleep 0.2; done; \
             cat watched >&2; grep 'n1: it hangs: its agent has shown no sign of life' watched");
    host.ok(
        "for n in $(seq 1200); do kumiki node ls --json | grep -q '\"state\":\"ready\"' && break; \
             sleep 0.2; done; kumiki node exec n1 -- true; kill $(cat watch.pid)",
    );
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

/// Who could not ask says nothing of the service: it is neither ended nor called unhealthy.
#[test]
#[ignore = "a minute of waiting: `cargo xtask test long`, after a change to channels or health checks"]
fn a_service_all_of_whose_channels_are_busy_goes_on() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok(
        "cat > one.toml <<'EOF'\n[node.n1]\nimage = \"deb\"\nmemory = \"256M\"\nrestart = true\n\
             health = \"exec:test -e /tmp/well\"\nEOF\nkumiki node apply one.toml --timeout 240 & \
             until kumiki node exec n1 -- touch /tmp/well; do sleep 0.5; done; wait $!",
    );
    host.ok("kumiki node supervise one.toml > watched 2>&1 & echo $! > watch.pid; \
             until kumiki node ls --json | grep -q '\"state\":\"up\"'; do sleep 0.2; done");
    seven_are_busy(&host);
    // With the last one they are all in use, but for the moment in which it is asked.
    host.ok("for n in $(seq 20); do test \"$p\" && kill -0 $p 2> /dev/null || \
             { kumiki node exec --by-host n1 -- sleep 1000 & p=$!; }; sleep 0.5; done; \
             kill -0 $p; echo $p >> pids");
    let said = host.refused("kumiki node exec --by-host n1 -- true");
    assert!(said.contains("channels of node n1"), "{said}");
    // Three in a row that are not well would be its end, five seconds from each to the next.
    host.ok("sleep 25; cat watched >&2; kumiki node ls >&2; ! grep -q healthy watched");
    assert!(host.ok("kumiki node ls --json").contains(r#""state":"up""#));
    // One that is asked, and is not well.
    host.ok("kill $(cat pids); until kumiki node exec n1 -- rm /tmp/well 2> /dev/null; do sleep 0.2; done; \
             for n in $(seq 300); do grep -q 'n1: it is not healthy' watched && exit; sleep 0.2; done; \
             cat watched; false");
    host.ok(
        "kill $(cat watch.pid); while kill -0 $(cat watch.pid) 2> /dev/null; do sleep 0.1; done; \
             kumiki node rm n1 --force",
    );
    host.leave();
}
