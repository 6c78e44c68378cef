//! Parallel system calls inside the kernel, in machines of the lab with the module loaded.
//! What its header says is tried by C programs, which also show that it can be used from C.

mod cancelled;
mod processing_thread;
mod suite;

use std::path::{Path, PathBuf};
use std::process::Command;

use kumiki_measure::schema::{Results, Row};
use kumiki_parasc::Backend;

use super::Labs;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/parasc");
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../node/kernel");

/// The program of this C source, and of those whose names begin with its.
fn compiled(folder: &Path, name: &str) -> String {
    let program = folder.join(name);
    let part = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let is_part = stem.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
        is_part && path.extension().is_some_and(|end| end == "c")
    };
    let parts = std::fs::read_dir(HERE).unwrap().map(|entry| entry.unwrap().path()).filter(part);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    cc.arg(format!("-I{SOURCES}/uapi")).arg(format!("{HERE}/{name}.c")).args(parts);
    cc.arg("-o").arg(&program);
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program.to_str().unwrap().to_owned()
}

/// Names a kernel for all of these, which is slow as it looks for its own faults: by
/// `cargo xtask lab --debug-kernel`.
const KERNEL: &str = "KUMIKI_LAB_KERNEL";

/// The kernels that the module is tried on.
fn kernels() -> Vec<String> {
    std::env::var(KERNEL).map_or_else(|_| vec!["6.1".into(), "6.12".into()], |name| vec![name])
}

/// Before and after a line in a machine, whose kernel may look for memory that nobody has any
/// more; an object counts once it is some seconds old.
const LEAKS: &str = r#"
leaks=/sys/kernel/debug/kmemleak
mount -t debugfs none /sys/kernel/debug 2> /dev/null
[ ! -e $leaks ] || echo clear > $leaks
{ LINE; } || exit 1
[ -e $leaks ] || exit 0
sleep 6; echo scan > $leaks; sleep 1; echo scan > $leaks
found=$(cat $leaks); echo "${found:-no memory is left}"
[ -z "$found" ]"#;

/// Runs a line of a shell in a machine that has this file; what it prints.
fn runs(labs: &Labs, kernel: &str, cpus: &str, file: &str, line: &str) -> String {
    runs_with(labs, kernel, cpus, &[file], line)
}

/// The same with several files.
fn runs_with(labs: &Labs, kernel: &str, cpus: &str, files: &[&str], line: &str) -> String {
    let run = ["lab", "run", "--module", "parasc", "--kernel", kernel, "--cpus", cpus];
    let limits = match std::env::var_os(KERNEL) {
        None => ["--memory", "512M", "--timeout", "600"],
        Some(_) => ["--memory", "1G", "--timeout", "1500"],
    };
    // A fault in the kernel's log is a failure, too.
    let line = LEAKS.replace("LINE", line);
    let files: Vec<&str> = files.iter().flat_map(|file| ["--in", file]).collect();
    labs.gives(0, &[&run[..], &limits, &files, &["--", "sh", "-c", &line]].concat()).0
}

#[test]
fn the_module_does_as_its_header_says() {
    let Some(labs) = Labs::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "raw");
    for kernel in kernels() {
        let said = runs(&labs, &kernel, "2", &program, "./raw && rmmod parasc");
        assert!(said.contains("a batch by one entry: as it should"), "{said}");
        assert!(!said.contains("not so"), "{said}");
    }
}

/// Also those that end it from without: each is in time, or the next one never comes.
#[test]
fn what_ends_a_process_ends_threads_inside() {
    let Some(labs) = Labs::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "ends");
    for kernel in kernels() {
        let said = runs(&labs, &kernel, "2", &program, "./ends && rmmod parasc");
        assert!(said.contains("all ended or stopped: as it should"), "{said}");
    }
}

/// Each within 100 ms: by the clock of a machine that counts instructions, one a nanosecond, so that it is
/// the same however busy this one is.
#[test]
fn what_ends_a_process_takes_100_ms_at_most() {
    let Some(labs) = Labs::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "ends");
    // A kernel that looks for its own faults is slow by design.
    for kernel in
        kernels().iter().filter(|kernel| !kernel.contains("-debug") && !kernel.contains("-kcsan"))
    {
        let clock = ["--qemu=-icount", "--qemu=shift=0,sleep=off"];
        let shape = ["--kernel", kernel, "--cpus", "1", "--timeout", "600", "--in", &program];
        let words =
            [&["lab", "run", "--module", "parasc"], &clock[..], &shape, &["--", "./ends", "100"]];
        let said = labs.gives(0, &words.concat()).0;
        assert!(said.contains("all ended or stopped: as it should"), "{said}");
    }
}

/// The module can be unloaded after it, so nothing is left inside. At first each scene has no
/// time of its own: it ends when it has shown what it is judged by, not by how fast it is here.
#[test]
fn storms_leave_nothing_behind() {
    let Some(labs) = Labs::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "storm");
    for kernel in kernels() {
        let said = runs(&labs, &kernel, "4", &program, "./storm 0 && ./storm 3 && rmmod parasc");
        let scenes = said.lines().filter(|line| line.contains("as it should")).count();
        assert_eq!(scenes, 10, "{kernel}: {said}");
    }
}

