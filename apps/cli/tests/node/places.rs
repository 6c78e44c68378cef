//! Places of an OS node, called from its host as those of any process there.

use crate::Host;
use crate::pool::Kind;

const ALLOW: &str = "list = true\n[kind.counter]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n\
                     [kind.process]\ncreate = true\ndestroy = true\nparts = [\"*\"]\n";

/// A host whose image brings the whole command, which a node's own is not.
pub(crate) fn with_the_command() -> Option<Host> {
    let host = Host::shared_without_image(Kind::Debian12)?;
    host.ok("kumiki image add deb --kernel /boot/vmlinux --guest-module osnode-guest.ko \
             --program /bin/kumiki");
    Some(host)
}

#[test]
fn a_node_s_place_is_called_from_the_host_and_the_node_s_end_answers_pending_calls() {
    let Some(host) = with_the_command() else { return };
    host.ok(&format!("printf '%s' '{ALLOW}' > allow"));
    host.ok("kumiki node create n1 --cpus 1 --memory 320M --image deb");
    let hits = "n1.core0/counter/hits";
    let attach = |host: &Host| {
        host.ok("kumiki node exec n1 -- sh -c 'cat > /tmp/allow' < allow");
        host.ok("kumiki node exec n1 -- kumiki place serve --allow /tmp/allow > served 2>&1 < /dev/null & \
                 until grep -qs 'serving n1.core0' served; do sleep 0.2; done");
        host.ok("kumiki place attach n1 > attached 2> said < /dev/null & echo $! > attach.pid; \
                 until grep -qs '+ n1.core0' attached; do sleep 0.2; done");
    };
    // The node is killed, and its kernel panics.
    let ends =
        ["kumiki node kill n1", "kumiki node exec n1 -- sh -c 'echo c > /proc/sysrq-trigger'"];
    for end in ends {
        host.ok("rm -f attached served; kumiki node start n1 --timeout 120");
        attach(&host);
        host.ok(&format!("kumiki resource create {hits} 41"));
        assert_eq!(host.ok(&format!("kumiki resource call {hits} add 1")), "42\n");
        // The node's own programs see the same one.
        assert_eq!(
            host.ok(&format!("kumiki node exec n1 -- kumiki resource call {hits} get")),
            "42\n"
        );
        assert_eq!(host.ok("kumiki run n1.core0 -- uname -n"), "n1\n");
        let chosen = host.ok("kumiki resource create 'n1.*/counter/more' 1 --choose least-loaded");
        assert!(chosen.starts_with("n1.core0 0x"), "{chosen}");

        host.ok(r#"kumiki resource create n1.core0/process/long '{"words":["sleep","1000"]}'"#);
        // A call that blocks, and somebody who watches.
        host.ok("rm -f news; kumiki resource watch n1.core0 > news 2>&1 & \
                 until grep -qs 'is here' news; do sleep 0.2; done");
        host.ok(
            "kumiki resource call n1.core0/process/long take '{\"wait_ms\":60000}' > pending 2>&1 < /dev/null & \
                 until kumiki node exec n1 -- kumiki resource ls --json | tr '{' '\\n' | \
                 grep process/long | grep -q '\"calls\":1'; do sleep 0.2; done",
        );
        host.run(end);
        host.ok("until grep -q unknown pending && grep -q 'is gone' news && test -s said; do sleep 0.1; done");
        let pending = host.ok("cat pending");
        assert!(pending.contains("it has gone before it answered"), "not at once: {pending}");
        let gone = host.refused(&format!("kumiki resource call {hits} add 1"));
        assert!(gone.contains("nobody answers"), "{gone}");
        let said = host.ok("cat said");
        assert!(said.contains("the places of n1 are gone"), "{said}");
    }
    host.ok("kumiki node rm n1 --force");
    host.ok("kumiki image rm deb");
    host.leave();
}

/// A place in a node, and a counter there.
fn serve(host: &Host) {
    host.ok("kumiki node exec n1 -- sh -c 'cat > /tmp/allow' < allow");
    host.ok("rm -f served; kumiki node exec n1 -- sh -c 'echo $$ > /tmp/pid; \
             exec kumiki place serve --allow /tmp/allow' > served 2>&1 < /dev/null & \
             until grep -qs 'serving n1.core0' served; do sleep 0.2; done");
    host.ok("kumiki node exec n1 -- kumiki resource create n1.core0/counter/hits 41");
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to lines to places or to the window"]
fn a_node_s_place_is_called_by_a_line_in_the_window_and_every_end_answers_the_call() {
    let Some(host) = with_the_command() else { return };
    host.ok(&format!("printf '%s' '{ALLOW}' > allow"));
    host.ok("kumiki node create n1 --cpus 1 --memory 320M --image deb");
    let call = "kumiki resource call n1.core0/counter/hits";
    let get = "kumiki node exec n1 -- kumiki resource call n1.core0/counter/hits get";
    let ends = [
        "kumiki node exec n1 -- sh -c 'kill -9 $(cat /tmp/pid)'",
        "kumiki node kill n1",
        "kumiki node exec n1 -- sh -c 'echo c > /proc/sysrq-trigger'",
    ];
    for (n, end) in ends.into_iter().enumerate() {
        if n != 1 {
            host.ok("kumiki node start n1 --timeout 120");
        }
        serve(&host);
        assert_eq!(host.ok(&format!("{call} add 1 --line")), "42\n");
        // Many, and each once; a process of the node sees the same one.
        assert_eq!(host.ok(&format!("{call} add 1 --line --times 1000")), "1042\n");
        assert_eq!(host.ok(get), "1042\n");
        let refused = host.refused(&format!("{call} nothing --line"));
        assert!(refused.contains("no program part nothing"), "{refused}");
        // Two processes of the host, each by a channel of its own, and a third that pends at the end.
        host.ok(&format!(
            "{call} add 1 --line --times 500 & {call} add 1 --line --times 500; wait"
        ));
        assert_eq!(host.ok(get), "2042\n");
        host.ok(&format!(
            "{call} add 1 --line --times 1000000000 > pending 2>&1 < /dev/null & \
             until test $({get}) -gt 2142; do sleep 0.1; done"
        ));
        host.run(end);
        host.ok("until grep -q . pending; do sleep 0.1; done");
        let pending = host.ok("cat pending");
        let is_one = pending.contains("it has gone before it answered")
            || pending.contains("nobody answers at place n1.core0");
        assert!(is_one, "not at once: {pending}");
    }
    host.ok("kumiki node rm n1 --force");
    host.ok("kumiki image rm deb");
    host.leave();
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to places that are lent to nodes"]
fn a_node_calls_its_host_and_another_node_by_it_and_hears_of_their_ends_at_once() {
    let Some(host) = with_the_command() else { return };
    host.ok(&format!("printf '%s' '{ALLOW}' > allow"));
    for node in ["n1", "n2"] {
        host.ok(&format!("kumiki node create {node} --cpus 1 --memory 320M --image deb"));
        host.ok(&format!("kumiki node start {node} --timeout 120"));
    }
    serve(&host);
    let until =
        |word: &str, file: &str| format!("until grep -qs '{word}' {file}; do sleep 0.2; done");
    host.ok(&format!(
        "rm -f attached lent web weblent; \
         kumiki place serve --host web --cpus 0 --allow allow > web 2>&1 < /dev/null & echo $! > web.pid; {}; \
         kumiki place attach n1 > attached 2>&1 < /dev/null & {}; \
         kumiki place lend n1 n2 > lent 2>&1 < /dev/null & {}; \
         kumiki place lend web n2 > weblent 2>&1 < /dev/null & {}",
        until("serving web.core0", "web"),
        until("+ n1.core0", "attached"),
        until("+ n1.core0", "lent"),
        until("+ web.core0", "weblent"),
    ));
    // All are listed here: those of this kernel, and of the node by its socket and by its lines.
    let listed = host.ok("kumiki resource ls --all");
    for part in ["n1.core0", "counter/hits", "web.core0", "serving by"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    host.ok("kumiki resource create web.core0/counter/all 0");
    let n2 = |words: &str| format!("kumiki node exec n2 -- kumiki resource {words}");
    // Both count at both, and each call counts once.
    for n in 1..=10 {
        assert_eq!(host.ok(&n2("call n1.core0/counter/hits add 1")), format!("{}\n", 41 + n));
        assert_eq!(host.ok(&n2("call web.core0/counter/all add 1")), format!("{}\n", 2 * n - 1));
        let here = host.ok("kumiki resource call web.core0/counter/all add 1");
        assert_eq!(here, format!("{}\n", 2 * n));
    }
    let refused = host.refused(&n2("call web.core0/counter/none get"));
    assert!(refused.contains("no resource is called"), "{refused}");
    // A node that is killed answers what another one has under way; then the host's process does.
    let pends = |place: &str, end: &str| {
        let long = format!("{place}/process/long");
        host.ok(&n2(&format!(r#"create {long} '{{"words":["sleep","1000"]}}'"#)));
        host.ok(&format!(
            "rm -f pending; {} > pending 2>&1 < /dev/null & \
             until kumiki resource ls '{long}' --json | grep -q '\"calls\": *1'; do sleep 0.2; done",
            n2(&format!(r#"call {long} take '{{"wait_ms":60000}}'"#)),
        ));
        host.run(end);
        host.ok("until grep -q . pending; do sleep 0.1; done");
        let pending = host.ok("cat pending");
        assert!(pending.contains("it has gone before it answered"), "not at once: {pending}");
        let gone = host.refused(&n2(&format!("call {place}/counter/hits get")));
        assert!(gone.contains("nobody answers"), "{gone}");
    };
    pends("n1.core0", "kumiki node kill n1");
    pends("web.core0", "kill -9 $(cat web.pid)");
    host.ok("kumiki node rm n1 --force; kumiki node rm n2 --force");
    host.ok("kumiki image rm deb");
    host.leave();
}
