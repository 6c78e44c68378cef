//! The module's files in sysfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kumiki_boot::Piece;
use serde::{Deserialize, Serialize};

use crate::module::holding::Holding;
use crate::module::requests;
use crate::{Error, ErrorKind, Result, Subject};

const ROOT: &str = "/sys/class/misc/kumiki-osnode";
/// State of a node that was started and not stopped, or that another one may start.
pub const RUNNING: &str = "running";

/// The module's parameter, which may be written at any time.
pub const IMAGE_LIMIT: &str = "/sys/module/osnode/parameters/image_limit_mb";

/// A node or image by its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub name: String,
    pub state: String,
    /// Process that owns it; 0 if none does.
    pub owner: u32,
    pub pieces: Vec<Piece>,
    /// Numbers of the cpus and their APIC ids; of nodes.
    pub cpus: Vec<(u32, u32)>,
    pub slice: u64,
    /// Last word of a node's about itself.
    pub word: u32,
}

impl Status {
    /// True if it is a node that runs, or that another one may start.
    pub fn runs(&self) -> bool {
        self.state == RUNNING
    }

    /// Refuses a node that runs, with the way to one that does not.
    pub fn must_rest(&self, but: &str, way: &str) -> Result<()> {
        if !self.runs() {
            return Ok(());
        }
        let name = &self.name;
        let text = format!("node {name} {but}: kumiki node stop {name}{way}");
        Err(Error::refused(ErrorKind::Running, Subject::node(name), text))
    }

    /// Refuses a node that does not run.
    pub fn must_run(&self) -> Result<()> {
        if self.runs() {
            return Ok(());
        }
        let text = format!("node {} does not run", self.name);
        Err(Error::refused(ErrorKind::NotRunning, Subject::node(&self.name), text))
    }
}

/// All of a kind, by name.
pub fn all(kind: Holding) -> Result<Vec<Status>> {
    let names = names(kind)?;
    names.iter().filter_map(|name| unless_gone(kind, name, one(kind, name))).collect()
}

/// Number of further nodes that have room below 1 MiB, which a start needs of a machine's memory.
pub fn low_slices() -> Result<u64> {
    requests::probe()?;
    let path = Path::new(ROOT).join("slices_free");
    number(&path, text(&path)?.trim())
}

/// Fact to be known of each of a kind.
pub fn each<T>(kind: Holding, look: impl Fn(&Status) -> Result<T>) -> Result<Vec<T>> {
    let entries = all(kind)?;
    entries.iter().filter_map(|entry| unless_gone(kind, &entry.name, look(entry))).collect()
}

/// Outcome of a look; `None` if it failed because the node or image is there no more.
fn unless_gone<T>(kind: Holding, name: &str, seen: Result<T>) -> Option<Result<T>> {
    (seen.is_ok() || exists(kind, name)).then_some(seen)
}

/// True if there is one of this name.
pub fn exists(kind: Holding, name: &str) -> bool {
    folder(kind).join(name).is_dir()
}

fn names(kind: Holding) -> Result<Vec<String>> {
    let folder = folder(kind);
    let mut names = match fs::read_dir(&folder) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<Vec<_>, std::io::Error>>()
            .map_err(|error| Error::file(&folder, error))?,
        // Says which of the two, the module or the permission, is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            requests::probe()?;
            return Err(Error::file(&folder, error));
        }
        Err(error) => return Err(Error::file(&folder, error)),
    };
    names.sort();
    Ok(names)
}

/// One by its name.
pub fn one(kind: Holding, name: &str) -> Result<Status> {
    let folder = folder(kind).join(name);
    if !exists(kind, name) {
        requests::probe()?;
        let noun = kind.noun();
        return Err(Error::refused(
            ErrorKind::NotFound,
            kind.subject(name),
            format!("there is no {noun} {name}: see kumiki {noun} ls"),
        ));
    }
    entry(name, &folder)
}

/// The host's time stamp counter by its kernel, kHz.
pub fn tsc_khz() -> Result<u64> {
    let path = Path::new(ROOT).join("tsc_khz");
    number(&path, text(&path)?.trim())
}

/// Limit of all images together, bytes; `None` if only what is free limits them.
pub fn image_limit_bytes() -> Result<Option<u64>> {
    let path = Path::new(IMAGE_LIMIT);
    let mib = number(path, text(path)?.trim())?;
    Ok((mib > 0).then_some(mib << 20))
}

fn folder(kind: Holding) -> PathBuf {
    Path::new(ROOT).join(match kind {
        Holding::Node => "nodes",
        Holding::Image => "images",
    })
}

