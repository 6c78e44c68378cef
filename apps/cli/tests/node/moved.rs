//! Places of an OS node as those of any other placement: one program prints the same lines there, and a durable place
//! moves between node and host under its callers.

use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kumiki_node::{Lanes, Run};
use kumiki_places::{Allow, Control, Lines, Server};

use crate::Host;
use crate::five_places::{interface, parts, program};
use crate::places::with_the_command;

/// What this program is, where another test has brought it: `serves` in the node, the place that it calls on the host.
const IS: &str = "KUMIKI_TEST_FIVE_PLACES";
/// The same by the window's lines.
const LINES: &str = "KUMIKI_TEST_FIVE_PLACES_LINES";
const SAYS: &str = "five places: ";
const NODE: &str = "n1";

/// No test, but what the one below runs in the node and on its host.
#[test]
fn a_program_of_another_test() {
    match std::env::var(IS) {
        Err(_) => {}
        Ok(is) if is == "serves" => {
            let interface = interface(true).unwrap();
            let server = Server::here(NODE).parts(parts()).allow(Allow::everything());
            let window = Lanes::here().unwrap().expect("this kernel is a node's");
            let served = server.window(window).managing().serve(&interface).unwrap();
            println!("{SAYS}serves {}", served.names().join(" "));
            let _ = std::io::stdin().read(&mut [0]);
        }
        Ok(place) => {
            let mut builder = Control::builder();
            if std::env::var_os(LINES).is_some() {
                let relay = Run::beside_root(["kumiki", "place", "relay", NODE]);
                let Lanes { stream, window, base, .. } = Lanes::open(NODE, relay).unwrap();
                builder = builder.lines(Lines::open(NODE, stream, window, base).unwrap());
            }
            let control = builder.build().unwrap().with_timeout(Duration::from_secs(60));
            for line in program(&control, &place).unwrap() {
                println!("{SAYS}{line}");
            }
            println!("{SAYS}{control:?}");
        }
    }
}

/// The program's lines with its resources in this process.
fn at_home() -> Vec<String> {
    let interface = interface(false).unwrap();
    let control = Control::builder().home(&interface, parts()).build().unwrap();
    program(&control, &interface.place_name(interface.places()[0]).unwrap()).unwrap()
}

/// Has the node's places here from now on.
fn attach(host: &Host) {
    until(host, "kumiki place attach n1", "attached", "+ n1.core0");
}

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to places, their control or the window"]
fn in_a_node_the_program_of_five_places_prints_the_same_lines() {
    let Some(host) = with_the_command() else { return };
    host.ok("kumiki node create n1 --cpus 1 --memory 448M --image deb");
    host.ok("kumiki node start n1 --timeout 120");
    // This program, without what only a debugger reads: machines have it in their memory.
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("five");
    let own = std::env::current_exe().unwrap();
    assert!(Command::new("strip").arg("-o").args([&small, &own]).status().unwrap().success());
    host.machine.guest().put(&small, Path::new("/root/five")).unwrap();
    host.ok("chmod +x five; kumiki node cp five n1:/bin/five");
    let run = "--exact moved::a_program_of_another_test --nocapture";
    let serves = format!("sh -c 'sleep 1000000 | {IS}=serves /bin/five {run}'");
    until(&host, &format!("kumiki node exec n1 -- {serves}"), "served", "serves n1.core0");
    attach(&host);
    let lines = at_home();
    for (variable, way) in [(String::new(), "messages"), (format!("{LINES}=1"), "lines")] {
        let said = host.ok(&format!("{variable} {IS}=n1.core0 ./five {run}"));
        let said: Vec<_> = said.lines().filter_map(|line| Some(line.split_once(SAYS)?.1)).collect();
        let (last, said) = said.split_last().unwrap();
        assert_eq!(said, lines, "by {way}");
        assert_eq!(*last, format!("{{\"n1.core0\": \"{way}\"}}"));
    }
    host.ok("kumiki node rm n1 --force; rm -f five");
    host.ok("kumiki image rm deb");
    host.leave();
}

