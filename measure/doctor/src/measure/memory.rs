//! Huge pages and shared memory.

use kumiki_sys::Error;
use kumiki_sys::shm::{Huge, Shared};

use crate::finding::{Finding, Topic};
use crate::host::Host;

const TRANSPARENT: Topic = Topic {
    part: "measure",
    thing: "transparent huge pages",
    consequence: "large memory sits on 4 KiB pages: fork costs grow 512 times as fast with it, \
                  and cases on huge pages are skipped",
};
const MEMFD: Topic = Topic {
    part: "measure",
    thing: "files in memory (memfd)",
    consequence: "exec, and what two processes do in shared memory, is skipped",
};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    vec![transparent(host), memfd()]
}

fn transparent(host: &Host) -> Finding {
    let read = |file: &str| host.read(&format!("/sys/kernel/mm/transparent_hugepage/{file}"));
    let Ok(enabled) = read("enabled") else {
        return TRANSPARENT.absent(
            "sysfs has no transparent_hugepage",
            "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
        );
    };
    let shmem = read("shmem_enabled");
    let shmem = shmem.as_deref().ok().and_then(chosen).unwrap_or("unknown");
    match chosen(&enabled) {
        Some("never") => TRANSPARENT
            .absent("never", "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"),
        Some(mode) => TRANSPARENT.present(format!("{mode}; for shared memory {shmem}")),
        None => TRANSPARENT.unknown(format!("cannot tell the mode from {enabled:?}")),
    }
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

fn memfd() -> Finding {
    match Shared::new("kumiki-doctor", 1, Huge::Policy) {
        Ok(_) => MEMFD.present("made and mapped"),
        Err(Error::Os { source, .. }) if source.raw_os_error() == Some(libc::ENOSYS) => MEMFD
            .absent(
                "memfd_create is missing or filtered (ENOSYS)",
                "a kernel with CONFIG_MEMFD_CREATE; a seccomp profile that allows memfd_create",
            ),
        Err(error) => MEMFD.unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::State;
    use crate::host::host_with;

    #[test]
    fn the_mode_in_brackets_counts() {
        let with = |text: &str| {
            let (_dir, host) = host_with(&[("/sys/kernel/mm/transparent_hugepage/enabled", text)]);
            transparent(&host)
        };
        assert_eq!(with("always [madvise] never").state, State::Present);
        assert!(with("[always] madvise never").detail.starts_with("always"));
        assert_eq!(with("always madvise [never]").state, State::Absent);
        assert_eq!(with("nonsense").state, State::Unknown);
    }
}
