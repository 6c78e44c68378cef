//! Making memory larger and smaller, and moving it.
//!
//! The program break belongs to the allocator, and the range beside or behind
//! a mapping to whichever thread maps next. So these run in a child of one
//! thread, where nobody else allocates or maps.

use std::mem;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, mremap, mremap_fixed, munmap};

use super::{KIB, MIB};
use crate::child::sample_in_child;
use crate::mapping::{Mapping, PAGE_BYTES, Touch, mappable};
use crate::sweep;
use kumiki_measure::case::{Case, Choice, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

/// Operations in a fresh child before time counts.
const WARM_UP: u64 = 16;

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let sizes = sweep::sizes(choice, &sweep::own(&[MIB], &[64 * KIB, 16 * MIB]));
    let rows = |(bytes, level)| {
        [
            resize("memory.brk", "grow the heap and shrink it, untouched (two calls)", bytes, brk),
            resize(
                "memory.mremap.grow",
                "double a touched mapping in its place and halve it (two calls)",
                bytes,
                grow,
            ),
            resize("memory.mremap.move", "move a touched mapping", bytes, relocate),
        ]
        .map(|case| case.level(level))
    };
    sizes.into_iter().flat_map(rows).collect()
}

/// Prepares in the child and runs the operation `iterations` times there.
type Body = fn(bytes: usize, iterations: u64, meter: &Meter) -> Result<Sample>;

fn resize(name: &'static str, about: &'static str, bytes: u64, body: Body) -> Case {
    let setup = move |_: &_| Ok(InChild { name, bytes: whole_pages(bytes)?, body });
    Case::new(name, about, setup).with("bytes", bytes).asks(bytes.saturating_mul(2))
}

struct InChild {
    name: &'static str,
    bytes: usize,
    body: Body,
}

impl Workload for InChild {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let what = format!("{} of {} bytes", self.name, self.bytes);
        sample_in_child(&what, meter, |meter| (self.body)(self.bytes, iterations, meter))
    }
}

fn whole_pages(bytes: u64) -> Result<usize> {
    Ok(mappable(bytes)?.next_multiple_of(PAGE_BYTES))
}

fn brk(bytes: usize, iterations: u64, meter: &Meter) -> Result<Sample> {
    let start = move_break(0).next_multiple_of(PAGE_BYTES);
    repeat(iterations, meter, || {
        for end in [start + bytes, start] {
            // The kernel answers a refusal with the break as it stays.
            if move_break(end) != end {
                return Err(Errno::NOMEM);
            }
        }
        Ok(())
    })
}

/// `brk(2)` itself (the C library's wrapper keeps a copy of the break).
fn move_break(end: usize) -> usize {
    // SAFETY: the child has one thread and does not allocate, and its heap is
    // never made smaller than it was found.
    unsafe { libc::syscall(libc::SYS_brk, end) as usize }
}

fn grow(bytes: usize, iterations: u64, meter: &Meter) -> Result<Sample> {
    let start = touched(2 * bytes)?;
    // SAFETY: `start` has twice `bytes`.
    let room = unsafe { start.add(bytes) };
    // SAFETY: the upper half of a mapping that nothing refers to.
    unsafe { munmap(room.cast(), bytes) }.map_err(silent)?;
    repeat(iterations, meter, || {
        for (old, new) in [(bytes, 2 * bytes), (2 * bytes, bytes)] {
            // SAFETY: `old` bytes are mapped at `start`, nothing refers to
            // them, and the only thread leaves the room behind them free.
            unsafe { mremap(start.cast(), old, new, MremapFlags::empty()) }?;
        }
        Ok(())
    })
}

fn relocate(bytes: usize, iterations: u64, meter: &Meter) -> Result<Sample> {
    let (mut from, mut to) = (touched(bytes)?, touched(bytes)?);
    // SAFETY: a whole mapping that nothing refers to.
    unsafe { munmap(to.cast(), bytes) }.map_err(silent)?;
    repeat(iterations, meter, || {
        // SAFETY: `bytes` are mapped at `from` and nothing refers to them; the
        // range at `to` was ours and the only thread has mapped nothing since.
        unsafe { mremap_fixed(from.cast(), bytes, bytes, MremapFlags::MAYMOVE, to.cast()) }?;
        mem::swap(&mut from, &mut to);
        Ok(())
    })
}

/// A written mapping that lasts as long as the child.
fn touched(bytes: usize) -> Result<*mut u8> {
    let mapping =
        Mapping::try_anonymous(bytes, MapFlags::PRIVATE).map_err(silent)?.ordinary_pages();
    mapping.touch(Touch::Write, PAGE_BYTES);
    let start = mapping.start();
    mem::forget(mapping);
    Ok(start)
}

fn repeat(
    iterations: u64,
    meter: &Meter,
    mut operation: impl FnMut() -> Result<(), Errno>,
) -> Result<Sample> {
    for _ in 0..WARM_UP {
        operation().map_err(silent)?;
    }
    meter.time(|| (0..iterations).try_for_each(|_| operation()).map_err(silent))
}

/// An error without words: a child may not allocate, and its parent adds them.
fn silent(errno: Errno) -> Error {
    Error::os(String::new(), errno)
}
