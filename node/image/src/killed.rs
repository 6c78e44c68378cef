//! What is left of `image add` that is killed: nothing, when its cleaner has run or the next one has
//! begun.
//!
//! A process of this program reads an image, lays it out and makes it a file system, as `image add`
//! does before it asks for memory, and is killed at points all along that way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kumiki_rootfs::Source;
use rustix::process::{Pid, Signal, kill_process};

use super::root::{RootOf, Unpacked};
use super::work::Work;

/// Variable that tells the process which is killed its image.
const IMAGE: &str = "KUMIKI_TEST_KILLED_IMAGE";
const NAME: &str = "killed::a_killed_image_add_leaves_nothing";
/// Points of its way at which one is killed.
const POINTS: u32 = 15;
/// A cleaner that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_killed_image_add_leaves_nothing() {
    if let Some(image) = std::env::var_os(IMAGE) {
        let of = RootOf { source: Source::Tar(image.into()), words: vec!["/f0".to_owned()] };
        return drop(Unpacked::read(&of).unwrap().made().unwrap());
    }
    if let Err(error) = kumiki_rootfs::mkfs() {
        return println!("skipped: {error}");
    }
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root gives files away, as an image's are");
    }
    let (made, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let image = archive(made.path());
    let begun = Instant::now();
    let output = begin(&image, place.path()).wait_with_output().unwrap();
    let whole = begun.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left(place.path()), [""; 0], "after a whole one");
    let (mut cut, mut uncleaned) = (0, 0);
    for point in 0..POINTS {
        let mut child = begin(&image, place.path());
        sleep(whole * point / POINTS);
        // Every third time with all that it has started, as a control group is killed.
        let others = if point % 3 == 0 { children(child.id()) } else { Vec::new() };
        for pid in others {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        child.kill().unwrap();
        cut += u32::from(child.wait().unwrap().signal().is_some());
        if point % 3 == 0 {
            // What comes next takes it away, and its own at its end.
            drop(Work::new_in(place.path()).unwrap());
        }
        let killed = Instant::now();
        while !left(place.path()).is_empty() && killed.elapsed() < PATIENCE {
            sleep(Duration::from_millis(20));
        }
        if !left(place.path()).is_empty() {
            // Killed before it had a cleaner.
            uncleaned += 1;
            drop(Work::new_in(place.path()).unwrap());
        }
        assert_eq!(left(place.path()), [""; 0], "killed at {point} of {POINTS}");
    }
    assert!(cut > POINTS / 2, "only {cut} were not over before");
    assert!(uncleaned <= 1, "{uncleaned} times nobody cleaned up");
}

/// Its children, which may have begun others: of those none outlives its input.
fn children(id: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|it| it.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn begin(image: &Path, place: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", NAME, "--nocapture"]).env(IMAGE, image).env("TMPDIR", place);
    child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn left(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Some hundred small files and a few long ones, by tar.
fn archive(folder: &Path) -> std::path::PathBuf {
    let files = folder.join("files");
    fs::create_dir(&files).unwrap();
    for number in 0..400 {
        fs::write(files.join(format!("f{number}")), [b'x'; 700]).unwrap();
    }
    fs::set_permissions(files.join("f0"), fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..4 {
        fs::write(files.join(format!("long{number}")), vec![number; 2 << 20]).unwrap();
    }
    let archive = folder.join("image.tar");
    let mut tar = Command::new("tar");
    let status = tar.arg("-cf").arg(&archive).arg("-C").arg(&files).arg(".").status().unwrap();
    assert!(status.success());
    archive
}