/// Starts a command that ends later, and waits for its word in this file; if it ends before, the test fails with what
/// it has said.
fn until(host: &Host, command: &str, file: &str, word: &str) {
    host.ok(&format!(
        "rm -f {file}; {command} > {file} 2>&1 < /dev/null & echo $! > {file}.pid; \
         until grep -qs '{word}' {file}; do kill -0 $! 2> /dev/null || {{ cat {file} >&2; exit 1; }}; sleep 0.2; done"
    ));
}

/// A move to `file`'s command; one that an emulated and busy machine was too slow for is refused, and made again.
fn moves(host: &Host, command: &str, file: &str) {
    let again = format!(
        "(for n in $(seq 10); do {command} && exit; grep -q 'it goes on here' {file} || exit 1; done; exit 1)"
    );
    until(host, &again, file, "serving n1.core0");
}

/// Ends one that was started so.
fn end(host: &Host, file: &str) {
    host.ok(&format!(
        "kill $(cat {file}.pid); until test ! -e /proc/$(cat {file}.pid); do sleep 0.1; done"
    ));
}

/// Calls so many times and each until it is known, from `next` on, while `during` goes on.
fn counts_during(host: &Host, next: i64, during: impl FnOnce()) -> i64 {
    const TIMES: i64 = 30;
    host.ok(&format!(
        "rm -f calls over; (for n in $(seq {TIMES}); do \
         until kumiki resource call n1.core0/counter/hits add 1 --timeout 60s >> calls 2>> failed; \
         do sleep 0.1; done; done; touch over) > /dev/null 2>&1 < /dev/null & \
         until test -s calls; do sleep 0.1; done"
    ));
    during();
    host.ok("until test -e over; do sleep 0.1; done");
    let all: Vec<_> = (next..next + TIMES).map(|n| format!("{n}\n")).collect();
    assert_eq!(host.ok("cat calls"), all.concat());
    // Those that met nobody were not done, and are asked for again.
    let failed = host.ok("cat failed");
    assert!(!failed.contains("unknown whether"), "{failed}");
    next + TIMES
}

#[test]
#[ignore = "three minutes: `cargo xtask test long`, after a change to places that move or to attached places"]
fn a_durable_place_moves_from_a_node_to_its_host_and_back_under_its_callers() {
    let Some(host) = with_the_command() else { return };
    let allow = "move = true\nlist = true\n[kind.counter]\ncreate = true\nparts = [\"*\"]\n";
    host.ok(&format!("printf '%s' '{allow}' > allow"));
    host.ok("kumiki node create n1 --cpus 1 --memory 384M --image deb");
    host.ok("kumiki node start n1 --timeout 120");
    host.ok("kumiki node exec n1 -- sh -c 'cat > /tmp/allow' < allow");
    let serve = "kumiki node exec n1 -- kumiki place serve --durable /tmp/kept --allow /tmp/allow";
    until(&host, serve, "served", "serving n1.core0");
    attach(&host);
    let id = host.ok("kumiki resource create n1.core0/counter/hits 41");
    let next = counts_during(&host, 42, || {
        let here = "kumiki place move n1.core0 --durable kept --cpu 0 --allow allow";
        moves(&host, here, "here");
    });
    // Nobody serves it in the node, whose folder says where it is.
    host.ok("until grep -q 'handed over' served; do sleep 0.2; done");
    let left = host.refused(serve);
    assert!(left.contains("has left") && left.contains("/kept"), "{left}");
    assert!(host.ok("kumiki resource ls 'n1.*/counter/*' --json").contains(id.trim()));

    // Back, by the place as it is lent to the node.
    end(&host, "attached");
    until(&host, "kumiki place lend n1 n1", "lent", "+ n1.core0");
    let back =
        "kumiki node exec n1 -- kumiki place move n1.core0 --durable /tmp/back --allow /tmp/allow";
    moves(&host, back, "back");
    host.ok("until test ! -e /proc/$(cat here.pid); do sleep 0.1; done");
    end(&host, "lent");
    attach(&host);
    assert_eq!(counts_during(&host, next, || {}), next + 30);
    let left =
        host.refused("kumiki place serve --host n1 --cpu-list 0 --durable kept --allow allow");
    assert!(left.contains("has left") && left.contains("/tmp/back"), "{left}");
    host.ok("kumiki node rm n1 --force");
    host.ok("kumiki image rm deb");
    host.leave();
}