fn entry(name: &str, folder: &Path) -> Result<Status> {
    let memory = folder.join("memory");
    let pieces = pairs(&memory)?.into_iter().map(|(address, bytes)| Piece { address, bytes });
    let mut entry = Status {
        name: name.to_owned(),
        state: text(&folder.join("state"))?.trim().to_owned(),
        owner: number(folder, text(&folder.join("owner"))?.trim())? as u32,
        pieces: pieces.collect(),
        cpus: Vec::new(),
        slice: 0,
        word: 0,
    };
    let (cpus, slice, word) = (folder.join("cpus"), folder.join("slice"), folder.join("word"));
    if slice.exists() {
        entry.cpus = pairs(&cpus)?.into_iter().map(|(a, b)| (a as u32, b as u32)).collect();
        entry.slice = number(&slice, text(&slice)?.trim())?;
        entry.word = number(&word, text(&word)?.trim())? as u32;
    }
    Ok(entry)
}

/// A piece's range of addresses, for people.
pub fn range(piece: &Piece) -> String {
    format!("{:#x}-{:#x}", piece.address, piece.end())
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::file(path, error))
}

/// Lines of two numbers.
fn pairs(path: &Path) -> Result<Vec<(u64, u64)>> {
    let pair = |line: &str| {
        let (a, b) = line.split_once(' ').unwrap_or((line, ""));
        Ok((number(path, a)?, number(path, b)?))
    };
    text(path)?.lines().map(pair).collect()
}

fn number(path: &Path, text: &str) -> Result<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| {
        Error::refused(
            ErrorKind::Unsupported,
            Subject::File(path.to_owned()),
            format!(
                "{} holds {text:?} where a number was expected: the module is of another version",
                path.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_passed_over_and_other_failures_are_told() {
        let failed = || Err::<(), _>(Error::inner(ErrorKind::Busy, "no"));
        assert!(unless_gone(Holding::Node, "no-such-node", failed()).is_none());
        // The folder itself, which is there as long as any.
        assert!(unless_gone(Holding::Node, "/", failed()).is_some_and(|seen| seen.is_err()));
        assert!(
            unless_gone(Holding::Node, "no-such-node", Ok(())).is_some_and(|seen| seen.is_ok())
        );
    }

    #[test]
    fn a_node_runs_or_rests() {
        let entry = |state: &str| Status {
            name: "n1".into(),
            state: state.into(),
            owner: 0,
            pieces: vec![],
            cpus: vec![],
            slice: 0,
            word: 0,
        };
        let (runs, rests) = (entry("running"), entry("stopped"));
        let refused = runs.must_rest("runs already", "").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Running);
        assert_eq!(refused.to_string(), "node n1 runs already: kumiki node stop n1");
        assert_eq!(rests.must_run().unwrap_err().kind(), ErrorKind::NotRunning);
        assert!(runs.must_run().is_ok() && rests.must_rest("runs", "").is_ok());
    }

    #[test]
    fn every_file_of_the_tree_is_in_the_document() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let (module, document) = (read("node/kernel/osnode/tree.c"), read("docs/design/node.md"));
        let row = |file: &str| {
            let named = format!("`{file}`");
            document.lines().any(|line| line.starts_with("| `") && line.contains(&named))
        };
        let shown =
            module.lines().filter_map(|line| line.split_once("__ATTR_RO")?.1.split_once('('));
        let files: Vec<&str> =
            shown.filter_map(|(_, words)| words.split([',', ')']).next()).collect();
        assert_eq!(files.len(), 6);
        assert!(files.iter().all(|file| row(&format!("nodes/NAME/{file}"))), "{files:?}");
        assert_eq!(module.matches("__ATTR(").count(), 2);
        assert!(row("tsc_khz") && row("slices_free"));
        // An image has a part of them.
        for file in ["state", "owner", "memory"] {
            assert!(row(&format!("images/NAME/{file}")), "{file}");
        }
    }

    #[test]
    fn a_nodes_files_become_an_entry() {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            ("state", "running\n"),
            ("owner", "0\n"),
            ("memory", "0x40000000 0x8000000\n0x50000000 0x200000\n"),
            ("cpus", "3 3\n2 6\n"),
            ("slice", "0x30000\n"),
            ("word", "2\n"),
        ];
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
        let entry = entry("n1", folder.path()).unwrap();
        assert_eq!(entry.pieces[1], Piece { address: 0x5000_0000, bytes: 0x20_0000 });
        assert_eq!(
            (entry.slice, entry.word, &entry.cpus[..]),
            (0x3_0000, 2, &[(3, 3), (2, 6)][..])
        );
        fs::write(folder.path().join("word"), "two\n").unwrap();
        assert!(super::entry("n1", folder.path()).unwrap_err().to_string().contains("\"two\""));
    }
}
