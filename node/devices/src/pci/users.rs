//! Uses that the host has for a PCI function: what would be lost if it went.

use std::fs::{self, File};
use std::path::Path;

use crate::Result;
use crate::block::{Asked, Block};

/// `class` of what drives a network, its first digits.
const NETWORK: &str = "0x02";
/// Drivers by which a program has a function for itself.
const FOR_PROGRAMS: [&str; 2] = ["vfio-pci", "uio_pci_generic"];

/// Claims its disks; or what uses them, cards that are up, and what another network namespace or
/// a program may use.
pub(super) fn of(folder: &Path, driver: Option<&str>) -> Result<Result<Vec<File>, Vec<String>>> {
    let Ok(place) = fs::canonicalize(folder) else { return Ok(Ok(Vec::new())) };
    let (mut claimed, mut users) = (Vec::new(), Vec::new());
    for disk in Block::below(&place) {
        match disk.ask()? {
            Asked::Free(file) => claimed.extend(file),
            Asked::Used(used) => users.push(format!("disk {} {}", disk.name, used.how)),
        }
    }
    let cards = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let cards = cards.map(|entry| entry.path());
    let cards: Vec<_> = cards
        .filter(|path| fs::canonicalize(path).is_ok_and(|path| path.starts_with(&place)))
        .collect();
    users.extend(cards.iter().filter_map(|path| {
        let flags = fs::read_to_string(path.join("flags")).ok()?;
        let name = path.file_name().unwrap_or_default().display();
        is_up(&flags).then(|| format!("card {name} is up (ip link set {name} down)"))
    }));
    let class = fs::read_to_string(folder.join("class")).unwrap_or_default();
    users.extend(unseen(&class, driver, cards.len()));
    Ok(if users.is_empty() { Ok(claimed) } else { Err(users) })
}

/// True if a card is up, by its flags.
fn is_up(flags: &str) -> bool {
    u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).is_ok_and(|flags| flags & 1 != 0)
}

/// A use that this namespace shows nothing of: a container's card is in its network namespace alone.
fn unseen(class: &str, driver: Option<&str>, cards: usize) -> Option<String> {
    let driver = driver?;
    if FOR_PROGRAMS.contains(&driver) {
        return Some(format!("a program may have it, by the driver {driver}"));
    }
    (class.starts_with(NETWORK) && cards == 0).then(|| {
        format!(
            "its card is in another network namespace (ip netns), or its driver {driver} has made \
             none (/sys/bus/pci/drivers/{driver}/unbind takes it from that)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_up_or_not_to_be_seen_is_in_use() {
        assert!(is_up("0x1003\n") && !is_up("0x1002\n") && !is_up(""));
        let said = unseen("0x020000\n", Some("e1000e"), 0).unwrap();
        assert!(said.contains("another network namespace") && said.contains("e1000e"), "{said}");
        assert!(unseen("0x010802\n", Some("vfio-pci"), 0).is_some());
        for (class, driver, cards) in
            [("0x020000", None, 0), ("0x020000", Some("e1000e"), 1), ("0x010802", Some("nvme"), 0)]
        {
            assert_eq!(unseen(class, driver, cards), None, "{class}");
        }
    }
}
