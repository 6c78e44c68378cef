//! A machine of lines: Kumiki's protocols, their real code, on 2 to 256 simulated cpus.
//!
//! Built with `--cfg sim`, the atomics, clocks, futexes and threads of Kumiki's crates are doubles
//! (`kumiki_sys::sim`), as loom's are under `--cfg loom`. A [`Run`] is the machine that they ask:
//! threads are coroutines in virtual time, and a directory knows which cpus have which line. What
//! comes out are counts, which no machine at hand could give, and times as far as the model goes.
//! `cargo xtask sim` prints them; `docs/design/lines.md` says what is modelled and what is not.

#![cfg(sim)]

mod against;
mod directory;
mod engine;
mod machine;
mod measured;
mod place;
mod predict;
mod protocol;
mod report;
mod table;

pub use engine::{Counts, Run};
pub use machine::Machine;
pub use place::Place;
pub use protocol::{PROTOCOLS, Protocol};
pub use report::Report;
pub use table::table;
