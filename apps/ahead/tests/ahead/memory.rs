//! Memory and threads of the library's own, on a tree of more names than it keeps.

use std::fs;
use std::io::{Read, copy, sink};
use std::process::{Command, Stdio};
use std::thread::{scope, sleep};
use std::time::Duration;

use crate::scene::{ahead, at_times, has};
use crate::slow::{Slow, Tree};

/// Bytes of its own, threads, and the most of both.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    anonymous: u64,
    threads: u64,
}

impl Held {
    fn of(process: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Held { anonymous: value("RssAnon:")? * 1024, threads: value("Threads:")? })
    }
}

/// Runs a program to its end; gives the most that it held.
fn most(command: &mut Command) -> Held {
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut most = Held::default();
    scope(|scope| {
        let read = scope.spawn(move || copy(&mut output.by_ref(), &mut sink()).unwrap());
        while !read.is_finished() {
            if let Some(held) = Held::of(child.id()) {
                most.anonymous = most.anonymous.max(held.anonymous);
                most.threads = most.threads.max(held.threads);
            }
            sleep(Duration::from_millis(2));
        }
        assert!(read.join().unwrap() > 0);
    });
    assert!(child.wait().unwrap().success());
    most
}

/// 24,000 names of 220 bytes: 5.5 MB of them, of which at most 4 MiB are kept.
fn tree() -> Tree {
    let mut tree = Tree::new();
    for folder in 0..80 {
        let above = tree.folder(1, format!("folder{folder}"));
        for file in 0..300 {
            tree.file(above, format!("{file:0220}"), 10);
        }
    }
    tree
}

#[test]
fn they_stay_within_their_bounds_on_a_large_tree() {
    if !has("tar") {
        return;
    }
    at_times(|| {
        let words = |command: &mut Command, slow: &Slow| {
            most(command.args(["-cf", "-", "."]).current_dir(slow.path()))
        };
        let Some(plain) = Slow::mount(tree(), Duration::ZERO) else { return true };
        let without = words(&mut Command::new("tar"), &plain);
        drop(plain);
        let Some(slow) = Slow::mount(tree(), Duration::from_millis(1)) else { return true };
        let with = words(ahead("tar").env("KUMIKI_AHEAD", "cold=1"), &slow);
        let own = with.anonymous.saturating_sub(without.anonymous);
        println!("{} KiB of memory beside tar's own, {} threads", own >> 10, with.threads - 1);
        assert_eq!(without.threads, 1);
        assert!(own <= 8 << 20, "{own} bytes of memory");
        assert!(with.threads <= 33 + 1, "{} threads", with.threads);
        with.threads > 16 && own > 1 << 20
    });
}
