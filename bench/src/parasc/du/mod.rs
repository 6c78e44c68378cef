//! The size of a tree of files, as `du` says it: each walker a process of its
//! own, from start to end.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::case::Case;
use crate::run::{Row, Turns};
use crate::stopwatch::Stopwatch;

mod halves;
#[cfg(feature = "peers")]
pub(crate) mod walk;

use self::halves::Halves;

/// The tree.
const TREE: &str = "/usr";
/// The case's name.
pub(crate) const NAME: &str = "du_usr";
/// Runs of each walker, in turns.
const ROUNDS: usize = 12;
/// How far sizes may be from each other, as a part: somebody may write to the
/// tree meanwhile.
const DIFFERENCE: f64 = 0.001;
/// The walker whose figure is the plain way.
const BASE: &str = "gnu_du";
/// No walker, but what two cpus give.
const HALVES: &str = "gnu_du/halves";

/// What is asked for, of so many entries.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct DuUsr {
    entries: u64,
}

impl Case for DuUsr {
    fn name(self) -> &'static str {
        NAME
    }

    fn size(self) -> Option<u64> {
        Some(self.entries)
    }

    fn unit(self) -> &'static str {
        "ms"
    }
}

/// What a walker says of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    /// Allocated, each file once whatever its names.
    kib: u64,
    /// Names in the tree and the tree itself, if the walker counts them.
    entries: Option<u64>,
}

/// Times every walker.
///
/// # Errors
/// A walker fails, or two of them disagree on the size of the tree.
pub(crate) fn rows() -> Result<Vec<Row>> {
    eprintln!("{NAME}");
    let watch = Stopwatch::new();
    let halves = Halves::of(Path::new(TREE))?;
    let walkers = walkers(&halves)?;
    let mut turns: Vec<Turns> = walkers.iter().map(|_| Turns::default()).collect();
    let mut order: Vec<usize> = (0..walkers.len()).collect();
    // Fills the kernel's caches, and is compared with all others.
    let mut answers = Vec::new();
    for walker in &walkers {
        let (_, answer) = walker.run(&watch)?;
        answers.extend(answer.map(|answer| (walker.name, answer)));
    }
    let (base, first) = answers.first().copied().context("nobody walks")?;
    for (name, answer) in &answers {
        ensure!(
            answer.kib.abs_diff(first.kib) as f64 <= DIFFERENCE * first.kib as f64,
            "{name} finds {} KiB in {TREE}, but {base} finds {}",
            answer.kib,
            first.kib
        );
    }
    for _ in 0..ROUNDS {
        fastrand::shuffle(&mut order);
        for &i in &order {
            let (ns, _) = walkers[i].run(&watch)?;
            turns[i].samples.push(vec![ns / 1e6]);
        }
    }
    let entries = answers.iter().find_map(|(_, answer)| answer.entries).unwrap_or(0);
    let base = walkers.iter().position(|walker| walker.name == BASE);
    let base = base.map(|i| turns[i].median());
    let row =
        |(walker, its): (&Walker, &Turns)| Row::new(DuUsr { entries }, walker.name, its, base);
    Ok(walkers.iter().zip(&turns).map(row).collect())
}

/// A program that says the size of the tree; or several side by side that say nothing.
struct Walker {
    name: &'static str,
    program: PathBuf,
    words: Vec<Vec<OsString>>,
}

impl Walker {
    /// Nanoseconds and the answer.
    fn run(&self, watch: &Stopwatch) -> Result<(f64, Option<Answer>)> {
        let start = watch.clock().start();
        let outputs = self.outputs();
        let ns = watch.ns(start, watch.clock().end());
        let outputs = outputs.with_context(|| format!("running {}", self.program.display()))?;
        for output in &outputs {
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{} failed: {stderr}", self.name);
        }
        let [output] = &outputs[..] else { return Ok((ns, None)) };
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = parse(&text).with_context(|| format!("{} said {text:?}", self.name))?;
        Ok((ns, Some(answer)))
    }

    fn outputs(&self) -> io::Result<Vec<Output>> {
        let start = |words| {
            let mut command = Command::new(&self.program);
            // They are waited for one after the other, and none is to wait for its reader.
            let said = if self.words.len() == 1 { Stdio::piped() } else { Stdio::null() };
            command.args(words).stdin(Stdio::null()).stdout(said).stderr(Stdio::piped()).spawn()
        };
        let programs = self.words.iter().map(start).collect::<io::Result<Vec<_>>>()?;
        programs.into_iter().map(Child::wait_with_output).collect()
    }
}

/// `KIB` and what else there is: the path, as `du` prints it, or the entries.
fn parse(text: &str) -> Result<Answer> {
    let mut words = text.split_whitespace();
    let kib = words.next().context("no size")?.parse().context("no size")?;
    Ok(Answer { kib, entries: words.next().and_then(|word| word.parse().ok()) })
}

fn walkers(halves: &Halves) -> Result<Vec<Walker>> {
    let own = std::env::current_exe().context("finding our own program")?;
    let words = |words: &[&str]| vec![words.iter().map(OsString::from).collect()];
    let (du, summary) = (PathBuf::from("du"), words(&["-s", TREE]));
    let mut walkers = vec![
        Walker { name: BASE, program: du.clone(), words: summary.clone() },
        Walker { name: HALVES, program: du, words: halves.words().into() },
    ];
    let kumiki = own.with_file_name("kumiki-du");
    if kumiki.is_file() {
        walkers.push(Walker { name: "kumiki", program: kumiki, words: summary });
    } else {
        eprintln!("kumiki-du is left out: there is none beside {}", own.display());
    }
    #[cfg(feature = "peers")]
    for &name in walk::NAMES {
        if name == walk::RING && io_uring::IoUring::new(1).is_err() {
            eprintln!("{name} is left out, as it is refused here");
            continue;
        }
        let words = words(&["walk", name, TREE]);
        walkers.push(Walker { name, program: own.clone(), words });
    }
    Ok(walkers)
}

/// Walks as `name` and prints what it found.
pub(crate) fn walk(name: &str, tree: &Path) -> Result<()> {
    #[cfg(feature = "peers")]
    if let Some(walk) = walk::by_name(name) {
        let total = walk(tree)?;
        println!("{}\t{}", total.kib(), total.entries);
        return Ok(());
    }
    bail!("there is no walker {name:?} of {} in this build", tree.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_from_du_and_from_our_walkers() {
        let du = parse("1234\t/usr\n").unwrap();
        assert_eq!(du, Answer { kib: 1234, entries: None });
        assert_eq!(parse("1234\t56\n").unwrap(), Answer { kib: 1234, entries: Some(56) });
        assert!(parse("").is_err());
        assert!(parse("du: cannot read").is_err());
    }
}
