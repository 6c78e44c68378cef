//! Ways to start another program, against the memory of the one that starts
//! it: those that duplicate the address space pay for every page of it, the
//! others borrow it.
//!
//! Each starts the smallest program there can be, which ends at once, and waits
//! for it: what is measured is the way, not the program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mm::MapFlags;

use super::start::{self, Target};
use super::sweep::{M, Sizes};
use crate::mapping::{Mapping, PAGE_BYTES, Touch, mappable};
use crate::program::{self, Code, Image};
use crate::sweep::nonzero;
use kumiki_measure::case::{Case, Choice, Level, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

const ANON: Sizes = &[(64 * M, Level::Quick), (256 * M, Level::Default), (1024 * M, Level::Full)];

/// A way to start a program and wait for it.
type SpawnWay = fn(&Target) -> Result<()>;

const WAYS: [(&str, &str, SpawnWay); 7] = [
    ("process.spawn.vfork", "vfork and execve, raw", start::vfork),
    ("process.spawn.clone3", "clone3(CLONE_VM | CLONE_VFORK) and execve, raw", start::clone3),
    ("process.spawn.posix_spawn", "posix_spawn of the C library", start::posix_spawn),
    ("process.spawn.command", "std::process::Command", start::command),
    (
        "process.spawn.command_pre_exec",
        "std::process::Command with a hook before exec: forks",
        start::command_pre_exec,
    ),
    ("process.spawn.fork_exec", "fork and execve", start::fork_exec),
    ("process.spawn.system", "system: by way of a shell", start::system),
];

/// `process.spawn.*`.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let mut sizes = vec![(0, Level::Quick)];
    sizes.extend(nonzero(choice, ANON));
    let mut cases = Vec::new();
    for (name, about, way) in WAYS {
        for (anon_bytes, level) in sizes.iter().copied() {
            let case = Case::new(name, about, move |place| Spawning::new(way, anon_bytes, place));
            cases.push(case.level(level).with("anon_bytes", anon_bytes).asks(anon_bytes));
        }
    }
    cases
}

/// A parent with some memory that starts programs.
struct Spawning {
    way: SpawnWay,
    target: Target,
    _memory: Resident,
}

impl Spawning {
    fn new(way: SpawnWay, anon_bytes: u64, place: &Place) -> Result<Self> {
        let path = smallest_program(&place.scratch)?;
        // Once by hand: a folder that runs no programs is found out here, and a
        // file that is still open for writing in another thread's child waited for.
        program::start(Command::new(&path).stdin(Stdio::null()))?
            .wait()
            .map_err(|e| Error::os("wait for the first program", e))?;
        Ok(Spawning { way, target: Target::new(&path)?, _memory: Resident::new(anon_bytes)? })
    }
}

/// The smallest program there can be, which ends at once: a file below this folder.
///
/// # Errors
/// The folder cannot be written.
pub fn smallest_program(folder: &Path) -> Result<PathBuf> {
    Image::of(Code::Exit).file(folder, "exit")
}

/// A program that ends at once, of so many bytes of text (64 to 3,000), data and bss: a file
/// below this folder.
///
/// # Errors
/// The folder cannot be written; other sizes.
pub fn program(folder: &Path, [text, data, bss]: [u64; 3]) -> Result<PathBuf> {
    if !(64..=3000).contains(&text) {
        return Err(Error::Invalid(format!("{text} bytes of text: choose 64 to 3000")));
    }
    let image = Image { code: Code::Exit, text_bytes: text, data_bytes: data, bss_bytes: bss };
    image.file(folder, &format!("exit-{text}-{data}-{bss}"))
}

/// Memory of this process in ordinary pages, each written once. Gone when dropped.
pub struct Resident {
    _memory: Option<Mapping>,
}

impl std::fmt::Debug for Resident {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resident").finish_non_exhaustive()
    }
}

impl Resident {
    /// Takes memory of `bytes`.
    ///
    /// # Errors
    /// The machine has less.
    pub fn new(bytes: u64) -> Result<Self> {
        Ok(Resident { _memory: resident(bytes)? })
    }
}

fn resident(bytes: u64) -> Result<Option<Mapping>> {
    if bytes == 0 {
        return Ok(None);
    }
    let size = mappable(bytes)?;
    program::memory_fits("the process that starts programs", bytes)?;
    let memory = Mapping::anonymous(size, MapFlags::PRIVATE)?.ordinary_pages();
    memory.touch(Touch::Write, PAGE_BYTES);
    Ok(Some(memory))
}

impl Workload for Spawning {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        meter.time(|| (0..iterations).try_for_each(|_| (self.way)(&self.target)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::{meter, place};

    #[test]
    fn every_way_starts_and_reaps_programs() {
        let place = place();
        for (name, _, way) in WAYS {
            for bytes in [0, 4 * M] {
                match Spawning::new(way, bytes, &place).unwrap().sample(5, &meter()) {
                    Ok(sample) => assert!(sample.wall_ns > 0.0, "{name}"),
                    Err(e) => assert!(matches!(e, Error::Unsupported { .. }), "{name}: {e}"),
                }
            }
        }
    }

    #[test]
    fn every_way_takes_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let image = Image::of(Code::Exit);
        let path = image.file(folder.path(), "it's a $HOME `x` \"name\"").unwrap();
        program::start(&mut Command::new(&path)).unwrap().wait().unwrap();
        for (name, _, way) in WAYS {
            match way(&Target::new(&path).unwrap()) {
                Ok(()) | Err(Error::Unsupported { .. }) => {}
                Err(e) => panic!("{name}: {e}"),
            }
        }
    }

    #[test]
    fn every_way_notices_that_a_program_cannot_be_started_or_fails() {
        for (name, _, way) in WAYS {
            // A shell says by itself what it does not find.
            let shell = name == "process.spawn.system";
            let paths = ["/bin/false", "/nonexistent-program", "/etc/passwd"];
            for path in &paths[..if shell { 1 } else { paths.len() }] {
                let error = way(&Target::new(Path::new(path)).unwrap()).unwrap_err();
                assert!(
                    matches!(
                        error,
                        Error::Program { .. } | Error::Os { .. } | Error::Unsupported { .. }
                    ),
                    "{name} {path}: {error}"
                );
            }
        }
    }

    #[test]
    fn the_parents_memory_is_resident() {
        let bytes = 8 * M as usize;
        let memory = resident(bytes as u64).unwrap().unwrap();
        for page in (0..bytes).step_by(PAGE_BYTES) {
            assert!(memory.resident(page).unwrap());
        }
        assert!(resident(0).unwrap().is_none());
        assert!(matches!(resident(1 << 46), Err(Error::Unsupported { .. })));
        assert!(matches!(resident(u64::MAX), Err(Error::Invalid(_))));
    }

    #[test]
    fn cases_state_the_memory_they_ask_for() {
        for case in cases(&Choice::default()) {
            assert_eq!(case.params["anon_bytes"], case.asks_bytes.into(), "{}", case.name);
        }
    }
}
