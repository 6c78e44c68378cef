//! What is added up, and which lines a threshold lets through.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::scene::{Gnu, OURS, Scene, gnu_du, lines, said};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.folder("a/b/c").folder("a/d").folder("e");
    scene.file("a/one", 1).file("a/b/large", 300_000).file("a/b/c/mid", 5000).file("e/f", 70_000);
    scene.hard_link("a/b/large", "a/d/again").link("../e/f", "a/link").link("a", "top");
    fs::File::create(scene.path("e/hole")).unwrap().set_len(8 << 30).unwrap();
    scene
}

/// What the directories at and below `path` are long, `path` itself included.
fn directories_bytes(path: &Path) -> u64 {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let below = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let below = below.map(|entry| directories_bytes(&entry.path())).sum::<u64>();
    fs::metadata(path).unwrap().len() + below
}

#[test]
fn lengths_are_those_of_files_and_symbolic_links() {
    let Some(gnu) = Gnu::here() else { return };
    let scene = scene();
    if gnu.knows_lengths_of_files_only() {
        for options in ["-b", "-ab", "--apparent-size", "-abh", "-bcS", "-abl", "-bk", "--si -b"] {
            scene.same(&options.split(' ').collect::<Vec<_>>());
            scene.same(&[options.split(' ').collect::<Vec<_>>(), vec!["a", "top", "e"]].concat());
        }
        return;
    }
    // Older ones add what directories are long.
    let lengths = |program: &str| {
        let output = scene.command(program).args(["-ab", "."]).output().unwrap();
        let lines = lines(&output.stdout, b'\n').into_iter().map(|line| {
            let (bytes, name) = line.split_once("\\t").unwrap();
            (name.trim_end_matches("\\n").to_owned(), bytes.parse().unwrap())
        });
        lines.collect::<HashMap<String, u64>>()
    };
    let (ours, mut theirs) = (lengths(OURS), lengths("du"));
    for (name, bytes) in &mut theirs {
        let path = scene.path(name);
        if path.symlink_metadata().unwrap().is_dir() {
            *bytes -= directories_bytes(&path);
        }
    }
    assert_eq!(ours, theirs);
    assert_eq!(ours["./e"], 70_000 + (8 << 30));
}

#[test]
fn the_letter_for_lengths() {
    let scene = scene();
    let run = |option| scene.command(OURS).args([option, "-a"]).output().unwrap().stdout;
    assert_eq!(run("-A"), run("--apparent-size"));
    assert_ne!(run("-A"), run("-k"));
}

#[test]
fn numbers_of_files() {
    let Some(gnu) = Gnu::here() else { return };
    let scene = scene();
    let each = "--inodes; --inodes -a; --inodes -s; --inodes -c; --inodes -S; --inodes -l; --inodes -L; \
                --inodes -h; --inodes -BM; --inodes -BMB; --inodes -BMiB; --inodes -B2; --inodes --si; \
                --inodes -d1; --inodes -al; --inodes -0; --inodes -k -a; -h --inodes -t 2; \
                --inodes -Bk; --inodes --time --time-style=+x";
    for options in each.split("; ") {
        let options: Vec<_> = options.split_whitespace().collect();
        scene.same(&options);
        scene.same(&[&options[..], &["a", "e", "a/one"]].concat());
    }
    // Said, and no more than that: lengths make no difference.
    if gnu.knows_lengths_of_files_only() {
        scene.same(&["--inodes", "-b"]);
    }
    let output = scene.command(OURS).args(["--inodes", "-b", "-s", "e"]).output().unwrap();
    assert_eq!(output.stdout, b"3\te\n");
    assert!(said(&output).contains("are ineffective with --inodes"), "{}", said(&output));
}

#[test]
fn thresholds() {
    let Some(gnu) = Gnu::here() else { return };
    let scene = scene();
    for size in [
        "0", "1", "4K", "4096", "4097", "0x2000", "020000", "300K", "-300K", "-4096", "-4095",
        "-1", "1MB", "-1kB", "+1", " 7K", "8E", "-8E", "-9E", "1R", "-0", "-0K", "-00x", "x", "",
        "1x", "1iB", "K",
    ] {
        if size == "1R" && !gnu.has_signed_depths() {
            continue;
        }
        for options in [&["-a"][..], &["-ac"], &["-s"], &["-aS"], &["-a", "--inodes"]] {
            scene.same(&[options, &["-t", size]].concat());
        }
        scene.same(&["-a", &format!("--threshold={size}")]);
    }
}

#[test]
fn lines_end_when_they_should() {
    if !gnu_du() {
        return;
    }
    // Nothing to print is no error.
    scene().same(&["-t", "1E"]);
    scene().same(&["-ct", "1E", "a", "missing"]);
}
