//! The units for systemd that lie beside the program: what they call is there.

use std::fs;

use crate::common::Home;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd");

/// Commands of ours in a unit; a line of shell may have several.
fn commands(unit: &str) -> Vec<String> {
    let lines = unit.lines().filter(|line| line.starts_with("Exec"));
    let parts = lines.flat_map(|line| line.split([';', '\'', '=']));
    let calls = parts.filter_map(|part| {
        let (_, words) = part.split_once("kumiki ")?;
        // What stands in another file is not known here.
        Some(words.split(" ${").next()?.to_owned())
    });
    calls.collect()
}

#[test]
fn units_call_commands_that_there_are() {
    let home = Home::new();
    let mut seen = 0;
    for entry in fs::read_dir(FOLDER).unwrap() {
        let unit = fs::read_to_string(entry.unwrap().path()).unwrap();
        for command in commands(&unit) {
            let words: Vec<_> = command
                .split_whitespace()
                .filter(|word| !word.ends_with("--nats"))
                .chain(["--help"])
                .collect();
            home.kumiki(&words).assert().code(0);
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen}");
}
