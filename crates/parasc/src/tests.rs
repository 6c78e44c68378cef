//! `kernel/uapi/parasc.h` and this crate say the same: a C program prints what
//! the header says, and the two are compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use kumiki_sys::syscall::MAX_ARGS;

use crate::backend::kernel;
use crate::{area, slot};

const STRICT: [&str; 5] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn cc() -> Command {
    let mut cc = Command::new("cc");
    cc.args(STRICT).arg("-I").arg(root().join("kernel/uapi"));
    cc
}

fn well(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{err}", output.status);
    String::from_utf8_lossy(out).into_owned()
}

/// What this crate says: C's expression, and its value here.
fn here() -> BTreeMap<String, u64> {
    let layouts = [area::LAYOUT, slot::LAYOUT, kernel::LAYOUT].concat();
    let call = "offsetof(struct parasc_slot, sysnum)";
    let at = layouts.iter().find(|(name, _)| *name == call).unwrap().1;
    let mut all: BTreeMap<_, _> =
        layouts.iter().map(|(name, value)| ((*name).to_owned(), *value as u64)).collect();
    macro_rules! values {
        ($($name:literal = $value:expr;)*) => {
            $(all.insert($name.to_owned(), $value as u64);)*
        };
    }
    values! {
        // The high half of the word that holds both, in this machine's byte order.
        "offsetof(struct parasc_slot, args_num)" = at + 2;
        "PARASC_MAGIC" = area::MAGIC;
        "PARASC_VERSION" = area::VERSION;
        "PARASC_MAX_ARGS" = MAX_ARGS;
        "PARASC_MAX_SLOTS" = area::LANES;
        "PARASC_REQUEST" = slot::REQUEST;
        "PARASC_PROCESSING" = slot::PROCESSING;
        "PARASC_SUCCESS" = slot::SUCCESS;
        "PARASC_ERROR" = slot::ERROR;
        "PARASC_IOC_TYPE" = kernel::TYPE;
        "PARASC_IOC_VERSION" = kernel::IOC_VERSION;
        "PARASC_IOC_PROC" = kernel::IOC_PROC;
    }
    assert!(all.len() > 26, "{all:?}");
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
    source += "\tputs(PARASC_DEVICE);\n\treturn 0;\n}\n";
    let folder = tempfile::tempdir().unwrap();
    let (file, program) = (folder.path().join("print.c"), folder.path().join("print"));
    std::fs::write(&file, source).unwrap();
    well(cc().arg(&file).arg("-o").arg(&program));
    let printed = well(&mut Command::new(&program));
    let (values, device) = printed.trim_end().rsplit_once('\n').unwrap();
    let there = values.lines().map(|line| {
        let (value, name) = line.split_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    assert_eq!(there.collect::<BTreeMap<_, _>>(), here);
    assert_eq!(device, kernel::DEVICE);
}

#[test]
fn the_header_keeps_the_layout_of_its_version() {
    let test = root().join("tests/capi/parasc_uapi.c");
    well(cc().arg("-fsyntax-only").arg(&test));
    // As a module sees it.
    let gnu = ["-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-include", "stdbool.h"];
    well(Command::new("cc").args(gnu).arg("-I").arg(root().join("kernel/uapi")).arg(&test));
    // And that a wrong number would be noticed.
    let wrong = std::fs::read_to_string(&test).unwrap().replace("ret_val, 56", "ret_val, 48");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wrong.c");
    std::fs::write(&file, wrong).unwrap();
    let output = cc().arg("-fsyntax-only").arg(file).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("ret_val"), "{errors}");
}
