//! What the READMEs show of nodes, as a person types it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::pool::Turn;
use crate::text;

/// The lines of this README's block that has these words.
fn block(readme: &str, words: &str) -> Vec<String> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let readme = fs::read_to_string(root.join(readme)).unwrap();
    let blocks = readme.split("```console\n").skip(1);
    let mut blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let block = blocks.find(|block| block.contains(words)).unwrap();
    block.lines().map(str::to_owned).collect()
}

/// A line with each number as `0`, because times and sizes differ, and with plain
/// spaces.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for letter in line.replace('\u{202f}', " ").chars() {
        if !letter.is_ascii_digit() {
            shape.push(letter);
        } else if !shape.ends_with('0') {
            shape.push('0');
        }
    }
    shape
}

#[test]
fn the_readmes_two_minutes() {
    says_what_is_shown(&block("README.md", "lab up --nodes"));
}

#[test]
fn cpus_and_memory_that_come_and_go_as_nodes_readme_shows_them() {
    says_what_is_shown(&block("node/README.md", "node set"));
}

fn says_what_is_shown(lines: &[String]) {
    let _turn = Turn::wait();
    let inside: Vec<_> = lines.iter().filter(|line| !line.starts_with("$ ")).collect();
    let typed: Vec<_> = inside.iter().filter_map(|line| line.strip_prefix("# ")).collect();
    assert!(typed.iter().any(|line| line.contains("node start")), "{typed:?}");
    // As the shell shows what it runs, so the README does.
    let echoed = typed.iter().map(|line| format!("echo '# {line}'; {line} || exit\n"));
    // The program that makes a root of a container image is there if this machine has it.
    let mkfs = match Path::new("/usr/bin/mkfs.erofs").exists() {
        true => {
            "mkdir /tmp/root; echo 1 > /tmp/root/file; \
             mkfs.erofs /tmp/root.erofs /tmp/root > /dev/null 2>&1 || exit 9\n"
        }
        false => "",
    };
    let script = format!("exec 2>&1\n{mkfs}{}", echoed.collect::<String>());
    let output = Command::new(env!("CARGO_BIN_EXE_kumiki"))
        .args(["lab", "run", "--nodes", "--", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, talk) = (text(&output.stdout), text(&output.stderr));
    let lack = ["qemu-system", "cannot be had"].iter().any(|word| talk.contains(word));
    if lack && said.is_empty() && std::env::var_os("KUMIKI_LAB").is_none() {
        return eprintln!("skipped: {talk}");
    }
    assert_eq!(output.status.code(), Some(0), "{said}{talk}");
    // Its last word in the line that says what the image is of.
    let release = |lines: &[&str]| {
        let mut words = lines.iter().filter_map(|line| line.split_once(": kernel "));
        words.next().unwrap().1.split(',').next().unwrap().to_owned()
    };
    let said: Vec<_> = said.lines().collect();
    let shown: Vec<_> = inside.iter().map(|line| line.as_str()).collect();
    let (ours, theirs) = (release(&said), release(&shown));
    let shown: Vec<_> = shown.iter().map(|line| shape(&line.replace(&theirs, &ours))).collect();
    assert_eq!(said.iter().map(|line| shape(line)).collect::<Vec<_>>(), shown);
}
