//! `docs/questions.md`: each program that it names is here and run by a test, and each that is here is
//! named there. Those in Rust are run here, in C and Python by `lib/capi/tests/capi/questions.rs`, for
//! the shell by `apps/cli/tests/cli/questions.rs`: each runs all files of its folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use crate::new_crate::{document, examples, names, program, root, well};

const PAGE: &str = "docs/questions.md";

/// Folders of programs to copy, and how their names end.
const FOLDERS: [(&str, &str); 4] = [
    ("lib/kumiki/examples", "rs"),
    ("lib/capi/examples", "c"),
    ("lib/python/examples", "py"),
    ("docs/examples", "sh"),
];

/// Questions, each with the files that its part links to.
fn questions(page: &str) -> Vec<(&str, Vec<String>)> {
    let parts = page.split("\n## ").skip(1);
    parts
        .map(|part| {
            let (question, answer) = part.split_once('\n').expect("a heading ends");
            let links = answer.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let files = links.filter(|link| !link.contains("://"));
            let of_root = |link: &str| match link.strip_prefix("../") {
                Some(file) => file.to_owned(),
                None => format!("docs/{link}"),
            };
            (question, files.map(of_root).collect())
        })
        .collect()
}

/// True for a program to be copied.
fn is_program(file: &str) -> bool {
    FOLDERS.iter().any(|(folder, end)| {
        file.strip_prefix(folder).is_some_and(|name| name.ends_with(&format!(".{end}")))
    })
}

#[test]
fn each_question_has_a_program_and_each_program_a_question() {
    let page = document(PAGE);
    let questions = questions(&page);
    assert!(questions.len() >= 10, "{} questions", questions.len());
    let mut named = BTreeSet::new();
    for (question, files) in questions {
        let programs = files.into_iter().filter(|file| is_program(file)).collect::<Vec<_>>();
        assert!(!programs.is_empty(), "{question}: no program");
        named.extend(programs);
    }
    let there = FOLDERS.iter().flat_map(|(folder, end)| {
        let names = names(&root().join(folder), end);
        names.into_iter().map(move |name| format!("{folder}/{name}.{end}"))
    });
    assert_eq!(named, there.collect(), "programs that {PAGE} names, and those that are there");
    // Two clicks: the page, then the program.
    assert!(document("README.md").contains(&format!("]({PAGE})")), "the README leads to {PAGE}");
}

#[test]
fn links_are_told_by_their_question() {
    let page = "# Q\n\n## One?\n[a](x.md), [b](../lib/b.rs)\n\n## Two?\n[c](https://c.org/d.sh)\n";
    let found = questions(page);
    let files = ["docs/x.md", "lib/b.rs"].map(str::to_owned).to_vec();
    assert_eq!(found, [("One?", files), ("Two?", Vec::new())]);
    assert!(is_program("docs/examples/x.sh") && !is_program("docs/x.md"));
}

/// What each program is held to.
fn check(name: &str) {
    match name {
        "memory_limit" => memory_limit(),
        "read_files" => read_files(),
        "save_files" => save_files(),
        "serve_files" => serve_files(),
        "table_of_cores" => table_of_cores(),
        "two_halves" => assert_eq!(well(&mut program("two_halves")), "2666466670000\n"),
        "wait_for_answer" => {
            let said = well(&mut program("wait_for_answer"));
            assert_eq!(said, "42; spun 0 times, slept 1\n");
        }
        _ => panic!("{name}: no test runs it"),
    }
}

#[test]
fn the_programs_do_what_the_page_says() {
    examples().iter().for_each(|name| check(name));
}

fn memory_limit() {
    let limited = |words: &[&str]| {
        let output = program("memory_limit").args(words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(limited(&["64", "sh", "-c", "ulimit -v"]), (Some(0), "65536\n".to_owned()));
    let greedy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"];
    assert_eq!(limited(&[&["64"], &greedy[..]].concat()).0, Some(1));
    assert_eq!(limited(&[&["1024"], &greedy[..]].concat()).0, Some(0));
}

/// A folder of so many files, each of its number's bytes.
fn folder_of(files: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    (0..files)
        .for_each(|n| fs::write(folder.path().join(n.to_string()), vec![7; n % 100]).unwrap());
    folder
}

fn read_files() {
    let folder = folder_of(1000);
    fs::create_dir(folder.path().join("below")).unwrap();
    let said = well(program("read_files").arg(folder.path()));
    assert_eq!(said, format!("1000 files, {} bytes\n", 10 * (0..100).sum::<usize>()));
}

fn save_files() {
    let folder = folder_of(0);
    let said = well(program("save_files").arg(folder.path()).arg("300"));
    assert_eq!(said, "300 files are on the disk\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 300, "none is left beside its place");
    let last = fs::read_to_string(folder.path().join("file-299")).unwrap();
    assert_eq!(last, "the content of 299\n");
}

fn serve_files() {
    let folder = folder_of(100);
    let mut server = program("serve_files");
    let mut server = server.arg(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let ask = |name: &str| {
        let mut client = TcpStream::connect(address.trim()).unwrap();
        client.write_all(format!("{name}\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        answer
    };
    let answers = ["99", "../99", "none"].map(ask);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(answers[0], vec![7; 99]);
    assert_eq!(answers[1], b"no such name\n");
    assert!(String::from_utf8_lossy(&answers[2]).starts_with("none: No such file"), "{answers:?}");
}

fn table_of_cores() {
    let folder = folder_of(0);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let texts = [file("a", "to be or not to be"), file("b", "be as be may"), file("c", "")];
    let said = well(program("table_of_cores").args(texts.iter().map(|path| path as &Path)));
    assert_eq!(said, "10 words, 6 different ones\n");
}
