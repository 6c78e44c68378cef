//! The size of a tree of files, as `du` says it: each walker a process of its
//! own, from start to end.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use kumiki_measure::bench::Row;

use crate::busy::Busy;
use crate::case::Case;
use crate::run::Turns;
use crate::stopwatch::Stopwatch;

mod halves;
#[cfg(feature = "peers")]
pub(crate) mod walk;

use self::halves::Halves;

/// The tree.
const TREE: &str = "/usr";
/// The case's name.
const NAME: &str = "du_usr";
/// The same while other processes keep cpus busy.
const LOADED: &str = "du_loaded";
/// Both.
pub(crate) const NAMES: [&str; 2] = [NAME, LOADED];
/// Numbers of busy processes, up to a crowd.
const BUSY: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Ours, which makes its calls one after the other.
const PLAIN: &str = "kumiki/plain";
/// Runs of each walker, in turns.
const ROUNDS: usize = 12;
/// How far sizes may be from each other, as a part: somebody may write to the
/// tree meanwhile.
const DIFFERENCE: f64 = 0.001;
/// The walker whose figure is the plain way.
const BASE: &str = "gnu_du";
/// No walker, but what two cpus give.
const HALVES: &str = "gnu_du/halves";

/// Cases of du.
#[derive(Clone, Copy, Debug, serde::Serialize)]
enum Du {
    /// Tree of so many entries.
    Usr(u64),
    /// Beside so many busy processes.
    Loaded(u64),
}

impl Case for Du {
    fn name(self) -> &'static str {
        match self {
            Du::Usr(_) => NAME,
            Du::Loaded(_) => LOADED,
        }
    }

    fn size(self) -> Option<u64> {
        let (Du::Usr(size) | Du::Loaded(size)) = self;
        Some(size)
    }

    fn unit(self) -> &'static str {
        "ms"
    }
}

/// Answer of a walker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    /// Allocated, each file once whatever its names.
    kib: u64,
    /// Names in the tree and the tree itself, if the walker counts them.
    entries: Option<u64>,
}

/// Times every walker, or those of ours beside the `other` program's.
///
/// # Errors
/// A walker fails, or two of them disagree on the size of the tree.
pub(crate) fn rows(only: &[&str], other: Option<&Path>) -> Result<Vec<Row>> {
    let asked = |name| only.is_empty() || only.contains(&name);
    let halves = Halves::of(Path::new(TREE))?;
    let ours = ours(other)?;
    let mut rows = Vec::new();
    if asked(NAME) {
        eprintln!("{NAME}");
        let others = if other.is_some() { Vec::new() } else { others(&halves)? };
        let idle = ours.iter().filter(|walker| !walker.name.ends_with(PLAIN));
        let walkers: Vec<&Walker> = others.iter().chain(idle).collect();
        let entries = agreed(&walkers)?;
        rows.extend(times(&walkers, Du::Usr(entries), Some(BASE))?);
    }
    if asked(LOADED) && !ours.is_empty() {
        // GNU's du beside them: what a crowd costs whoever has one thread.
        let gnu = other.is_none().then(gnu);
        let walkers: Vec<&Walker> = ours.iter().chain(&gnu).collect();
        agreed(&walkers)?;
        for busy in BUSY {
            eprintln!("{LOADED} {busy}");
            let _busy = Busy::start(busy as usize)?;
            rows.extend(times(&walkers, Du::Loaded(busy), Some(PLAIN))?);
        }
    }
    Ok(rows)
}

/// Has all walk once, which fills the kernel's caches, and compares what they say. Returns
/// how many entries there are, if one tells.
fn agreed(walkers: &[&Walker]) -> Result<u64> {
    let watch = Stopwatch::new();
    let mut answers = Vec::new();
    for walker in walkers {
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
    Ok(answers.iter().find_map(|(_, answer)| answer.entries).unwrap_or(0))
}

fn times(walkers: &[&Walker], case: Du, base: Option<&str>) -> Result<Vec<Row>> {
    let watch = Stopwatch::new();
    let mut turns: Vec<Turns> = walkers.iter().map(|_| Turns::default()).collect();
    let mut order: Vec<usize> = (0..walkers.len()).collect();
    for _ in 0..ROUNDS {
        fastrand::shuffle(&mut order);
        for &i in &order {
            let (ns, _) = walkers[i].run(&watch)?;
            turns[i].samples.push(vec![ns / 1e6]);
        }
    }
    let base = walkers.iter().position(|walker| Some(walker.name) == base);
    let base = base.map(|i| turns[i].median());
    let row = |(walker, its): (&&Walker, &Turns)| crate::run::row(case, walker.name, its, base);
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

fn words(words: &[&str]) -> Vec<Vec<OsString>> {
    vec![words.iter().map(OsString::from).collect()]
}

/// Our walker, and the one beside the `other` program, each in both forms.
fn ours(other: Option<&Path>) -> Result<Vec<Walker>> {
    let own = std::env::current_exe().context("finding our own program")?;
    let names = ["kumiki", PLAIN, "other:kumiki", "other:kumiki/plain"];
    let programs = [Some(&*own), other].map(|path| path.map(|it| it.with_file_name("kumiki-du")));
    let mut walkers = Vec::new();
    for (at, program) in programs.into_iter().flatten().enumerate() {
        if !program.is_file() {
            eprintln!("kumiki-du is left out: there is no {}", program.display());
            continue;
        }
        let forms = [words(&["-s", TREE]), words(&["--plain", "-s", TREE])];
        for (name, words) in names[2 * at..].iter().zip(forms) {
            walkers.push(Walker { name, program: program.clone(), words });
        }
    }
    Ok(walkers)
}

/// GNU's.
fn gnu() -> Walker {
    Walker { name: BASE, program: PathBuf::from("du"), words: words(&["-s", TREE]) }
}

/// Walkers of others.
fn others(halves: &Halves) -> Result<Vec<Walker>> {
    let gnu = gnu();
    let halves =
        Walker { name: HALVES, program: gnu.program.clone(), words: halves.words().into() };
    #[cfg_attr(not(feature = "peers"), expect(unused_mut, reason = "there are no more"))]
    let mut walkers = vec![gnu, halves];
    #[cfg(feature = "peers")]
    for &name in walk::NAMES {
        if name == walk::RING && io_uring::IoUring::new(1).is_err() {
            eprintln!("{name} is left out, as it is refused here");
            continue;
        }
        let own = std::env::current_exe().context("finding our own program")?;
        walkers.push(Walker { name, program: own, words: words(&["walk", name, TREE]) });
    }
    Ok(walkers)
}

/// Walks as `name` and prints what it found.
pub fn walk(name: &str, tree: &Path) -> Result<()> {
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
