//! Programs that nobody changes on a slow disk, with `libkumiki-ahead.so` in front and without, in turns, each run from a
//! fresh mount: those that it is for, those whose next call cannot be guessed, and all of them with all in memory.

mod disk;
mod image;
mod remote;
mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kumiki_measure::bench::Row;

use crate::run::median_of;
use disk::{Disk, fill};
use image::ran;
use remote::SshFolder;
pub(crate) use served::{WORD, serve};

/// Runs of each, in turns.
const ROUNDS: usize = 3;
const FILES: usize = 30_000;
const PLAIN: &str = "plain";
const KUMIKI: &str = "kumiki";
/// Times of an answer, of which all cases have the second one.
const ANSWERS_US: [u64; 3] = [100, 500, 1000];
/// Answer of a disk that is all in memory.
const WARM_US: u64 = 0;

/// A folder that is slow after each mount.
trait SlowFolder {
    /// The folder in which it is mounted.
    fn path(&self) -> PathBuf;

    /// Mounts it with nothing of it in memory; each request takes this long from then on.
    fn anew(&mut self, answer: Duration) -> Result<()>;
}

/// Debian's own: another one of a user's may be a script, which starts dozens of programs.
const PYTHON: &str = "/usr/bin/python3";

/// A case, what it runs in the disk's folder, what is run there before, and whether it has all times.
struct AheadCase {
    name: &'static str,
    line: &'static str,
    before: Option<&'static str>,
    has_all: bool,
}

const fn case(name: &'static str, line: &'static str) -> AheadCase {
    AheadCase { name, line, before: None, has_all: false }
}

/// `$OUT` is a new folder in memory.
const CASES: [AheadCase; 18] = [
    AheadCase { has_all: true, ..case("ahead_tar", "tar -cf - tree | cat >/dev/null") },
    AheadCase { has_all: true, ..case("ahead_grep", "grep -rc needle tree >/dev/null || true") },
    // All attributes are in memory: only reads sleep.
    AheadCase {
        before: Some("find tree -size +2k >/dev/null"),
        ..case("ahead_grep_looked_at", "grep -rc needle tree >/dev/null || true")
    },
    case("ahead_rsync", "rsync -a tree/ \"$OUT/\""),
    case(
        "ahead_sorted",
        "/usr/bin/python3 -I -c 'import os\nfor name in sorted(os.listdir(\"flat\")): open(\"flat/\" + name, \"rb\").read()'",
    ),
    case(
        "ahead_breadth_first",
        "/usr/bin/python3 -I -c 'import os\nrest = [\"tree/a1\"]\nfor above in rest:\n  for one in os.scandir(above):\n    \
         rest.append(one.path) if one.is_dir() else open(one.path, \"rb\").read()'",
    ),
    case("ahead_git_status", "git -C tree status --porcelain >/dev/null"),
    AheadCase { has_all: true, ..case("ahead_find_size", "find tree -size +2k >/dev/null") },
    case("ahead_du", "du -s tree >/dev/null"),
    case("ahead_ls", "ls -lR tree >/dev/null"),
    case("ahead_chown", "chown -R 0 tree"),
    case(
        "ahead_import",
        "/usr/bin/python3 -I -B -c 'import sys; sys.path[:0] = [\"python\"]; import whole'",
    ),
    // Neither reads a folder.
    case("ahead_cc", "cc -c -Ic/include -o \"$OUT/main.o\" c/main.c"),
    case("ahead_node", "node node/main.js >/dev/null"),
    case("ahead_find_name", "find tree -name needle"),
    case("ahead_ls_one", "ls tree/a0/b0/c0 >/dev/null"),
    case(
        "ahead_test",
        "n=0; while [ $n -lt 1000 ]; do test -e tree/a$((n/100))/b$((n/10))/c$n/file1; n=$((n+1)); done",
    ),
    case(
        "ahead_one_of_each",
        "/usr/bin/python3 -I -c 'import os\nfor at, _, names in os.walk(\"tree\"):\n  if len(names) == 30: \
         open(os.path.join(at, names[3])).close()'",
    ),
];

/// Cases of a file system of another machine, whose answers take this long.
const REMOTE_US: u64 = 1000;
const REMOTE_CASES: [AheadCase; 2] = [
    case("ahead_sshfs_tar", "tar -cf - tree | cat >/dev/null"),
    case("ahead_sshfs_rsync", "rsync -a tree/ \"$OUT/\""),
];

