//! The host's kernel addresses, by its page tables.

use super::physical::Physical;
use super::vmcoreinfo::Vmcoreinfo;
use crate::{Error, ErrorKind, Result, Subject};

/// Address to which x86-64 maps the kernel's text, moved or not.
const TEXT_MAP: u64 = 0xffff_ffff_8000_0000;
const PRESENT: u64 = 1;
/// Bit in a directory: this is the page itself, of 2 MiB or 1 GiB.
const LARGE: u64 = 1 << 7;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Its kernel's first table.
pub(super) struct Tables {
    top: u64,
    levels: u32,
    mask: u64,
}

impl Tables {
    pub(super) fn of(info: &Vmcoreinfo<'_>) -> Result<Self> {
        let symbol = info.symbol("swapper_pg_dir").or_else(|_| info.symbol("init_top_pgt"))?;
        let base = info.value("NUMBER(phys_base)")?;
        Ok(Tables {
            top: symbol.wrapping_sub(TEXT_MAP).wrapping_add(base),
            levels: if info.value_or("NUMBER(pgtable_l5_enabled)", 0) == 1 { 5 } else { 4 },
            mask: ADDRESS & !info.value_or("NUMBER(sme_mask)", 0),
        })
    }

    /// Physical address of a virtual one, and how far its page reaches from there.
    pub(super) fn translate(&self, memory: &mut dyn Physical, at: u64) -> Result<(u64, u64)> {
        let mut table = self.top;
        for level in (0..self.levels).rev() {
            let shift = 12 + 9 * level;
            let entry = memory.u64(table + (at >> shift & 0x1ff) * 8)?;
            if entry & PRESENT == 0 {
                break;
            }
            if level == 0 || (level <= 2 && entry & LARGE != 0) {
                let offset = at & ((1 << shift) - 1);
                let page = entry & self.mask & !((1 << shift) - 1);
                return Ok((page + offset, (1 << shift) - offset));
            }
            table = entry & self.mask;
        }
        Err(Error::refused(
            ErrorKind::Damaged,
            Subject::Address(at),
            format!("{at:#x} is mapped to nothing in the host's kernel"),
        ))
    }

    /// Reads by a virtual address.
    pub(super) fn read(
        &self,
        memory: &mut dyn Physical,
        mut at: u64,
        mut into: &mut [u8],
    ) -> Result<()> {
        while !into.is_empty() {
            let (address, reach) = self.translate(memory, at)?;
            let length = into.len().min(reach as usize);
            let (now, rest) = into.split_at_mut(length);
            memory.read(address, now)?;
            (at, into) = (at + length as u64, rest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::physical::fixtures::Pages;
    use super::*;

    #[test]
    fn small_and_large_pages_are_found() {
        let mut pages = Pages::default();
        let info = "SYMBOL(swapper_pg_dir)=ffffffff80001000\nNUMBER(phys_base)=65536\n";
        let tables = Tables::of(&Vmcoreinfo::parse(info)).unwrap();
        assert_eq!((tables.top, tables.levels), (0x1_1000, 4));
        // 0xffff_8000_0000_0000: entry 256, then 0, 0, 0; the second 2 MiB as one page.
        let write = |pages: &mut Pages, at: u64, entry: u64| pages.write(at, &entry.to_le_bytes());
        write(&mut pages, 0x1_1000 + 256 * 8, 0x2_0000 | PRESENT);
        write(&mut pages, 0x2_0000, 0x3_0000 | PRESENT);
        write(&mut pages, 0x3_0000, 0x4_0000 | PRESENT);
        write(&mut pages, 0x3_0008, 1 << 63 | 0x20_0000 | LARGE | PRESENT);
        write(&mut pages, 0x4_0000, 0x5_0000 | PRESENT);
        let base = 0xffff_8000_0000_0000;
        let of = |pages: &mut Pages, at| tables.translate(pages, at).ok();
        assert_eq!(of(&mut pages, base + 0x123), Some((0x5_0123, 0xedd)));
        assert_eq!(of(&mut pages, base + 0x20_1000), Some((0x20_1000, 0x1f_f000)));
        assert_eq!(of(&mut pages, base + 0x1000), None);
        pages.write(0x5_0ffe, b"ab");
        pages.write(0x6_0000, b"cd");
        write(&mut pages, 0x4_0008, 0x6_0000 | PRESENT);
        let mut bytes = [0; 4];
        tables.read(&mut pages, base + 0xffe, &mut bytes).unwrap();
        assert_eq!(&bytes, b"abcd");
    }
}
