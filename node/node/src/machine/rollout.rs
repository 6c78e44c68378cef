//! The last file that was applied: how far that is, and what stood in it before. Beside a node's
//! other files, gone with the machine's next start, as the nodes are.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use kumiki_node_devices::process::Process;
use kumiki_node_devices::runtime;
use serde::{Deserialize, Serialize};

use super::plan::Step;
use crate::{Error, ErrorKind, Result, Subject, json};

const FILE: &str = "rollout.json";

/// Carrying out of a machine file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// The file.
    pub file: PathBuf,
    /// Its text.
    trying: String,
    /// Its text as it was applied last to its end, and the other one before that.
    applied: Option<String>,
    before: Option<String>,
    /// Steps, in their order.
    pub steps: Vec<String>,
    /// Number of them that are done.
    pub done: usize,
    /// Seconds since 1970 at its beginning.
    pub begun_s: u64,
    /// State of the rollout.
    pub state: RolloutState,
    /// Reason for which it failed.
    pub error: Option<String>,
    #[serde(flatten)]
    process: Process,
}

/// State of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutState {
    /// A process carries it out.
    Running,
    /// The process that carried it out has ended before it was done.
    Interrupted,
    /// All of it is done.
    Done,
    /// A step failed, and those before it were undone.
    Failed,
}

impl Rollout {
    /// The last one, if there was any since this machine was started.
    pub fn last() -> Result<Option<Self>> {
        let path = runtime::file(FILE)?;
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| Error::file(&path, error))?,
        };
        let mut rollout: Self = serde_json::from_slice(&bytes).map_err(|error| {
            let text = format!("{}: {error}: remove it and apply again", path.display());
            Error::refused(ErrorKind::Damaged, Subject::File(path.clone()), text)
        })?;
        if rollout.state == RolloutState::Running && !rollout.process.lives() {
            rollout.state = RolloutState::Interrupted;
        }
        Ok(Some(rollout))
    }

    /// Its text is what the machine is by.
    fn done(&mut self) {
        self.state = RolloutState::Done;
        if self.applied.as_ref() != Some(&self.trying) {
            self.before = self.applied.replace(self.trying.clone());
        }
    }

    /// Text that an undo returns to.
    fn former(&self) -> Option<&String> {
        match self.state {
            RolloutState::Interrupted => self.applied.as_ref(),
            _ => self.before.as_ref(),
        }
    }
}

/// Note of a rollout that this process carries out. That it cannot be told later how far is no
/// reason to stop.
pub(super) struct Note(Rollout);

impl Note {
    pub(super) fn begin((file, text): (PathBuf, String), steps: &[Step]) -> Result<Self> {
        let file = std::path::absolute(&file).unwrap_or(file);
        let last = Rollout::last().unwrap_or(None).filter(|last| last.file == file);
        let (applied, before) = last.map_or((None, None), |last| (last.applied, last.before));
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let note = Note(Rollout {
            file,
            trying: text,
            applied,
            before,
            steps: steps.iter().map(Step::to_string).collect(),
            done: 0,
            begun_s: begun.as_secs(),
            state: RolloutState::Running,
            error: None,
            process: Process::this(),
        });
        note.keep().map(|()| note)
    }

    pub(super) fn step(&mut self) {
        self.0.done += 1;
        let _ = self.keep();
    }

    pub(super) fn end(mut self, outcome: &Result<()>) {
        self.0.error = outcome.as_ref().err().map(ToString::to_string);
        match outcome {
            Ok(()) => self.0.done(),
            Err(_) => self.0.state = RolloutState::Failed,
        }
        let _ = self.keep();
    }

    fn keep(&self) -> Result<()> {
        let path = runtime::file(FILE)?;
        let new = path.with_extension("new");
        let json = json(&self.0)?;
        fs::write(&new, json)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| Error::file(path, error))
    }

    /// The file that was applied last, and what stood in it before.
    pub(super) fn before() -> Result<(PathBuf, String)> {
        let last = Rollout::last()?;
        let last = last.ok_or_else(|| {
            Error::refused(
                ErrorKind::NotFound,
                Subject::Word("node rollout".into()),
                "no file was applied since this machine was started: kumiki node apply",
            )
        })?;
        if last.state == RolloutState::Running {
            let text =
                format!("{} is being applied: kumiki node rollout status", last.file.display());
            return Err(Error::refused(ErrorKind::Busy, Subject::File(last.file), text));
        }
        let former = last.former().cloned().ok_or_else(|| {
            let text = format!("{} was applied in one form only", last.file.display());
            Error::refused(ErrorKind::NotFound, Subject::File(last.file.clone()), text)
        })?;
        Ok((last.file, former))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undo_leads_to_what_was_before_and_a_second_one_back() {
        let mut note = Rollout {
            file: "/m.toml".into(),
            trying: "a".into(),
            applied: None,
            before: None,
            steps: vec![],
            done: 0,
            begun_s: 0,
            state: RolloutState::Running,
            error: None,
            process: Process::default(),
        };
        let mut tried = |text: &str, state: RolloutState| {
            note.trying = text.into();
            note.state = state;
            if state == RolloutState::Done {
                note.done();
            }
            note.former().cloned()
        };
        let (done, failed) = (RolloutState::Done, RolloutState::Failed);
        assert_eq!(tried("a", done), None);
        assert_eq!(tried("a", done), None);
        assert_eq!(tried("b", done).as_deref(), Some("a"));
        // One that failed was undone.
        assert_eq!(tried("c", failed).as_deref(), Some("a"));
        assert_eq!(tried("b", done).as_deref(), Some("a"));
        // One that was killed may have done a half.
        assert_eq!(tried("c", RolloutState::Interrupted).as_deref(), Some("b"));
        // The undo, and the undo of that.
        assert_eq!(tried("a", done).as_deref(), Some("b"));
        assert_eq!(tried("b", done).as_deref(), Some("a"));
    }
}
