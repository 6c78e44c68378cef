//! What may happen while a node is kept.

use crate::Host;
use crate::pool::Kind;

/// Stops the processes of the host that serve the node, and notes which.
const SERVERS_STOP: &str = "for one in /proc/[0-9]*; do tr '\\0' ' ' < $one/cmdline 2> /dev/null | \
                            grep -q 'noded serv[e]' && echo ${one#/proc/}; done > servers; \
                            test -s servers && kill -STOP $(cat servers)";

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to keep.rs or to how a node falls asleep"]
fn a_node_that_is_not_kept_goes_on_or_starts_again() {
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    host.ok("truncate -s 8M disk; kumiki node create n1 --memory 256M --image deb --disk disk; \
             kumiki node start n1 --timeout 120; \
             kumiki node exec n1 -- sh -c 'until test -b /dev/vda; do sleep 0.1; done; echo 1 > /tmp/said'");
    a_stuck_task_is_named(&host);
    one_of_two_keeps_it(&host);
    killed_in_the_midst(&host);
    host.ok("kumiki node rm n1 --force");
    host.leave();
}

/// It reads from a disk whose server answers nothing, and cannot be frozen.
fn a_stuck_task_is_named(host: &Host) {
    host.ok(SERVERS_STOP);
    host.ok("kumiki node exec n1 -- sh -c '(setsid dd if=/dev/vda of=/dev/null bs=4k count=1 iflag=direct \
             > /dev/null 2>&1 &); until grep -q \"State:.D\" /proc/$(pidof dd)/status; do sleep 0.1; done'");
    let said = host.refused("kumiki node snapshot n1 warm");
    assert!(said.contains("n1 goes on") && said.contains("task:dd "), "{said}");
    host.ok("kill -CONT $(cat servers)");
    host.ok("kumiki node exec n1 -- sh -c 'while pidof dd; do sleep 0.1; done; test -s /tmp/said'");
    assert!(!host.ok("kumiki image ls").contains("warm"));
}

fn one_of_two_keeps_it(host: &Host) {
    host.ok("(kumiki node snapshot n1 one; echo $? > first) 2> said1 & \
             (kumiki node snapshot n1 two; echo $? > second) 2> said2; wait; cat said1 said2");
    let statuses = host.ok("cat first second");
    assert!(["0\n2\n", "2\n0\n"].contains(&&*statuses), "{statuses}");
    let kept = if statuses == "0\n2\n" { "one" } else { "two" };
    let other = if kept == "one" { "two" } else { "one" };
    let list = host.ok("kumiki image ls");
    assert!(list.contains(kept) && !list.contains(other), "{list}");
    host.ok(&format!(
        "kumiki image verify {kept}; kumiki node start n1 --from {kept} --timeout 60; \
                      kumiki node exec n1 -- test -s /tmp/said; kumiki image rm {kept}"
    ));
}

/// Before its kernel sleeps, and while its pages are copied.
fn killed_in_the_midst(host: &Host) {
    let image = "/sys/class/misc/kumiki-osnode/images/warm";
    for moment in ["sleep 0.1".to_owned(), format!("until test -e {image}; do :; done")] {
        host.ok(&format!(
            "kumiki node snapshot n1 warm > /dev/null 2>&1 & {moment}; kill -9 $!; wait; true"
        ));
        // What is half made is none, and in nobody's way.
        host.ok(&format!(
            "if test -e {image}; then \
                          kumiki image rm warm; fi"
        ));
        // It may have been killed before it asked for anything.
        host.ok("for n in $(seq 100); do kumiki node ls | grep -q 'n1.*ready' || break; sleep 0.1; done; \
                 kumiki node ls | grep -q 'n1.*ready' || kumiki node start n1 --timeout 120; \
                 kumiki node exec n1 -- sh -c 'echo 1 > /tmp/said'");
        host.ok("kumiki node snapshot n1 warm; kumiki image verify warm; \
                 kumiki node start n1 --from warm --timeout 60; \
                 kumiki node exec n1 -- test -s /tmp/said; kumiki image rm warm");
    }
}
