//! Power cuts under a durable place, on the kernel's own file system and a disk that loses what was not flushed:
//! `dm-log-writes` in a machine of the lab. The journal's own tests cut at any operation of a disk that is made up
//! (`lib/journal/src/crashes.rs`).

use std::path::Path;
use std::process::Command;

use super::{Labs, text};

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/power");
/// Callers, each with a counter of its own.
const CALLERS: usize = 4;
/// KiB of a disk: two files of a log and what a start needs.
const DISK_KIB: u64 = 192 << 10;

fn compiled(folder: &Path, name: &str, options: &[&str]) -> String {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]).args(options);
    cc.arg(format!("{HERE}/{name}.c")).arg("-o").arg(&program);
    let output = cc.output().expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
    program.to_str().unwrap().to_owned()
}

/// An empty file system, packed.
fn image(folder: &Path) -> String {
    let image = folder.join("image");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(DISK_KIB << 10).unwrap();
    // Debian has it where users do not look.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let line = format!("mkfs.ext4 -q -F {0} && gzip {0}", image.display());
    let output = Command::new("sh").args(["-c", &line]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    format!("{}.gz", image.display())
}

/// What became of the counters at each of so many cuts under so many calls of each caller: lines of `inside.sh`.
fn cut(labs: &Labs, calls: usize, cuts: usize, preload: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path());
    let program = compiled(folder.path(), "cuts", &["-static"]);
    let nosync = compiled(folder.path(), "nosync", &["-shared", "-fPIC"]);
    let script = format!("{HERE}/inside.sh");
    let disks = format!("brd rd_nr=3 rd_size={DISK_KIB}");
    let (calls, cuts) = (format!("CALLS={calls}"), format!("CUTS={cuts}"));
    let preload = format!("PRELOAD={preload}");
    let run = ["lab", "run", "--memory", "1500M", "--timeout", "1800"];
    let modules = ["--module", "ext4", "--module", "dm_log_writes", "--module", &disks];
    let files = ["--in", &image, "--in", &program, "--in", &nosync, "--in", &script];
    let environment = ["--env", &calls, "--env", &cuts, "--env", &preload];
    let words = ["--", "sh", "inside.sh"];
    let (said, _) = labs.gives(0, &[&run[..], &modules, &files, &environment, &words].concat());
    let lines: Vec<String> = said.lines().map(str::to_owned).collect();
    assert_eq!(lines.last().map(String::as_str), Some("whole"), "{said}");
    lines.into_iter().filter(|line| line.starts_with("cut ")).collect()
}

/// Cuts after which a counter has not what was answered, or not what was asked.
fn wrong(lines: &[String]) -> Vec<&String> {
    let is_right = |line: &str| {
        let (_, rest) = line.split_once(" is ")?;
        let (is, answered) = rest.split_once(", answered ")?;
        // Before it was made it may be there, and its caller not have heard it yet.
        let answered: Option<u64> = answered.parse().ok();
        match (is.parse::<u64>().ok(), answered) {
            // One call more may be under way, and one of which its caller did not know, when the place was killed.
            (Some(is), Some(answered)) => Some((answered..=answered + 2).contains(&is)),
            (is, None) => Some(is.is_none_or(|is| is == 0)),
            (None, Some(_)) => Some(false),
        }
    };
    lines.iter().filter(|line| is_right(line) != Some(true)).collect()
}

#[test]
#[ignore = "ten minutes: `cargo xtask test long`, after a change to the journal or to durable places"]
fn what_a_durable_place_has_answered_is_there_after_a_power_cut() {
    let Some(labs) = Labs::new() else { return };
    const CUTS: usize = 20;
    let lines = cut(&labs, 25, CUTS, "");
    assert_eq!(lines.len(), CALLERS * CUTS, "{lines:#?}");
    assert!(wrong(&lines).is_empty(), "{:#?}", wrong(&lines));
    // And a place that has nothing flushed loses it: else this would see nothing.
    let lines = cut(&labs, 5, 5, "/root/nosync");
    assert!(!wrong(&lines).is_empty(), "{lines:#?}");
    labs.assert_nothing_is_left();
}
