//! What a program and the library ask, as strace counts it: the program makes all its calls as without the library, nothing is
//! asked ahead twice, and after its end nothing is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::scene::{Counts, ahead, has, library, run};
use crate::slow::{Slow, Tree};

const ANSWER: Duration = Duration::from_millis(2);
const TRACED: &str = "trace=openat,openat2,newfstatat,statx,fadvise64";

/// Calls by the threads that made them, the program's own first.
struct Calls {
    own: Vec<String>,
    others: Vec<String>,
}

/// Runs a command in a folder under strace; none where that may not trace.
fn traced(words: &[&str], folder: &Path, is_ahead: bool) -> Option<Calls> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", TRACED, "-e", "signal=none", "-s", "200", "-o"]);
    strace.arg(file.path()).current_dir(folder);
    if is_ahead {
        // What is traced stops often, and so seems to sleep: all is taken for cold.
        strace.arg("-E").arg(format!("LD_PRELOAD={}", library().display()));
        strace.args(["-E", "KUMIKI_AHEAD=cold=1"]);
    }
    let (_, output) = run(strace.args(words));
    let said = fs::read_to_string(file.path()).unwrap();
    if said.is_empty() {
        println!("passed over: strace may not trace here");
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<_> = said.lines().filter_map(|line| line.split_once(' ')).collect();
    let (program, _) = *lines.first()?;
    // A call during which another thread came stands in two lines: what was asked is in the first one.
    let calls = |is_own: bool| {
        let of = lines.iter().filter(|(thread, _)| (*thread == program) == is_own);
        let begun = of.filter(|(_, call)| !call.trim_start().starts_with("<..."));
        begun.map(|(_, call)| call.trim().to_owned()).collect()
    };
    Some(Calls { own: calls(true), others: calls(false) })
}

/// The name that a call is about, if it is one of the tree's.
fn name(call: &str) -> Option<&str> {
    let (_, rest) = call.split_once('"')?;
    let (name, _) = rest.split_once('"')?;
    let last = name.rsplit('/').next()?;
    let is_of_tree = !name.starts_with("/proc") && !name.starts_with("/sys");
    let is_named = last.starts_with("file") || last.starts_with("folder");
    (is_of_tree && is_named).then_some(name)
}

/// The program's calls on names of the tree up to their answers, without the library's own trials.
fn of_program(calls: &Calls) -> Vec<String> {
    let own = calls.own.iter().filter(|call| !call.contains("RESOLVE_CACHED"));
    let own = own.filter(|call| name(call).is_some());
    // Answers, and what a call is cut off at, are not of its words.
    let words = own.map(|call| call.split([')', '<', '{']).next().unwrap_or(call));
    words.map(|words| words.trim_end_matches([' ', ',']).to_owned()).collect()
}

/// Requests of others for each name: looked up by a path alone, and opened to be read.
fn of_others(calls: &Calls) -> BTreeMap<(String, bool), usize> {
    let mut counts = BTreeMap::new();
    for call in &calls.others {
        let is_file = name(call).is_some_and(|name| name.starts_with("file"));
        if is_file && call.starts_with("openat") && !call.contains("RESOLVE_CACHED") {
            let key = (name(call).unwrap_or_default().to_owned(), !call.contains("O_PATH"));
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

/// Runs a program on a tree in which each file's name is another one.
fn counted(words: &[&str], is_opened: bool) {
    if !has("strace") || !has(words[0]) {
        return;
    }
    let tree = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for folder in 0..20 {
        let above = tree.path().join(format!("folder{folder}"));
        fs::create_dir(&above).unwrap();
        (0..30).for_each(|at| fs::write(above.join(format!("file{folder}-{at}")), "text").unwrap());
    }
    let Some(expected) = traced(words, tree.path(), false) else { return };
    let Some(calls) = traced(words, tree.path(), true) else { return };
    let (expected, own) = (of_program(&expected), of_program(&calls));
    assert!(expected.len() >= 600, "{expected:?}");
    let other = own.iter().zip(&expected).find(|(own, expected)| own != expected);
    assert!(other.is_none() && own.len() == expected.len(), "the program's own calls: {other:?}");
    let others = of_others(&calls);
    let looked = others.keys().filter(|(_, is_read)| !is_read).count();
    let opened = others.len() - looked;
    println!(
        "{}: {} of its own, {looked} looked up by others, {opened} opened",
        words[0],
        own.len()
    );
    assert!(looked >= 100 && (opened >= 100) == is_opened, "{looked} looked up, {opened} opened");
    // Contents: a look at which kind of file it is, and the opening. What had its attributes asked before has one look more.
    let twice: Vec<_> = others
        .iter()
        .filter(|((_, is_read), count)| **count > if *is_read || !is_opened { 1 } else { 2 })
        .collect();
    assert!(twice.is_empty(), "asked twice: {twice:?}");
}

#[test]
fn tar_makes_its_own_calls_and_nothing_is_asked_twice() {
    counted(&["tar", "-cf", "-", "."], true);
}

#[test]
fn find_makes_its_own_calls_and_nothing_is_asked_twice() {
    counted(&["find", ".", "-size", "+1k"], false);
}

/// It ends while others have requests under way: who unmounts its folder right then is not told that it is in use.
#[test]
fn after_the_end_nothing_is_left() {
    if !has("tar") || !rustix::process::geteuid().is_root() {
        println!("passed over: unmounting takes root");
        return;
    }
    let Some(slow) = Slow::mount(Tree::wide(20, 30, 3000), ANSWER) else { return };
    let mut command = ahead("sh");
    let counts = Counts::of(&mut command);
    let line =
        "tar -cf - \"$1\" 2>/dev/null | head -c 200000 | wc -c; umount \"$1\" && echo unmounted";
    command.args(["-c", line, "sh"]).arg(slow.path()).current_dir("/");
    let (process, output) = run(&mut command);
    assert_eq!(output.stdout, b"200000\nunmounted\n", "{output:?}");
    assert!(counts.pools() > 0, "nothing was asked ahead");
    assert!(!Path::new(&format!("/proc/{process}")).exists());
}
