//! Huge pages and shared memory.

use super::host::Host;
use super::{Finding, Topic};
use crate::error::Error;
use crate::shm::{Huge, Shared};

const POOLS: Topic = Topic {
    part: "measure",
    thing: "reserved huge pages",
    consequence: "cases on pages of the pool are skipped; transparent huge pages remain",
};
const TRANSPARENT: Topic = Topic {
    part: "measure",
    thing: "transparent huge pages",
    consequence: "large memory sits on 4 KiB pages: fork costs grow 512 times as fast with it, \
                  and cases on huge pages are skipped",
};
const MEMFD: Topic = Topic {
    part: "resource",
    thing: "sealed shared memory (memfd)",
    consequence: "processes cannot share tables and request areas safely",
};

pub(super) fn findings(host: &Host) -> Vec<Finding> {
    vec![pools(host), transparent(host), memfd()]
}

/// Every size's pool (Documentation/admin-guide/mm/hugetlbpage.rst).
fn pools(host: &Host) -> Finding {
    let dir = "/sys/kernel/mm/hugepages";
    let (mut all_pages, mut free_pages, mut details) = (0, 0, Vec::new());
    for pool in host.names(dir) {
        let Some(size) = pool.strip_prefix("hugepages-") else {
            continue;
        };
        let count = |file: &str| host.number(&format!("{dir}/{pool}/{file}"));
        match (count("free_hugepages"), count("nr_hugepages")) {
            (Ok(free), Ok(all)) => {
                all_pages += all;
                free_pages += free;
                details.push(format!("{size}: {free} of {all} free"));
            }
            (Err(reason), _) | (_, Err(reason)) => details.push(reason),
        }
    }
    let detail = details.join(", ");
    let fill = "echo 64 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    match (detail.is_empty(), free_pages, all_pages) {
        (true, ..) => POOLS.absent(format!("{dir} is not there"), "a kernel with CONFIG_HUGETLBFS"),
        (_, 0, 0) => POOLS.absent(detail, fill),
        (_, 0, _) => POOLS.limited(detail, fill),
        _ => POOLS.present(detail),
    }
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
    use super::super::State;
    use super::super::host::host_with;
    use super::*;

    #[test]
    fn pools_by_size() {
        let file =
            |size: &str, name: &str| format!("/sys/kernel/mm/hugepages/hugepages-{size}kB/{name}");
        let counts = |free: &str, all: &str| {
            let (_dir, host) = host_with(&[
                (&file("1048576", "free_hugepages"), "0"),
                (&file("1048576", "nr_hugepages"), "0"),
                (&file("2048", "free_hugepages"), free),
                (&file("2048", "nr_hugepages"), all),
            ]);
            pools(&host)
        };
        let some = counts("3", "64");
        assert_eq!(some.state, State::Present);
        assert_eq!(some.detail, "1048576kB: 0 of 0 free, 2048kB: 3 of 64 free");
        assert_eq!(counts("0", "64").state, State::Limited);
        assert_eq!(counts("0", "0").state, State::Absent);
        let (_dir, host) = host_with(&[]);
        assert!(pools(&host).detail.contains("not there"));
    }

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
