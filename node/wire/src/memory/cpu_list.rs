//! Lists of numbers, of cpus or NUMA nodes, as the kernel writes them.

use crate::{Error, ErrorKind, Result, Subject};

/// A list as the kernel writes it, e.g. `0-3,6`.
pub fn parse(list: &str) -> Result<Vec<u32>> {
    let wrong = || {
        Error::refused(
            ErrorKind::Invalid,
            Subject::Word(list.to_owned()),
            format!("{list:?} is no list of cpus, such as 2,3 or 4-7"),
        )
    };
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

/// List for people: `3,2`.
pub fn text(cpus: &[u32]) -> String {
    if cpus.is_empty() {
        return "none".to_owned();
    }
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
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
}
