//! Effects of calls, counted in a file that outlives the place: each is there once, or not, as its
//! caller was told.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use kumiki_places::{Part, Portable, Run};
use kumiki_resource::Place;
use kumiki_resource::kind::{About, Kind};

/// Effects, a byte a call. A file that cannot be written is told to each caller.
pub(crate) struct Ledger(std::io::Result<File>);

impl Kind for Ledger {
    const NAME: &'static str = "ledger";
    type Spec = PathBuf;
    type Pool = ();

    fn pool(_: Place) -> kumiki_resource::Result<()> {
        Ok(())
    }

    fn create(path: PathBuf, (): &mut ()) -> kumiki_resource::Result<Ledger> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(Ledger(options.open(path)))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About::default()
    }
}

impl Portable for Ledger {}

/// Counts the effect of a call, and gives how many it has had; 0 if that could not be written.
#[derive(Debug)]
pub(crate) struct Note;

impl Part for Note {
    type Kind = Ledger;
    const NAME: &'static str = "note";
    type In = u64;
    type Out = u8;
}

impl Run for Note {
    fn run(ledger: &mut Ledger, (): &mut (), call: u64) -> u8 {
        let Ok(file) = &ledger.0 else { return 0 };
        let mut count = [0];
        // Beyond its end the file has none.
        let read = file.read_at(&mut count, call);
        count[0] = count[0].saturating_add(1);
        if read.is_err() || file.write_all_at(&count, call).is_err() { 0 } else { count[0] }
    }
}

/// A caller's knowledge of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    NotDone,
    Done,
    Nothing,
}

/// Calls that are noted in one file, and what their callers know of them.
#[derive(Debug)]
pub(crate) struct Calls {
    path: PathBuf,
    next: AtomicU64,
    known: Mutex<Vec<Known>>,
}

impl Calls {
    pub(crate) fn of(path: PathBuf) -> Calls {
        Calls { path, next: AtomicU64::new(0), known: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Numbers of so many calls.
    pub(crate) fn next(&self, many: u64) -> std::ops::Range<u64> {
        let first = self.next.fetch_add(many, Relaxed);
        first..first + many
    }

    pub(crate) fn is(&self, call: u64, known: Known) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let call = call as usize;
        if call >= all.len() {
            // Of those between somebody waits for the answer.
            all.resize(call + 1, Known::Nothing);
        }
        all[call] = known;
    }

    /// Compares with the file, when nobody calls any more and nobody writes; how many effects.
    pub(crate) fn compare(&self) -> Result<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut effects = std::fs::read(&self.path).context("reading the effects")?;
        ensure!(effects.len() <= known.len(), "effects of calls that nobody has made");
        effects.resize(known.len(), 0);
        for (call, (times, known)) in effects.iter().zip(&*known).enumerate() {
            let fits = match known {
                Known::NotDone => *times == 0,
                Known::Done => *times == 1,
                Known::Nothing => *times <= 1,
            };
            ensure!(fits, "call {call}: {times} effects, and its caller was told: {known:?}");
        }
        Ok(effects.into_iter().map(u64::from).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_that_nobody_was_told_of_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("effects");
        let mut ledger = Ledger::create(path.clone(), &mut ()).unwrap();
        let calls = Calls::of(path);
        assert_eq!((calls.next(2), calls.next(1)), (0..2, 2..3));
        for known in [Known::Done, Known::NotDone, Known::Nothing] {
            calls.is(known as u64, known);
        }
        let mut note = |call| Note::run(&mut ledger, &mut (), call);
        assert!(calls.compare().is_err(), "one was done and has no effect");
        assert_eq!(note(Known::Done as u64), 1);
        assert_eq!(note(Known::Nothing as u64), 1);
        assert_eq!(calls.compare().unwrap(), 2);
        assert_eq!(note(Known::Nothing as u64), 2);
        assert!(calls.compare().is_err(), "one was done twice");
        calls.is(3, Known::NotDone);
        assert_eq!(note(3), 1);
        assert!(calls.compare().unwrap_err().to_string().starts_with("call 2"));
    }
}
