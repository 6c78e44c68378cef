//! How long a node stands still while its host dies beside it, where each cpu of the machine is a
//! thread of the emulator: no device is given, whose coming and going QEMU 7.2 does not survive so.

use kumiki_lab::{Accelerator, Config};

use crate::watchman::{Log, TICKS, longest_pause_ms, times};
use crate::{Host, built, controllers};

/// The host's, the watchman's with room for the vmcore, and another node's.
const MEMORY_BYTES: u64 = 3 << 30;
/// As busy as after the death: a cpu of the host that spins, and a node that copies.
const BUSY: &str = "while :; do :; done & busy=$!; kumiki node exec n1 -- sh -c 'for n in 1 2 3; do \
                    dd if=/dev/zero of=/copy bs=1M count=300 2> /dev/null; done; rm /copy'; kill $busy";

#[test]
#[ignore = "two minutes: `cargo xtask test long`, after a change to what a watchman does when its host has died"]
fn another_node_goes_on_while_the_host_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = folder.path().join("monitor");
    let wanted = |config: &mut Config| {
        config.accelerator = Accelerator::Tcg;
        config.memory_bytes = MEMORY_BYTES;
        config
            .modules
            .push(built(&crate::chosen_kernel()).unwrap().module("osnode-watch.ko").into());
        config.qemu.extend(controllers::monitor(&monitor));
    };
    let Some(host) = Host::own(&crate::chosen_kernel(), wanted) else { return };
    host.add_image();
    host.ok("echo 0 > /proc/sys/kernel/panic; \
             kumiki node create n1 --memory 1280M --image deb; \
             kumiki node create n2 --memory 256M --image deb; kumiki node start n1 n2 --timeout 240");
    host.ok(TICKS);
    let (log, other) = (Log::of(&host, &monitor, "n1"), Log::of(&host, &monitor, "n2"));
    other.wait("tick");
    let idle = times(&other.read(), "tick").len();
    // From outside: what runs in the host would not leave it at rest.
    let ticks = other.ticks(idle + 100);
    let quiet = longest_pause_ms(&ticks, idle);
    host.ok(BUSY);
    let alive = longest_pause_ms(&times(&other.read(), "tick"), ticks.len());
    host.ok("kumiki node watchman n1 --to /core");
    let _dying = host.dies();
    log.wait("THE HOST IS DEAD");
    let before = times(&other.read(), "tick").len();
    let text = log.wait("the vmcore is complete");
    let ticks = times(&other.read(), "tick");
    assert!(ticks.len() > before, "the other node stands still");
    eprintln!(
        "longest pause of the other node: {:.0} ms; with its host alive and as busy {alive:.0} ms, and \
         with all at rest {quiet:.0} ms\n{text}",
        longest_pause_ms(&ticks, before)
    );
    assert!(!text.contains("could not be read"), "{text}");
}
