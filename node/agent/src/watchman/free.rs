//! Pages of the host's that nobody uses, as its buddy allocator has them: the first page of a
//! free block has a certain type, and the block's order beside it.

use kumiki_boot::Piece;

use super::physical::Physical;
use super::tables::Tables;
use super::vmcoreinfo::Vmcoreinfo;
use crate::Result;

const PAGE: u64 = 4096;
/// Flag of a section's word: it has page structures; below are other flags.
const HAS_MAP: u64 = 2;
const FLAGS: u64 = PAGE - 1;
/// Larger than any kernel's largest block.
const ORDERS: u64 = 20;

/// Layout of a kernel's page structures (SPARSEMEM_VMEMMAP with extreme sections, as x86-64 has
/// it).
struct Layout {
    roots: u64,
    root_count: u64,
    section_bytes: u64,
    map_offset: u64,
    section_shift: u32,
    page_bytes: u64,
    type_offset: usize,
    order_offset: usize,
    buddy: u32,
}

impl Layout {
    fn of(info: &Vmcoreinfo<'_>) -> Result<Self> {
        Ok(Layout {
            roots: info.symbol("mem_section")?,
            root_count: info.value("LENGTH(mem_section)")?,
            section_bytes: info.value("SIZE(mem_section)")?.clamp(8, PAGE),
            map_offset: info.value("OFFSET(mem_section.section_mem_map)")?,
            section_shift: info.value("NUMBER(SECTION_SIZE_BITS)")?.clamp(12, 40) as u32,
            page_bytes: info.value("SIZE(page)")?.clamp(56, 256),
            type_offset: info.value("OFFSET(page._mapcount)")?.min(248) as usize,
            order_offset: info.value("OFFSET(page.private)")?.min(248) as usize,
            buddy: info.value("NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)")? as u32,
        })
    }

