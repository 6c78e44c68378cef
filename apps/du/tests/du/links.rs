//! What leads to a file beside its name: symbolic links, hard links, mounts.

use std::fs;
use std::process::Command;

use crate::scene::{OURS, Scene, gnu_du, said};

#[test]
fn symbolic_links_followed() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    scene.folder("a/b").folder("z").file("a/b/f", 9000).file("z/g", 20_000);
    scene.link("..", "a/b/up").link("../z", "a/z").link("../z/g", "a/g").link("b", "a/c");
    for options in ["-L", "-aL", "-aLl", "-aLc", "-aLS"] {
        scene.same(&[options]);
        scene.same(&[options, "a", "z"]);
        scene.same(&[options, "a/c", "a"]);
    }
    scene.same(&["-aLP"]);
    scene.same(&["-aPL"]);
    // GNU du says the same without the reason.
    scene.link("nowhere", "a/b/dangling").link("loop", "a/loop");
    scene.same(&["-aL"]);
}

/// More links than the kernel follows on one path, each in a directory that the one
/// before leads to.
#[test]
fn too_many_symbolic_links() {
    let scene = Scene::new();
    for number in 1..=50 {
        scene.folder(number.to_string()).link(format!("../{}", number + 1), format!("{number}/s"));
    }
    scene.file("51", 1);
    let output = scene.command(OURS).args(["-L", "1"]).output().unwrap();
    let expected = format!(
        "kumiki-du: cannot access '1{}': Too many levels of symbolic links\n",
        "/s".repeat(41)
    );
    assert_eq!((output.status.code(), said(&output)), (Some(1), expected));
    if gnu_du() {
        for options in ["-L", "-aL", "-aLl"] {
            scene.same(&[options, "1"]);
            scene.same(&[options, "1", "20", "2"]);
        }
    }
    // One that leads through others counts for all of them.
    scene.link("30/s/s/s/s/s/s/s/s/s", "far").folder("near").link("../far", "near/s");
    if gnu_du() {
        scene.same(&["-aL", "near", "far"]);
        scene.same(&["-aL", "far"]);
    }
}

/// Mounts a directory within itself, and takes that down in the end.
struct Mount(std::path::PathBuf);

impl Mount {
    fn bind(from: std::path::PathBuf, to: std::path::PathBuf) -> Option<Self> {
        let done = Command::new("mount").arg("--bind").args([&from, &to]).output();
        let done = done.is_ok_and(|output| output.status.success());
        if !done {
            eprintln!("skipped: nothing can be mounted here");
        }
        done.then_some(Mount(to))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_directory_mounted_within_itself_counts_once() {
    let scene = Scene::new();
    scene.folder("a/b/c").file("a/b/f", 5000).folder("a/d").hard_link("a/b/f", "a/d/g");
    let Some(_mount) = Mount::bind(scene.path("a"), scene.path("a/b/c")) else { return };
    let output = scene.command(OURS).args(["-a", "a"]).output().unwrap();
    assert_eq!((output.status.code(), said(&output)), (Some(0), String::new()));
    if gnu_du() {
        for options in ["-a", "-al", "-ac", "-aS", "-ax", "-aL", "-aLl"] {
            scene.same(&[options, "a"]);
            scene.same(&[options, "a/b", "a"]);
        }
    }
}

#[test]
fn patterns_leave_out_what_a_cycle_leads_to() {
    if !gnu_du() {
        return;
    }
    let scene = Scene::new();
    scene.folder("a/b/c").file("a/b/f", 5000);
    let Some(_mount) = Mount::bind(scene.path("a/b"), scene.path("a/b/c")) else { return };
    scene.same(&["-a", "--exclude=c", "a"]);
    scene.same(&["-a", "--exclude=b/c", "a"]);
}

#[test]
fn a_directory_moved_while_it_is_walked() {
    let scene = Scene::new();
    for number in 0..40 {
        scene.folder(format!("t/{number}/deep/er/est")).file(format!("t/{number}/deep/f"), 10);
    }
    scene.folder("elsewhere").file("elsewhere/g", 1);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let (low, high) = (scene.path("t/7/deep"), scene.path("t/moved"));
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = fs::rename(&low, &high);
                let _ = fs::rename(&high, &low);
            }
        });
        for round in 0..30 {
            let who = if round % 2 == 0 { "--plain" } else { "--parallel" };
            // What comes after it is counted all the same.
            let output = scene.command(OURS).args([who, "t", "elsewhere"]).output().unwrap();
            assert!(output.stdout.ends_with(b"\telsewhere\n"), "{}", said(&output));
            assert!(!said(&output).contains("panicked"), "{}", said(&output));
            assert_eq!(output.status.code(), Some(i32::from(!output.stderr.is_empty())));
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
