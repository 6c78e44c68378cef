//! Programs that the measurements run: static ELF files made at run time, with
//! exactly the asked sizes of initialised data and bss, and without a compiler.
//! Beside these bare ones there are [`ordinary`] ones that talk likewise.
//!
//! ```text
//!   *.s ── assembled with this crate ──> code ──> image: an ELF file
//!                                                   │
//!   harness ── commands (fd 0) ──> running program ─┘
//!           <── answers (fd 1) ───  stamps at start and end of the rounds
//! ```
//!
//! A running program waits for a command, works by itself, and answers with the
//! clock and the processor time it read before and after. Nobody talks to it
//! while it works, so that nothing but the operation is in the interval. It
//! ends when its commands do, and the kernel kills it when the thread that
//! started it ends: it cannot outlive the harness.

mod answer;
mod code;
mod file;
mod image;
mod limits;
mod ordinary;
mod running;

pub(crate) use answer::STAMP;
pub(crate) use code::Code;
pub(crate) use image::Image;
#[cfg(test)]
pub(crate) use limits::hard_stack_limit_below;
pub(crate) use limits::{StackLimit, available_memory, memory_fits, memory_promised};
pub(crate) use ordinary::{ALL as ORDINARY, Ordinary, Start};
pub(crate) use running::{Program, start};

/// Size of an ordinary page, bytes.
pub(crate) const PAGE: u64 = 4096;

/// Most bytes that an image, its stack and its mappings may take together: a
/// half of x86-64's 2⁴⁷, and a quarter of aarch64's 2⁴⁸, so that wherever the kernel puts them they fit.
pub(crate) const ADDRESS_SPACE: u64 = 1 << 46;