    /// Address of the structure of page 0, by the section that a page is in.
    fn map(&self, memory: &mut dyn Physical, tables: &Tables, section: u64) -> Result<Option<u64>> {
        let in_a_root = PAGE / self.section_bytes;
        let root = section / in_a_root;
        if root >= self.root_count {
            return Ok(None);
        }
        let mut word = |at| {
            let mut bytes = [0; 8];
            tables.read(memory, at, &mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        let sections = word(self.roots + 8 * root)?;
        if sections == 0 {
            return Ok(None);
        }
        let map = word(sections + section % in_a_root * self.section_bytes + self.map_offset)?;
        Ok((map & HAS_MAP != 0).then_some(map & !FLAGS))
    }
}

/// Free blocks in these ranges, in order.
pub(super) fn free_blocks(
    memory: &mut dyn Physical,
    info: &Vmcoreinfo<'_>,
    ram: &[Piece],
) -> Result<Vec<Piece>> {
    let (layout, tables) = (Layout::of(info)?, Tables::of(info)?);
    let section_pages = 1 << (layout.section_shift - 12);
    let mut found = Vec::new();
    for range in ram {
        let end = range.end() / PAGE;
        let mut page = range.address.div_ceil(PAGE);
        while page < end {
            let upto = ((page / section_pages + 1) * section_pages).min(end);
            if let Some(map) = layout.map(memory, &tables, page / section_pages)? {
                look(memory, &tables, &layout, map, page..upto, &mut found)?;
            }
            page = upto;
        }
    }
    Ok(found)
}

/// Looks for the blocks that begin between two pages of one section.
fn look(
    memory: &mut dyn Physical,
    tables: &Tables,
    layout: &Layout,
    map: u64,
    pages: std::ops::Range<u64>,
    found: &mut Vec<Piece>,
) -> Result<()> {
    let at_once = (1 << 20) / layout.page_bytes;
    let mut structures = Vec::new();
    let mut page = pages.start;
    while page < pages.end {
        let count = at_once.min(pages.end - page);
        structures.resize((count * layout.page_bytes) as usize, 0);
        let at = map.wrapping_add(page.wrapping_mul(layout.page_bytes));
        tables.read(memory, at, &mut structures)?;
        let mut skip = 0;
        for (n, one) in structures.chunks_exact(layout.page_bytes as usize).enumerate() {
            if (n as u64) < skip {
                continue;
            }
            let kind = u32::from_le_bytes(one[layout.type_offset..][..4].try_into().expect("4"));
            let order =
                u64::from_le_bytes(one[layout.order_offset..][..8].try_into().expect("8 bytes"));
            // What the host left half done is not believed.
            if kind == layout.buddy
                && order < ORDERS
                && (page + n as u64).is_multiple_of(1 << order)
            {
                let pages = 1 << order;
                found.push(Piece { address: (page + n as u64) * PAGE, bytes: pages * PAGE });
                skip = n as u64 + pages;
            }
        }
        page += count.max(skip);
    }
    Ok(())
}

/// `ranges` without `holes`; both in order, and none overlaps another of its kind.
pub(super) fn without(ranges: &[Piece], holes: &[Piece]) -> Vec<Piece> {
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.address;
        let first = holes.partition_point(|hole| hole.end() <= start);
        for hole in holes[first..].iter().take_while(|hole| hole.address < range.end()) {
            if hole.address > start {
                left.push(Piece { address: start, bytes: hole.address - start });
            }
            start = start.max(hole.end());
        }
        if start < range.end() {
            left.push(Piece { address: start, bytes: range.end() - start });
        }
    }
    left
}

/// Ranges in order, those that touch or overlap as one.
pub(super) fn joined(mut ranges: Vec<Piece>) -> Vec<Piece> {
    ranges.sort_by_key(|range| range.address);
    let mut all: Vec<Piece> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end() >= range.address => {
                last.bytes = last.end().max(range.end()) - last.address;
            }
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::physical::fixtures::Pages;
    use super::*;

    fn pieces(all: &[(u64, u64)]) -> Vec<Piece> {
        all.iter().map(|&(address, bytes)| Piece { address, bytes }).collect()
    }

    #[test]
    fn holes_are_taken_out_of_ranges() {
        let of = |ranges: &[_], holes: &[_]| without(&pieces(ranges), &pieces(holes));
        assert_eq!(of(&[(0, 10), (20, 10)], &[]), pieces(&[(0, 10), (20, 10)]));
        assert_eq!(
            of(&[(0, 10), (20, 10)], &[(2, 3), (8, 14), (28, 9)]),
            pieces(&[(0, 2), (5, 3), (22, 6)])
        );
        assert!(of(&[(5, 5)], &[(0, 20)]).is_empty());
        assert_eq!(joined(pieces(&[(8, 2), (0, 4), (4, 2), (1, 1)])), pieces(&[(0, 6), (8, 2)]));
    }

    /// A kernel of one section: tables at 0x1000, sections at 0x5000, structures at 0x8000 on.
    #[test]
    fn blocks_are_found_by_their_first_page() {
        let mut memory = Pages::default();
        let word = |memory: &mut Pages, at: u64, value: u64| memory.write(at, &value.to_le_bytes());
        let base = 0xffff_8000_0000_0000_u64;
        word(&mut memory, 0x1000 + 256 * 8, 0x2001);
        word(&mut memory, 0x2000, 0x3001);
        word(&mut memory, 0x3000, 0x4001);
        // The first MiB where it is.
        (0..256).for_each(|page| word(&mut memory, 0x4000 + 8 * page, page << 12 | 1));
        word(&mut memory, 0x5000, base + 0x6000);
        word(&mut memory, 0x6000, (base + 0x8000) | 3);
        let page = |memory: &mut Pages, number: u64, kind: u32, order: u64| {
            let at = 0x8000 + number * 64;
            memory.write(at + 48, &kind.to_le_bytes());
            memory.write(at + 40, &order.to_le_bytes());
        };
        (0..64).for_each(|number| page(&mut memory, number, u32::MAX, 0));
        let buddy = 0xffff_ff7f;
        page(&mut memory, 8, buddy, 3);
        // Within that block: what an earlier one has left.
        page(&mut memory, 10, buddy, 1);
        page(&mut memory, 17, buddy, 0);
        // No block of four begins there.
        page(&mut memory, 30, buddy, 2);
        page(&mut memory, 62, buddy, 1);
        let text = format!(
            "SYMBOL(swapper_pg_dir)=ffffffff80001000\nNUMBER(phys_base)=0\n\
             SYMBOL(mem_section)={:x}\nLENGTH(mem_section)=4\nSIZE(mem_section)=16\n\
             OFFSET(mem_section.section_mem_map)=0\nNUMBER(SECTION_SIZE_BITS)=27\nSIZE(page)=64\n\
             OFFSET(page._mapcount)=48\nOFFSET(page.private)=40\n\
             NUMBER(PAGE_BUDDY_MAPCOUNT_VALUE)=-129\n",
            base + 0x5000
        );
        let info = Vmcoreinfo::parse(&text);
        let ram = pieces(&[(0x1000, 0x3f000), (1 << 40, 0x1000)]);
        let free = free_blocks(&mut memory, &info, &ram).unwrap();
        assert_eq!(free, pieces(&[(0x8000, 0x8000), (0x1_1000, 0x1000), (0x3_e000, 0x2000)]));
        let less = text.replace("SIZE(page)", "SIZE(folio)");
        let error = free_blocks(&mut memory, &Vmcoreinfo::parse(&less), &ram).unwrap_err();
        assert!(error.to_string().contains("SIZE(page)"), "{error}");
    }
}
