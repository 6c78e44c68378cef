//! The programs beside the command: each has what it is for, and no more.

use std::fs;
use std::process::Command;

use object::read::elf::{ElfFile64, FileHeader};
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind, elf};

const NODED: &str = env!("CARGO_BIN_EXE_kumiki-noded");
const AGENT: &str = env!("CARGO_BIN_EXE_kumiki-node-agent");

/// Parts of the command that a program which reads what a node writes, or which each node has in its
/// memory, does without: a database, TLS, NATS, charts, a command line for people.
const NOT_THERE: [&str; 6] =
    ["sqlite3_open", "rusqlite", "rustls", "nkeys", "plotters", "clap_builder"];

fn said(program: &str, words: &[&str]) -> (i32, String) {
    let output = Command::new(program).args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn each_has_the_command_s_version_and_says_what_it_is_for() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(said(NODED, &["--version"]), (0, format!("kumiki-noded {version}\n")));
    // It is a node's `kumiki`.
    assert_eq!(said(AGENT, &["--version"]), (0, format!("kumiki {version}\n")));
    let (status, text) = said(NODED, &["serve"]);
    assert!(status == 2 && text.contains("serve NAME [--taps]"), "{text}");
    let (status, text) = said(NODED, &["idle", "n1", "soon"]);
    assert!(status == 2 && text.contains("idle NAME SECONDS [FILE]"), "{text}");
    let (status, text) = said(AGENT, &["resource", "ls"]);
    assert!(status == 2 && text.contains("image add --program"), "{text}");
}

/// Silence would say that nothing has happened.
#[test]
fn a_trace_that_cannot_be_written_is_refused_by_each_that_has_events() {
    let why = if cfg!(feature = "trace") { "no/where" } else { "`trace`" };
    let kumiki = env!("CARGO_BIN_EXE_kumiki");
    for (program, words) in [(NODED, "ask"), (AGENT, "--version"), (kumiki, "doctor")] {
        let mut command = Command::new(program);
        let output = command.arg(words).env("KUMIKI_TRACE", "no/where").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{program}: {text}");
        assert!(text.contains("KUMIKI_TRACE") && text.contains(why), "{program}: {text}");
    }
}

#[test]
fn no_part_of_the_command_that_they_do_without_is_linked() {
    for program in [NODED, AGENT] {
        let bytes = fs::read(program).unwrap();
        let header = elf::FileHeader64::<LittleEndian>::parse(&*bytes).unwrap();
        assert_eq!(header.endian().unwrap(), LittleEndian);
        let file = ElfFile64::<LittleEndian>::parse(&*bytes).unwrap();
        // A file that was read and left out has a symbol, too.
        let code = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        let names: Vec<_> = code.filter_map(|symbol| symbol.name().ok()).collect();
        assert!(names.iter().any(|name| name.contains("kumiki_node")), "{program} has no symbols");
        for part in NOT_THERE {
            let found = names.iter().find(|name| name.contains(part));
            assert_eq!(found, None, "{program}: {part}");
        }
    }
}
