//! Tools on trees at random: their output, exit status and messages are those without the library, as root and as
//! another user, under a filter of system calls as Docker's, under strace, with 32 descriptors. All folders are taken for cold,
//! so that all of it is asked ahead on any file system.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

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
            4 => {
                // Sparse ones, and a few that are large.
                let most = if random.u8(..20) == 0 { 100_000_000 } else { 2_000_000 };
                File::create(&at).unwrap().set_len(random.u64(0..most)).unwrap();
            }
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

/// Surroundings in which a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Plain,
    /// System calls are refused as Docker's default profile does.
    Filter,
    Strace,
}

const PLACES: [Place; 3] = [Place::Plain, Place::Filter, Place::Strace];

/// Has this thread, and what it starts, be refused what containers are, as far as a walk may meet it.
fn confine() {
    let refuse = |calls: &[i64], errno: i32| {
        let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let refused = SeccompAction::Errno(errno as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).unwrap();
        apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    };
    let refused = [
        libc::SYS_fanotify_init,
        libc::SYS_io_uring_setup,
        libc::SYS_mount,
        libc::SYS_name_to_handle_at,
        libc::SYS_open_by_handle_at,
        libc::SYS_perf_event_open,
        libc::SYS_quotactl,
        libc::SYS_setns,
        libc::SYS_umount2,
        libc::SYS_unshare,
    ];
    refuse(&refused, libc::EPERM);
    // So that the C library takes clone(2), whose flags a filter can see.
    refuse(&[libc::SYS_clone3], libc::ENOSYS);
}

/// Runs a line in a folder as this user or another one, with the library or without.
fn tried(line: &str, ground: &Path, (place, is_other): (Place, bool), is_ahead: bool) -> Output {
    let out = tempfile::tempdir_in(ground).unwrap();
    fs::set_permissions(out.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut words: Vec<&str> = Vec::new();
    if is_other {
        words.extend(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    let preload = format!("LD_PRELOAD={}", library().display());
    let cold = format!("{}={}", ALL_COLD.0, ALL_COLD.1);
    if place == Place::Strace {
        words.extend(["strace", "-f", "-qq", "-o", "/dev/null"]);
        if is_ahead {
            // In front of what it traces, not of itself.
            words.extend(["-E", &preload, "-E", &cold]);
        }
    } else if is_ahead {
        words.extend(["env", &preload, &cold]);
    }
    let line = format!("ulimit -n 32; {line}");
    words.extend(["sh", "-c", &line]);
    let mut command = Command::new(words.remove(0));
    command.args(words).current_dir(ground).env("LC_ALL", "C").env("HOME", ground);
    // One name for both, so that messages are the same.
    let link = ground.join("out");
    let _ = fs::remove_file(&link);
    symlink(out.path(), &link).unwrap();
    command.env("OUT", &link);
    let output = std::thread::scope(|threads| {
        let running = threads.spawn(|| {
            if place == Place::Filter {
                confine();
            }
            run(&mut command).1
        });
        running.join().unwrap()
    });
    open_up(out.path());
    output
}

/// True where strace may trace.
fn may_trace() -> bool {
    let words = ["-o", "/dev/null", "true"];
    let is_so = has("strace")
        && Command::new("strace").args(words).output().is_ok_and(|output| output.status.success());
    if !is_so {
        println!("passed over: strace may not trace here");
    }
    is_so
}

/// Runs all tools on a tree for each seed, in these places in turn.
fn same(seeds: impl Iterator<Item = u64>, places: &[Place]) {
    let places: Vec<Place> =
        places.iter().copied().filter(|place| *place != Place::Strace || may_trace()).collect();
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
            let place = places[seed as usize % places.len()];
            for is_other in [false, true] {
                if is_other && !(is_root && has("setpriv")) {
                    continue;
                }
                let how = (place, is_other);
                let expected = tried(line, ground.path(), how, false);
                let output = tried(line, ground.path(), how, true);
                assert_eq!(
                    output, expected,
                    "seed {seed}, {tool}: {line} ({place:?}, other user: {is_other})"
                );
            }
        }
        open_up(ground.path());
        println!("tree {seed}: the same");
    }
}

#[test]
fn tools_do_the_same_on_trees_at_random() {
    PLACES.iter().for_each(|place| same(0..TREES, &[*place]));
}

#[test]
#[ignore = "long: 200 trees by 10 tools, four times each"]
fn the_same_for_many_trees() {
    same(1000..1000 + MANY, &PLACES);
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
