//! Changing what existing memory allows and holds.

use rustix::mm::{Advice, MapFlags, MprotectFlags, mprotect};

use super::{KIB, MIB};
use crate::mapping::{Mapping, PAGE_BYTES, Touch, mappable};
use crate::sweep;
use kumiki_measure::case::{Case, Choice, Each, Level};
use kumiki_measure::error::{Error, Result};

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut cases = Vec::new();
    for (bytes, level) in sweep::sizes(choice, &sweep::own(&[4 * KIB, MIB], &[64 * KIB, 16 * MIB]))
    {
        cases.push(protect(bytes).level(level));
    }
    for (bytes, level) in sweep::sizes(choice, &sweep::own(&[MIB], &[64 * KIB, 16 * MIB])) {
        cases.extend(advise(bytes).map(|case| case.level(level)));
    }
    cases
}

fn protect(bytes: u64) -> Case {
    let about = "take write permission from touched memory and give it back (two calls)";
    let case = Case::new("memory.mprotect", about, move |_| {
        let fenced = Fenced::new(mappable(bytes)?)?;
        Ok(Each(move || {
            fenced.protect(MprotectFlags::READ)?;
            fenced.protect(MprotectFlags::READ | MprotectFlags::WRITE)
        }))
    });
    case.with("bytes", bytes).asks(bytes)
}

/// Written memory between two inaccessible pages, so that the kernel never
/// merges it with a neighbour whose permissions happen to be equal.
struct Fenced {
    whole: Mapping,
    bytes: usize,
}

impl Fenced {
    fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let whole = Mapping::anonymous(bytes + 2 * PAGE_BYTES, MapFlags::PRIVATE)?;
        let whole = whole.ordinary_pages();
        whole.touch(Touch::Write, PAGE_BYTES);
        for fence in [0, PAGE_BYTES + bytes] {
            protect_part(&whole, fence, PAGE_BYTES, MprotectFlags::empty())?;
        }
        Ok(Fenced { whole, bytes })
    }

    fn protect(&self, access: MprotectFlags) -> Result<()> {
        protect_part(&self.whole, PAGE_BYTES, self.bytes, access)
    }
}

fn protect_part(
    mapping: &Mapping,
    offset: usize,
    bytes: usize,
    access: MprotectFlags,
) -> Result<()> {
    let start = mapping.start().wrapping_add(offset);
    // SAFETY: the part lies inside the mapping, and nothing refers to it.
    unsafe { mprotect(start.cast(), bytes, access) }
        .map_err(|e| Error::os(format!("mprotect {bytes} bytes"), e))
}

fn advise(bytes: u64) -> [Case; 2] {
    [
        (
            "memory.madvise.dontneed",
            "give pages back (MADV_DONTNEED) and write to each again",
            Advice::LinuxDontNeed,
        ),
        (
            "memory.madvise.free",
            "let the kernel take pages (MADV_FREE), write to each before it does",
            Advice::LinuxFree,
        ),
    ]
    .map(|(name, about, advice)| {
        let case = Case::new(name, about, move |_| {
            let memory = Mapping::anonymous(mappable(bytes)?, MapFlags::PRIVATE)?.ordinary_pages();
            memory.touch(Touch::Write, PAGE_BYTES);
            Ok(Each(move || {
                memory.advise(advice)?;
                memory.touch(Touch::Write, PAGE_BYTES);
                Ok(())
            }))
        });
        case.with("bytes", bytes).level(Level::Quick).asks(bytes)
    })
}
