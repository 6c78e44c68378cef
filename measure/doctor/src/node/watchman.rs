//! Whether a node could outlive this machine's kernel, and tell of its end.

use crate::finding::{Finding, Topic};
use crate::host::Host;

pub(super) const WATCHMAN: Topic = Topic {
    part: "node",
    thing: "watchman",
    consequence: "no node sees that this machine's kernel has died, and keeps its memory \
                  (kumiki node watchman)",
};

pub(super) fn finding(host: &Host) -> Finding {
    if !host.exists("/dev/kumiki-osnode-watch") {
        return WATCHMAN.absent("osnode-watch.ko is not loaded", "modprobe osnode-watch");
    }
    // Without the file there is nothing that restarts it either.
    let text = |path: &str| host.read(path).unwrap_or_default();
    match text("/proc/sys/kernel/panic").trim() {
        "" | "0" => {}
        seconds => {
            return WATCHMAN.limited(
                format!("a panic restarts this machine, and its nodes (kernel.panic is {seconds})"),
                "sysctl kernel.panic=0",
            );
        }
    }
    if text("/sys/kernel/kexec_crash_loaded").trim() == "1" {
        return WATCHMAN.limited(
            "a crash kernel is loaded, which takes the machine from its nodes after a panic",
            "kdump-config unload",
        );
    }
    WATCHMAN.present("osnode-watch.ko gives signs of life, and nodes run on after a panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    #[test]
    fn what_would_end_the_nodes_with_their_host_is_said() {
        let watch = ("/dev/kumiki-osnode-watch", "");
        for (files, state, says) in [
            (&[][..], State::Absent, "is not loaded"),
            (&[watch], State::Present, "signs of life"),
            (&[watch, ("/proc/sys/kernel/panic", "0")], State::Present, "signs of life"),
            (&[watch, ("/proc/sys/kernel/panic", "30")], State::Limited, "kernel.panic is 30"),
            (&[watch, ("/proc/sys/kernel/panic", "-1")], State::Limited, "kernel.panic is -1"),
            (&[watch, ("/sys/kernel/kexec_crash_loaded", "1")], State::Limited, "crash kernel"),
        ] {
            let (_dir, host) = host_with(files);
            let found = finding(&host);
            assert!(found.state == state && found.detail.contains(says), "{found:?}");
        }
    }
}