/// Measures all, or the cases in `only` if it names some.
pub(crate) fn rows(only: &[&str]) -> Result<Vec<Row>> {
    let known = |name: &&str| CASES.iter().chain(&REMOTE_CASES).any(|case| case.name == *name);
    ensure!(only.iter().all(known), "the bench ahead has no such case: {only:?}");
    let library = std::env::current_exe()?.with_file_name("libkumiki_ahead.so");
    ensure!(library.exists(), "{} is not built: cargo xtask bench does so", library.display());
    let mut rows = Vec::new();
    let is_wanted = |case: &&AheadCase| only.is_empty() || only.contains(&case.name);
    let mut disk = None;
    for case in CASES.iter().filter(is_wanted) {
        let disk = match &mut disk {
            Some(disk) => disk,
            none => {
                let mut server = Command::new(std::env::current_exe()?);
                server.arg(WORD);
                let made = none.insert(Disk::new(server)?);
                prepare(made)?;
                made
            }
        };
        for answer_us in ANSWERS_US.into_iter().chain([WARM_US]) {
            // With all in memory, what was looked at before is another case.
            let is_case = case.before.is_none() || answer_us != WARM_US;
            if is_case && (case.has_all || [ANSWERS_US[1], WARM_US].contains(&answer_us)) {
                measure(disk, &library, case, answer_us, &mut rows)?;
            }
        }
    }
    let mut remote = None;
    for case in REMOTE_CASES.iter().filter(is_wanted) {
        if remote.is_none() {
            remote = Some(SshFolder::new()?);
        }
        if let Some(remote) = &mut remote {
            measure(remote, &library, case, REMOTE_US, &mut rows)?;
        }
    }
    Ok(rows)
}

/// Adds the rows of a case at a time of an answer.
fn measure(
    place: &mut dyn SlowFolder,
    library: &Path,
    case: &AheadCase,
    answer_us: u64,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let measured = turns(place, library, case, answer_us)?;
    let base = median_of(&measured[0]);
    for (subject, its) in [PLAIN, KUMIKI].into_iter().zip(&measured) {
        let row = Row::of((case.name, subject), "s", its, Some(base));
        rows.push(row.of_size(answer_us as usize));
    }
    let [plain, ahead] = [base, median_of(&measured[1])];
    eprintln!("{} at {answer_us} µs: {plain:.2} s, ahead {ahead:.2} s", case.name);
    Ok(())
}

/// Fills the disk: a tree that is a git repository, a large folder, a package for Python, a file in C with its headers, and a
/// program for Node.js.
fn prepare(disk: &Disk) -> Result<()> {
    let tree = disk.path().join("tree");
    fs::create_dir(&tree)?;
    fill(&tree, FILES)?;
    let git = |words: &[&str]| {
        // Nothing of it goes on behind.
        let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"];
        ran(Command::new("git").args(who).args(words).current_dir(&tree))
    };
    for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "all"], &["gc", "-q"]] {
        git(words)?;
    }
    many(&disk.path().join("flat"), 3000, |at| (format!("file{at:04}"), "x".repeat(3000)))?;
    let package = disk.path().join("python/whole");
    fs::create_dir_all(&package)?;
    let mut all = String::new();
    for module in 0..1000 {
        fs::write(package.join(format!("part{module}.py")), format!("value = {module}\n"))?;
        all += &format!("import whole.part{module}\n");
    }
    fs::write(package.join("__init__.py"), all)?;
    let line = "import sys; sys.path[:0] = ['python']; import whole";
    ran(Command::new(PYTHON).args(["-I", "-c", line]).current_dir(disk.path()))?;
    let line = |header| format!("#include <header{header}.h>\n");
    many(&disk.path().join("c/include"), 300, |at| {
        (format!("header{at}.h"), format!("int value{at}(int of);\n"))
    })?;
    fs::write(disk.path().join("c/main.c"), (0..300).map(line).collect::<String>())?;
    let line = |module| format!("require('./modules/module{module}.js');\n");
    many(&disk.path().join("node/modules"), 2000, |at| {
        (format!("module{at}.js"), format!("exports.value = {at};\n"))
    })?;
    Ok(fs::write(disk.path().join("node/main.js"), (0..2000).map(line).collect::<String>())?)
}

/// Fills a folder with as many files.
fn many(folder: &Path, count: usize, file: impl Fn(usize) -> (String, String)) -> Result<()> {
    fs::create_dir_all(folder)?;
    for at in 0..count {
        let (name, text) = file(at);
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Seconds of each turn, without the library and with it.
fn turns(
    place: &mut dyn SlowFolder,
    library: &Path,
    case: &AheadCase,
    answer_us: u64,
) -> Result<[Vec<Vec<f64>>; 2]> {
    let mut measured = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        // Each is first in every second round.
        for at in [round % 2, 1 - round % 2] {
            let is_ahead = at == 1;
            if answer_us == WARM_US {
                once(place, None, case.line)?;
            } else {
                place.anew(Duration::from_micros(answer_us))?;
            }
            if let Some(before) = case.before {
                once(place, None, before)?;
            }
            let took = once(place, is_ahead.then_some(library), case.line)?;
            measured[at].push(vec![took.as_secs_f64()]);
        }
    }
    Ok(measured)
}

/// Runs a line once.
fn once(place: &dyn SlowFolder, library: Option<&Path>, line: &str) -> Result<Duration> {
    // In memory: what is measured is the disk that is read.
    let out = tempfile::tempdir_in("/dev/shm")?;
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(place.path()).env("OUT", out.path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let began = Instant::now();
    let status = command.status().with_context(|| line.to_owned())?;
    let took = began.elapsed();
    ensure!(status.success(), "{line}: {status}");
    Ok(took)
}
