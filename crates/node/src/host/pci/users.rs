//! Uses that the host has for a PCI function: what would be lost if it went.

use std::fs;
use std::path::Path;

/// Disks that are mounted, swapped to or part of another, and cards that are up.
pub(super) fn of(folder: &Path) -> Vec<String> {
    let Ok(place) = fs::canonicalize(folder) else { return Vec::new() };
    let class = |kind: &str| {
        let entries = fs::read_dir(Path::new("/sys/class").join(kind)).into_iter().flatten();
        let below = entries.flatten().map(|entry| entry.path());
        below.filter(|path| fs::canonicalize(path).is_ok_and(|path| path.starts_with(&place)))
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mounts, swaps) = (read("/proc/self/mounts"), read("/proc/swaps"));
    let disks = class("block").filter_map(|path| {
        let name = name(&path);
        let number = fs::read_to_string(path.join("dev")).unwrap_or_default();
        let how = disk(&name, number.trim(), &mounts, &swaps, &read("/proc/self/mountinfo"));
        let holder = fs::read_dir(path.join("holders")).ok()?.flatten().next();
        let how = how.or_else(|| holder.map(|_| "is part of another"))?;
        Some(format!("disk {name} {how}"))
    });
    let cards = class("net").filter_map(|path| {
        let flags = fs::read_to_string(path.join("flags")).ok()?;
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok()?;
        (flags & 1 != 0).then(|| format!("card {0} is up (ip link set {0} down)", name(&path)))
    });
    disks.chain(cards).collect()
}

/// How a block device is used, by the kernel's lists.
fn disk(
    name: &str,
    number: &str,
    mounts: &str,
    swaps: &str,
    mountinfo: &str,
) -> Option<&'static str> {
    let path = format!("/dev/{name}");
    let is_first = |line: &str| line.split_whitespace().next() == Some(&path);
    // The root may be listed by another name, and is by its number.
    let by_number = mountinfo.lines().any(|line| line.split(' ').nth(2) == Some(number));
    if by_number || mounts.lines().any(is_first) {
        return Some("is mounted");
    }
    swaps.lines().any(is_first).then_some("is swapped to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_in_use_is_seen_by_name_and_by_number() {
        let info = "22 1 259:1 / / rw shared:1 - ext4 /dev/root rw\n";
        let mounts = "/dev/root / ext4 rw 0 0\n/dev/nvme0n1p2 /data ext4 rw 0 0\n";
        let swaps = "Filename\tType\n/dev/nvme0n1p3\tpartition 1 0 -2\n";
        let of = |name: &str, number: &str| disk(name, number, mounts, swaps, info);
        assert_eq!(of("nvme0n1p1", "259:1"), Some("is mounted"));
        assert_eq!(of("nvme0n1p2", "259:2"), Some("is mounted"));
        assert_eq!(of("nvme0n1p3", "259:3"), Some("is swapped to"));
        assert_eq!(of("nvme0n1", "259:0"), None);
    }
}
