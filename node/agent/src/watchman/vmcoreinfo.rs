//! Facts that a kernel tells of itself for those who read its memory: lines of `vmcoreinfo`,
//! such as `SYMBOL(init_top_pgt)=ffffffff8220a000` or `OFFSET(page.private)=40`.

use std::collections::HashMap;

use crate::{Error, ErrorKind, Result, Subject};

/// Lines of vmcoreinfo, by the name before the equals sign.
pub(super) struct Vmcoreinfo<'a> {
    lines: HashMap<&'a str, &'a str>,
}

impl<'a> Vmcoreinfo<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        Vmcoreinfo { lines: text.lines().filter_map(|line| line.split_once('=')).collect() }
    }

    fn line(&self, key: &str) -> Result<&'a str> {
        self.lines.get(key).copied().ok_or_else(|| lacks(key))
    }

    /// Address of a symbol, as the kernel runs.
    pub(super) fn symbol(&self, name: &str) -> Result<u64> {
        let key = format!("SYMBOL({name})");
        u64::from_str_radix(self.line(&key)?, 16).map_err(|_| lacks(&key))
    }

    /// A value such as `NUMBER(phys_base)`, `OFFSET(page.private)` or `SIZE(page)`; a negative
    /// one, as its bits.
    pub(super) fn value(&self, key: &str) -> Result<u64> {
        let text = self.line(key)?;
        let value = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse::<i64>().map(|value| value as u64).ok(),
        };
        value.ok_or_else(|| lacks(key))
    }

    /// Value of a key that not every kernel has.
    pub(super) fn value_or(&self, key: &str, otherwise: u64) -> u64 {
        self.value(key).unwrap_or(otherwise)
    }
}

fn lacks(key: &str) -> Error {
    Error::refused(
        ErrorKind::Unsupported,
        Subject::Word(key.to_owned()),
        format!("the host's vmcoreinfo has no {key}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_hexadecimal_or_negative() {
        let info = Vmcoreinfo::parse(
            "OSRELEASE=6.1.0\nSYMBOL(init_top_pgt)=ffffffff8220a000\nNUMBER(phys_base)=-16777216\n\
             NUMBER(sme_mask)=0x800000000000\nSIZE(page)=64\nSYMBOL(odd)=xyz\n",
        );
        assert_eq!(info.symbol("init_top_pgt").unwrap(), 0xffff_ffff_8220_a000);
        assert_eq!(info.value("NUMBER(phys_base)").unwrap(), (-0x100_0000_i64) as u64);
        assert_eq!(info.value("NUMBER(sme_mask)").unwrap(), 1 << 47);
        assert_eq!((info.value("SIZE(page)").unwrap(), info.value_or("SIZE(list)", 7)), (64, 7));
        let missing = info.symbol("mem_section").unwrap_err().to_string();
        assert!(missing.contains("no SYMBOL(mem_section)"), "{missing}");
        assert!(info.symbol("odd").is_err() && info.value("OSRELEASE").is_err());
    }
}
