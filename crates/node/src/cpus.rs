//! Cpus of the host: which there are, and taking them off and back on line.

use std::fs;
use std::path::PathBuf;

use crate::{Error, Result};

const ROOT: &str = "/sys/devices/system/cpu";

/// A list as the kernel writes it, e.g. `0-3,6`.
pub(crate) fn parse(list: &str) -> Result<Vec<u32>> {
    let wrong = || Error::Refused(format!("{list:?} is no list of cpus, such as 2,3 or 4-7"));
    let mut cpus = Vec::new();
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: u32 = first.parse().map_err(|_| wrong())?;
        let last: u32 = last.parse().map_err(|_| wrong())?;
        if last < first || last - first > 8192 {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

fn path(file: &str) -> PathBuf {
    PathBuf::from(ROOT).join(file)
}

fn online() -> Result<Vec<u32>> {
    let path = path("online");
    parse(&fs::read_to_string(&path).map_err(|error| Error::file(path, error))?)
}

/// `count` cpus for a node: the last ones, never 0, which stays the host's.
pub(crate) fn choose(count: usize) -> Result<Vec<u32>> {
    choose_from(&online()?, count)
}

fn choose_from(online: &[u32], count: usize) -> Result<Vec<u32>> {
    let mut free: Vec<_> = online.iter().copied().filter(|&cpu| cpu != 0).collect();
    if count == 0 || count > free.len() {
        return Err(Error::Refused(format!(
            "{count} cpus for a node: the host has {} online that it could give (cpu 0 stays \
             its own); ask for 1 to {0}, or delete another node",
            free.len()
        )));
    }
    free.sort_unstable_by(|a, b| b.cmp(a));
    free.truncate(count);
    Ok(free)
}

/// Takes a cpu from the host or gives it back; the kernel moves what ran there.
pub(crate) fn set_online(cpu: u32, online: bool) -> Result<()> {
    let path = path(&format!("cpu{cpu}/online"));
    let now = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
    if (now.trim() == "1") == online {
        return Ok(());
    }
    fs::write(&path, if online { "1" } else { "0" }).map_err(|error| {
        let doing = if online { "on" } else { "off" };
        Error::os(format!("switching cpu {cpu} {doing} ({})", path.display()), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_the_kernels() {
        assert_eq!(parse("0-2,5\n").unwrap(), [0, 1, 2, 5]);
        assert!(parse("\n").unwrap().is_empty());
        for bad in ["x", "3-1", "1-", "0-99999"] {
            assert!(parse(bad).unwrap_err().to_string().contains("such as"), "{bad}");
        }
    }

    #[test]
    fn the_last_cpus_are_given_and_never_the_first() {
        assert_eq!(choose_from(&[0, 1, 2, 3], 2).unwrap(), [3, 2]);
        assert!(choose_from(&[0, 1], 2).unwrap_err().to_string().contains("1 online"));
        assert!(choose_from(&[0, 1], 0).is_err());
    }
}
