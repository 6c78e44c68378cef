//! Mapping memory and giving it back.

use rustix::mm::MapFlags;

use super::{KIB, MIB};
use crate::mapping::{Mapping, PAGE_BYTES, Touch, mappable};
use crate::sweep;
use kumiki_measure::case::{Case, Choice, Each, Level};

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = Vec::new();
    for (bytes, level) in sweep::sizes(choice, &sweep::own(&[4 * KIB, MIB], &[64 * KIB, 16 * MIB]))
    {
        for touch in [Touch::None, Touch::Read, Touch::Write] {
            let rare = if touch == Touch::Read { Level::Default } else { Level::Quick };
            cases.push(mmap_munmap(bytes, touch).level(level.max(rare)));
        }
        cases.push(populate(bytes).level(level));
    }
    cases
}

fn mmap_munmap(bytes: u64, touch: Touch) -> Case {
    let about = "map anonymous memory, touch every page as said, unmap";
    let case = Case::new("memory.mmap_munmap", about, move |_| {
        let bytes = mappable(bytes)?;
        Ok(Each(move || {
            Mapping::anonymous(bytes, MapFlags::PRIVATE)?.touch(touch, PAGE_BYTES);
            Ok(())
        }))
    });
    // Addresses alone need no memory.
    let asks = if touch == Touch::None { 0 } else { bytes };
    case.with("bytes", bytes).with("touch", touch.word()).asks(asks)
}

fn populate(bytes: u64) -> Case {
    let about = "map anonymous memory with all its pages (MAP_POPULATE), unmap";
    let case = Case::new("memory.populate", about, move |_| {
        let bytes = mappable(bytes)?;
        Ok(Each(move || {
            Mapping::anonymous(bytes, MapFlags::PRIVATE | MapFlags::POPULATE)?;
            Ok(())
        }))
    });
    case.with("bytes", bytes).asks(bytes)
}
