//! Tools on trees at random: their output, exit status and messages are those without the library, as root and as
//! another user. All folders are taken for cold, so that all of it is asked ahead on any file system.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use crate::scene::{ahead, has, library, run};

/// Trees in the normal tests; `the_same_for_many_trees` has more.
const TREES: u64 = 1;
const MANY: u64 = 200;
/// Has every folder taken for one that would sleep.
const ALL_COLD: (&str, &str) = ("KUMIKI_AHEAD", "cold=1");

/// Tools, as lines for a shell in the tree's folder; `$OUT` is a new folder beside it.
const TOOLS: [(&str, &str); 10] = [
    ("tar", "tar -cf - tree | sha256sum; tar -cf \"$OUT/a.tar\" tree"),
    ("rsync", "rsync -a tree/ \"$OUT/to\"; cd \"$OUT\" && find to -printf '%P %s %m %l\\n' | sort"),
    ("du", "du -a tree"),
    ("find", "find tree -printf '%p %s %m %y %l\\n'"),
    ("find", "find tree -name '*a*'"),
    ("git", "cd tree && git -c safe.directory='*' status --porcelain --ignored"),
    ("cp", "cp -a tree \"$OUT/to\"; cd \"$OUT\" && find to -printf '%P %s %m %l\\n' | sort"),
    (
        "rm",
        "cp -a tree \"$OUT/to\" 2>/dev/null; rm -r \"$OUT/to\" </dev/null; find \"$OUT\" | sort",
    ),
    ("grep", "grep -rc a tree"),
    ("ls", "ls -laR --time-style=+ tree"),
];

/// A folder that everybody may read, on the disk of the build.
fn ground() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

fn name(random: &mut Rng) -> PathBuf {
    let letters = b"abc \n\t\xff\xc3\xa4'\"\\*-";
    let length = if random.u8(..20) == 0 { 200 } else { random.usize(1..12) };
    let name: Vec<u8> = (0..length).map(|_| *random.choice(letters).unwrap()).collect();
    std::ffi::OsStr::from_bytes(&name).into()
}

/// Fills a folder with a drawn tree.
fn fill(folder: &Path, random: &mut Rng, depth: u32) {
    for _ in 0..random.usize(0..14) {
        let at = folder.join(name(random));
        if fs::symlink_metadata(&at).is_ok() {
            continue;
        }
        match random.u8(..12) {
            0..3 if depth < 5 => {
                fs::create_dir(&at).unwrap();
                fill(&at, random, depth + 1);
                if random.u8(..12) == 0 {
                    fs::set_permissions(&at, fs::Permissions::from_mode(0o000)).unwrap();
                }
            }
            3 => {
                let to = *random.choice(&[".", "..", "nowhere", "/etc", "a", "b/c"]).unwrap();
                symlink(to, &at).unwrap();
            }
            4 => File::create(&at).unwrap().set_len(random.u64(0..2_000_000)).unwrap(),
            5 => {
                fs::write(&at, "unreadable").unwrap();
                fs::set_permissions(&at, fs::Permissions::from_mode(0o200)).unwrap();
            }
            6 => rustix::fs::mkfifoat(rustix::fs::CWD, &at, rustix::fs::Mode::RWXU).unwrap(),
            7 => drop(File::create(&at).unwrap()),
            _ => {
                let bytes: Vec<u8> = (0..random.usize(0..30_000)).map(|_| random.u8(..)).collect();
                fs::write(&at, bytes).unwrap();
            }
        }
    }
}

/// Lets what nobody may enter be removed.
fn open_up(folder: &Path) {
    let _ = Command::new("chmod").args(["-R", "u+rwx"]).arg(folder).output();
}

