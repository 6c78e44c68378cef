//! HTTP as its documents have it: a test for each sentence of the table in `docs/design/http.md`.

mod conditions;
mod connections;
mod fields;
mod lines;
mod ranges;

use std::collections::BTreeSet;

use super::scene::{Answer, Server};

const CONTENT: &[u8] = b"0123456789";

/// A server of the file `a`, its content [`CONTENT`], its gzip'ed form, and an empty file.
fn server() -> Server {
    Server::start_with(&["--precompressed", "--workers", "1"], |folder| {
        std::fs::write(folder.join("a"), CONTENT).unwrap();
        std::fs::write(folder.join("a.gz"), b"as gzip").unwrap();
        std::fs::write(folder.join("empty"), b"").unwrap();
        std::fs::create_dir(folder.join("folder")).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777);
        let file = std::fs::File::options().write(true).open(folder.join("a")).unwrap();
        file.set_modified(old).unwrap();
    })
}

/// Answers to all requests in these bytes.
fn answers(server: &Server, bytes: &[u8]) -> Vec<Answer> {
    let bytes = server.send(bytes);
    let (mut rest, mut answers) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let (answer, after) = Answer::parse(rest, false);
        answers.push(answer);
        rest = after;
    }
    answers
}

/// Status of the first answer to these bytes, which is the only one.
fn refused(server: &Server, bytes: &str) -> u16 {
    let answers = answers(server, format!("{bytes}GET /a HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    assert_eq!(answers.len(), 1, "the connection goes on: {bytes:?}");
    assert_eq!(answers[0].field("Connection"), Some("close"), "{bytes:?}");
    answers[0].status
}

#[test]
fn each_row_of_the_table_has_its_test_and_each_test_a_row() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/http.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: BTreeSet<_> = page
        .lines()
        .filter(|line| line.starts_with("| 9110 ") || line.starts_with("| 9112 "))
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 4, "document and section, sentence, server, test: {line}");
            cells[3].trim_matches(['`', ' ', '|']).to_owned()
        })
        .collect();
    let mut tests = BTreeSet::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/httpd/rfc");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.ends_with("mod.rs") {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line == "#[test]" {
                let name = lines.next().unwrap().strip_prefix("fn ").unwrap();
                tests.insert(name.split('(').next().unwrap().to_owned());
            }
        }
    }
    let missing: Vec<_> = rows.symmetric_difference(&tests).collect();
    assert!(missing.is_empty(), "on one side alone: {missing:?}");
    assert!(rows.len() > 40, "{}", rows.len());
}
