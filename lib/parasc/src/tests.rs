//! `node/kernel/uapi/parasc.h` and this crate say the same: a C program prints what
//! the header says, and the two are compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use kumiki_sys::syscall::MAX_ARGS;

use crate::{area, backend, line};

const STRICT: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cc() -> Command {
    let mut cc = Command::new("cc");
    cc.args(STRICT).arg("-I").arg(root().join("node/kernel/uapi"));
    cc
}

fn well(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{err}", output.status);
    String::from_utf8_lossy(out).into_owned()
}

/// Layout as this crate has it: C's expression, and its value here.
fn here() -> BTreeMap<String, u64> {
    let layouts = [area::tests::LAYOUT, line::tests::LAYOUT, backend::LAYOUT].concat();
    let mut all: BTreeMap<_, _> =
        layouts.iter().map(|(name, value)| ((*name).to_owned(), *value as u64)).collect();
    macro_rules! values {
        ($($name:literal = $value:expr;)*) => {
            $(all.insert($name.to_owned(), $value as u64);)*
        };
    }
    values! {
        "PARASC_MAGIC" = area::MAGIC;
        "PARASC_VERSION" = area::VERSION;
        "PARASC_MAX_ARGS" = MAX_ARGS;
        "PARASC_MAX_LINES" = area::LINES;
        "PARASC_BATCH" = line::BATCH;
        // Fields of the word: what is made, first and last, and the call.
        "PARASC_MADE(0x4444333322221111ull)" = 0x1111;
        "PARASC_FIRST(0x4444333322221111ull)" = 0x2222;
        "PARASC_LAST(0x4444333322221111ull)" = 0x3333;
        "PARASC_CALL(0x4444333322221111ull)" = 0x4444;
        "PARASC_STATE(0x1111, 0x2222, 0x3333, 0x4444)" = 0x4444_3333_2222_1111_u64;
        "PARASC_REQUESTS" = line::REQUESTS;
        "PARASC_RESULTS" = line::RESULTS;
        "PARASC_AT_ONCE" = line::AT_ONCE;
    }
    assert!(all.len() > 22, "{all:?}");
    all
}

#[test]
fn sizes_places_and_values_are_those_of_the_header() {
    let here = here();
    let mut source = "#include <stddef.h>\n#include <stdio.h>\n#include \"parasc.h\"\n".to_owned();
    source += "#include \"parasc.h\"\nint main(void) {\n";
    for name in here.keys() {
        source += &format!("\tprintf(\"%llu %s\\n\", (unsigned long long)({name}), \"{name}\");\n");
    }
    source += "\treturn 0;\n}\n";
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("print.c"), folder.path().join("print"));
    std::fs::write(&file, source).unwrap();
    well(cc().arg(&file).arg("-o").arg(&program));
    let printed = well(&mut Command::new(&program));
    let there = printed.lines().map(|line| {
        let (value, name) = line.split_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    assert_eq!(there.collect::<BTreeMap<_, _>>(), here);
}

#[test]
fn the_header_keeps_the_layout_of_its_version() {
    let test = root().join("tests/capi/parasc_uapi.c");
    well(cc().arg("-fsyntax-only").arg(&test));
    // As a module sees it.
    let gnu = ["-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-include", "stdbool.h"];
    well(Command::new("cc").args(gnu).arg("-I").arg(root().join("node/kernel/uapi")).arg(&test));
    // And that a wrong number would be noticed.
    let wrong = std::fs::read_to_string(&test).unwrap().replace("ret_val, 56", "ret_val, 48");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.c");
    std::fs::write(&file, wrong).unwrap();
    let output = cc().arg("-fsyntax-only").arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("ret_val"), "{errors}");
}

/// The engine's lines of code, without comments, tests and models, and without the tries on top
/// of it: what a stranger reads who is to change it.
#[test]
fn the_engine_can_be_read() {
    fn lines(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| !path.ends_with("tries"))
            .map(|path| if path.is_dir() { lines(&path) } else { code(&path) })
            .sum()
    }
    fn code(path: &Path) -> usize {
        if ["model.rs", "many.rs", "loom.rs", "tests.rs", "simulated.rs"]
            .iter()
            .any(|name| path.ends_with(name))
        {
            return 0;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let is_test = |at: &usize| lines[*at].starts_with("#[cfg(") && lines[*at].contains("test");
        let mut tests = (0..lines.len()).filter(is_test);
        let end =
            tests.find(|at| lines[at + 1..].iter().take(3).any(|line| line.contains("mod tests")));
        let code = lines[..end.unwrap_or(lines.len())].iter();
        code.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    }
    let lines = lines(&root().join("lib/parasc/src"));
    eprintln!("parasc's engine has {lines} lines of code");
    assert!((3_000..=5_550).contains(&lines), "{lines}");
}
