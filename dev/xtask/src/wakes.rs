//! A source file in which somebody is put to sleep or woken stands in `docs/design/wakes.md`.
//!
//! Found by the words by which such a thing is written: those of a flag, a list or a waker, and those
//! of pipes, sockets and channels, which wake by themselves and whose other end may be gone.
//! Comments, tests and models do not count, nor do the crates that measure how long a wake takes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::run::root;

/// The page that says who sleeps where, and what holds it.
const PAGE: &str = "docs/design/wakes.md";
/// Folders of sources.
const FOLDERS: [&str; 5] = ["apps", "lib", "measure", "node", "lib/python/kumiki"];
/// Crates that measure or name what sleeps, and hand over nothing of their own.
const MEASURE: [&str; 7] = [
    "measure/ab",
    "lib/calls",
    "measure/cases",
    "measure/doctor",
    "measure/experiments",
    "measure/measure",
    "measure/report",
];
/// Folders and files of tests, models and what is built.
const TESTS: [&str; 6] = ["tests", "examples", "target", "build", "tests.rs", "loom.rs"];
/// Words by which a sleep or a wake is written.
const WORDS: [&str; 34] = [
    "eventfd(",
    "EventFd::new",
    "futex::wait(",
    "futex::wake(",
    "FUTEX_WAIT",
    ": Condvar",
    "condition_variable",
    "pthread_cond",
    "thread::park",
    "wait_queue_head_t",
    "AtomicWaker",
    "RawWaker",
    "Waker>",
    ": Waker,",
    "impl Wake for",
    "PollBell",
    "EventCount",
    ": Notify",
    "call_soon_threadsafe",
    "threading.Event",
    "threading.Condition",
    "pipe_with(",
    "pipe2(",
    "io::pipe(",
    "descriptors::pipe(",
    "os.pipe(",
    "socketpair(",
    "UnixStream::pair(",
    "::channel(",
    "= channel(",
    "= (channel(",
    "channel::<",
    "sync_channel(",
    "unbounded_channel(",
];

/// Checks all sources.
pub(crate) fn check() -> Result<()> {
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("reading {PAGE}"))?;
    let mut faults = Vec::new();
    for folder in FOLDERS {
        each_source(&root(), Path::new(folder), &mut |file, text| {
            if let Some((number, line)) = sleeps(text)
                && !page.contains(&format!("`{file}`"))
            {
                faults.push(format!(
                    "{file}:{number}: {line}\n    whoever sleeps or is woken here is not in {PAGE}: use \
                     one of its types, and give it a row"
                ));
            }
        })?;
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// The first line outside of comments and tests that has one of the words.
fn sleeps(text: &str) -> Option<(usize, &str)> {
    let of_program = text.lines().take_while(|line| !line.starts_with("mod tests {"));
    let lines = of_program.map(str::trim_start).enumerate();
    let mut code = lines.filter(|(_, line)| {
        let comment = ["//", "/*", "* ", "#", "\"\"\""].iter().any(|mark| line.starts_with(mark));
        !comment && !["use ", "pub use ", "mod "].iter().any(|mark| line.starts_with(mark))
    });
    let found = code.find(|(_, line)| WORDS.iter().any(|word| line.contains(word)));
    found.map(|(at, line)| (at + 1, line))
}

/// Gives every source below a folder, by its path from the root on.
fn each_source(root: &Path, folder: &Path, see: &mut impl FnMut(&str, &str)) -> Result<()> {
    let entries = fs::read_dir(root.join(folder));
    let entries = entries.with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let name = entry.file_name().to_string_lossy().into_owned();
        let measures = MEASURE.iter().any(|crate_| Path::new(crate_) == path);
        if !measures && !TESTS.contains(&&*name) {
            paths.push((path, entry.file_type()?.is_dir()));
        }
    }
    paths.sort();
    for (path, is_folder) in paths {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if is_folder {
            each_source(root, &path, see)?;
        } else if ["rs", "c", "cc", "h", "py"].contains(&ending) {
            let text = fs::read_to_string(root.join(&path));
            see(&path.to_string_lossy(), &text.with_context(|| path.display().to_string())?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_sleeps_is_found_and_what_is_said_or_tested_is_not() {
        let code = "use std::sync::Condvar;\n// eventfd(2)\nlet made = eventfd(0, flags);\n";
        assert_eq!(sleeps(code), Some((3, "let made = eventfd(0, flags);")));
        assert_eq!(
            sleeps("/// A PollBell\nfn f() {}\n#[cfg(test)]\nmod tests {\nEventFd::new(0)\n"),
            None
        );
        assert_eq!(sleeps("    changed: Condvar,\n"), Some((1, "changed: Condvar,")));
    }

    #[test]
    fn wakers_pipes_and_channels_are_found_and_what_is_only_called_so_is_not() {
        for line in [
            "wakers: Mutex<HashMap<u64, Waker>>,",
            "let (tell, told) = channel();",
            "let (tell, told) = channel::<()>();",
            "let (tell, told) = mpsc::channel();",
            "let (ready, bound) = sync_channel(0);",
            "let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None)?;",
            "let (reader, writer) = io::pipe()?;",
            "theirs, ours = os.pipe()",
        ] {
            assert_eq!(sleeps(line), Some((1, line)));
        }
        for line in ["window.channel(number).free();", "fn channel(&self) -> Channel<'_> {"] {
            assert_eq!(sleeps(line), None);
        }
    }

    #[test]
    fn each_file_that_the_page_names_is_there() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let names = page.split('`').skip(1).step_by(2);
        let files: Vec<_> = names.filter(|name| name.contains('/')).collect();
        assert!(files.len() > 30);
        for file in files {
            assert!(root().join(file).exists(), "{file}");
        }
    }
}