/// Which of two ways is shorter is counted by hand, as the programs say.
#[test]
fn sleeps_and_turns_of_a_server_are_as_they_should_both_ways() {
    let Some(labs) = Labs::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let programs = ["sleeps", "turn"].map(|name| compiled(folder.path(), name));
    let line = "./sleeps 100 2 && ./turn 5 && rmmod parasc";
    let said = runs_with(&labs, &kernels()[0], "2", &programs.each_ref().map(String::as_str), line);
    assert!(said.contains("both ways: as it should"), "{said}");
    assert!(said.contains("turns: as it should"), "{said}");
}

/// A night of them is `cargo xtask stress parasc-kernel`.
#[test]
fn programs_drawn_by_numbers_end() {
    let Some(labs) = Labs::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "drawn");
    for kernel in kernels() {
        let said = runs(&labs, &kernel, "4", &program, "./drawn 61 4 && rmmod parasc");
        let good = said.starts_with("programs 61 to ") && said.contains(": as it should");
        assert!(good, "{kernel}: {said:?}");
    }
}

#[test]
fn programs_see_the_same_of_both_backends() {
    suite::behaves(Backend::User);
    let Some(labs) = Labs::new() else { return };
    let own = std::env::current_exe().unwrap();
    let copied = format!("{}:suite", own.display());
    let line = "./suite --ignored --exact parasc::suite::in_a_machine --nocapture";
    for kernel in kernels() {
        let said = runs(&labs, &kernel, "2", &copied, line);
        assert!(said.contains("1 passed"), "{kernel}: {said}");
    }
}

/// Where plain calls are faster, too: a figure of the module that the module did not make would be that
/// of a plain call.
#[test]
fn calls_of_a_case_are_made_by_the_module() {
    let Some(labs) = Labs::new() else { return };
    let cases = [
        "parasc.kernel call=read requests=1 way=one_entry",
        "parasc.kernel call=read requests=1 way=kernel",
        "parasc.inside call=getppid requests=1 way=one_entry",
        "parasc.inside call=getppid requests=1 way=kernel",
    ];
    let kumiki = env!("CARGO_BIN_EXE_kumiki");
    let steps = cases.iter().enumerate().map(|(at, case)| {
        format!(
            "./kumiki measure --db r.db --time 1 --json {case} > {at}.json && echo && \
             echo made $(cat /sys/module/parasc/parameters/calls_made) && cat {at}.json"
        )
    });
    let line = steps.collect::<Vec<_>>().join(" && ");
    let said = runs(&labs, &kernels()[0], "2", kumiki, &line);
    let parts: Vec<&str> = said.split("made ").skip(1).collect();
    assert_eq!(parts.len(), cases.len(), "{said}");
    let mut before = 0;
    for (case, part) in cases.into_iter().zip(parts) {
        let (made, result) = part.split_once('\n').unwrap();
        let (made, result) = (made.trim().parse::<u64>().unwrap(), parsed(result));
        let asked: u64 = result.iter().map(Row::operations).sum();
        assert!(asked > 0 && made - before >= asked, "{case}: {before} {made} {asked}");
        before = made;
    }
}

/// The rows of a result that is at the beginning of this text.
fn parsed(text: &str) -> Vec<Row> {
    let mut results = serde_json::Deserializer::from_str(text).into_iter::<Results>();
    results.next().expect("a result").unwrap().rows
}

/// Audit is on where auditd runs, and nothing else tells its user that the module makes no call then.
#[test]
fn the_doctor_says_who_keeps_calls_from_the_module() {
    let Some(labs) = Labs::new() else { return };
    let kumiki = env!("CARGO_BIN_EXE_kumiki");
    let audit = "audit, which auditd has on for all processes";
    for (word, is_there) in [("audit=0", true), ("audit=1", false)] {
        let shape = ["--kernel", &kernels()[0], "--append", word, "--timeout", "600"];
        let run = ["lab", "run", "--module", "parasc", "--in", kumiki];
        let line = ["--", "sh", "-c", "./kumiki doctor --json || [ $? = 1 ]"];
        let said = labs.gives(0, &[&run[..], &shape, &line].concat()).0;
        assert_eq!(said.contains("module kumiki-parasc is loaded"), is_there, "{word}: {said}");
        assert_eq!(said.contains(audit), !is_there, "{word}: {said}");
    }
}

/// What is more than a person can read at once is not understood.
#[test]
fn the_module_is_short() {
    let files = std::fs::read_dir(format!("{SOURCES}/parasc")).unwrap().flatten();
    let is_code = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "c" || end == "h")
            && !path.ends_with("calls.h")
            && !path.to_string_lossy().ends_with(".mod.c")
    };
    let texts = files.map(|file| file.path()).filter(is_code);
    let lines: usize = texts.map(|path| code(&std::fs::read_to_string(path).unwrap())).sum();
    assert!((300..=1200).contains(&lines), "{lines} lines");
}

/// Lines that are not empty, nor comment alone.
fn code(text: &str) -> usize {
    let (mut lines, mut in_comment) = (0, false);
    for line in text.lines().map(str::trim) {
        let begins = line.starts_with("/*");
        let is_comment = in_comment || begins || line.starts_with("//");
        lines += usize::from(!is_comment && !line.is_empty());
        in_comment = (in_comment || begins) && !line.contains("*/");
    }
    lines
}
