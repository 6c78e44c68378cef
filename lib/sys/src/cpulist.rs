//! The kernel's list notation, read.

use std::str::FromStr;

use crate::cpuset::CpuSet;
use crate::error::Error;

/// Cpus above this are taken for a typing error when a list is parsed. Linux
/// on x86-64 can be built for 8192 (`NR_CPUS_RANGE_END`, arch/x86/Kconfig).
const LARGEST_CPU: usize = (1 << 20) - 1;

impl FromStr for CpuSet {
    type Err = Error;

    /// Reads the kernel's list notation. White space around numbers and an
    /// empty text (no cpu) are fine; so are unordered and overlapping ranges.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::malformed("cpu list", text.trim(), why);
        let number = |digits: &str| match digits.trim().parse::<usize>() {
            Ok(cpu) if cpu <= LARGEST_CPU => Ok(cpu),
            Ok(cpu) => Err(wrong(format!("has cpu {cpu}, above {LARGEST_CPU}"))),
            Err(_) if digits.contains([':', '/']) => {
                Err(wrong(format!("has a stride ({digits:?}): write the cpus or ranges out")))
            }
            Err(_) => Err(wrong(format!(
                "has {digits:?} where a cpu number should stand (like 0-3,8,10-11)"
            ))),
        };
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for range in text.split(',') {
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(range)?, number(range)?),
            };
            if first > last {
                return Err(wrong(format!("has the range {first}-{last} backwards")));
            }
            set.extend(first..=last);
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_set_or_an_error(text in "[-0-9, :a-c\n]{0,20}") {
            if let Err(error) = text.parse::<CpuSet>() {
                prop_assert!(error.to_string().starts_with("cpu list: "));
            }
        }
    }

    #[test]
    fn errors_name_the_text_and_the_fault() {
        let fault = |text: &str| text.parse::<CpuSet>().unwrap_err().to_string();
        assert_eq!(fault("3-1\n"), "cpu list: \"3-1\" has the range 3-1 backwards");
        assert!(fault("0,,1").contains("has \"\" where a cpu number should stand"));
        assert!(fault("0-x").contains("\"x\""));
        assert!(fault("0-31:2/8").contains("stride"));
        assert!(fault("0-99999999").contains("above 1048575"));
        assert!(fault("-1").contains("\"\""));
    }

    #[test]
    fn accepts_unordered_overlapping_and_spaced() {
        let set: CpuSet = " 8, 2-4 ,3-5".parse().unwrap();
        assert_eq!(set.to_string(), "2-5,8");
    }
}