/// Runs a line in a folder as this user or another one, with the library or without.
fn tried(line: &str, ground: &Path, is_other: bool, is_ahead: bool) -> std::process::Output {
    let out = tempfile::tempdir_in(ground).unwrap();
    fs::set_permissions(out.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(if is_other { "setpriv" } else { "sh" });
    if is_other {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh"]);
    }
    command.args(["-c", line]).current_dir(ground).env("LC_ALL", "C").env("HOME", ground);
    // One name for both, so that messages are the same.
    let link = ground.join("out");
    let _ = fs::remove_file(&link);
    symlink(out.path(), &link).unwrap();
    command.env("OUT", &link);
    if is_ahead {
        command.env("LD_PRELOAD", library()).env(ALL_COLD.0, ALL_COLD.1);
    }
    let (_, output) = run(&mut command);
    open_up(out.path());
    output
}

fn same(seeds: impl Iterator<Item = u64>) {
    let is_root = rustix::process::geteuid().is_root();
    let tools: Vec<_> = TOOLS.iter().filter(|(tool, _)| has(tool)).collect();
    for seed in seeds {
        let ground = ground();
        let tree = ground.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let mut random = Rng::with_seed(seed);
        fill(&tree, &mut random, 0);
        if has("git") {
            let words = ["init", "-q", "tree"];
            let made = Command::new("git").args(words).current_dir(ground.path()).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        for (tool, line) in &tools {
            for is_other in [false, true] {
                if is_other && !(is_root && has("setpriv")) {
                    continue;
                }
                let expected = tried(line, ground.path(), is_other, false);
                let output = tried(line, ground.path(), is_other, true);
                assert_eq!(
                    output, expected,
                    "seed {seed}, {tool}: {line} (other user: {is_other})"
                );
            }
        }
        open_up(ground.path());
    }
}

#[test]
fn tools_do_the_same_on_trees_at_random() {
    same(0..TREES);
}

#[test]
#[ignore = "long: 200 trees by 10 tools, four times each"]
fn the_same_for_many_trees() {
    same(1000..1000 + MANY);
}

#[test]
fn under_strace_the_same_is_printed() {
    if !has("strace") || !has("tar") {
        return;
    }
    let ground = ground();
    fs::create_dir(ground.path().join("tree")).unwrap();
    fill(&ground.path().join("tree"), &mut Rng::with_seed(77), 0);
    let words = ["-f", "-o", "/dev/null", "tar", "-cf", "-", "tree"];
    let (_, expected) = run(Command::new("strace").args(words).current_dir(ground.path()));
    if !expected.status.success() && expected.stdout.is_empty() {
        println!("passed over: strace may not trace here");
        return;
    }
    let mut command = Command::new("strace");
    let preload = format!("LD_PRELOAD={}", library().display());
    command.args(["-E", &preload, "-E", "KUMIKI_AHEAD=cold=1"]).args(words);
    let (_, output) = run(command.current_dir(ground.path()));
    assert_eq!(output, expected);
    open_up(ground.path());
}

#[test]
fn while_folders_vanish_and_come_programs_end_as_they_should() {
    let ground = ground();
    let tree = ground.path().join("tree");
    fs::create_dir(&tree).unwrap();
    for folder in 0..30 {
        fs::create_dir(tree.join(folder.to_string())).unwrap();
        (0..10).for_each(|file| fs::write(tree.join(format!("{folder}/{file}")), "x").unwrap());
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut random = Rng::with_seed(5);
            while !is_over.load(Ordering::Relaxed) {
                let folder = tree.join(random.u8(..30).to_string());
                let file = folder.join(random.u8(..10).to_string());
                // What there is becomes another thing, or nothing; all of it may fail.
                let _ = match random.u8(..6) {
                    0 => fs::remove_dir_all(&folder),
                    1 => fs::create_dir(&folder),
                    2 => fs::remove_file(&file),
                    3 => fs::write(&file, "y"),
                    4 => fs::create_dir(&file),
                    _ => symlink("..", &file),
                };
            }
        });
        for _ in 0..30 {
            for line in [&["-cf", "-"][..], &[]] {
                let tool = if line.is_empty() { "find" } else { "tar" };
                let mut command = ahead(tool);
                command
                    .args(line)
                    .arg("tree")
                    .current_dir(ground.path())
                    .env(ALL_COLD.0, ALL_COLD.1);
                let (_, output) = run(&mut command);
                assert!(matches!(output.status.code(), Some(0..=2)), "{tool}: {output:?}");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
