//! Builds what it needs below a folder: libkumiki, the file system for RocksDB, and the program that
//! serves a database by either.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::libkumiki;

/// The program, and the library that it is to have loaded.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) program: PathBuf,
    pub(super) library: PathBuf,
}

impl Built {
    /// Path of that, below this folder.
    pub(super) fn of(folder: &Path) -> Built {
        let build = folder.join("soak-rocksdb");
        Built { program: build.join("server"), library: build.join("libkumiki-rocksdb.so") }
    }
}

fn well(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(())
}

/// Builds it; whether RocksDB is there to be built against.
pub(crate) fn prepare(folder: &Path) -> Result<bool> {
    let folder = std::path::absolute(folder).context("the folder")?;
    let mut looks = Command::new("g++");
    looks.args(["-E", "-include", "rocksdb/db.h", "-x", "c++", "/dev/null", "-o", "/dev/null"]);
    if !looks.output().is_ok_and(|output| output.status.success()) {
        println!("there is no RocksDB to build against (librocksdb-dev, g++): passed over");
        return Ok(false);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("a package has a folder")?;
    let Built { program, library } = Built::of(&folder);
    libkumiki::install(&folder)?;
    let mut make = Command::new("make");
    let build = library.parent().context("a folder")?;
    make.args(["-j2", "-C"]).arg(root.join("apps/rocksdb"));
    make.arg(format!("BUILD={}", build.display()));
    well(make.arg(format!("KUMIKI={}", libkumiki::prefix(&folder).display())))?;
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-I"]);
    compiler.arg(root.join("apps/rocksdb/tests/rocksdb"));
    compiler.arg(root.join("dev/soak/src/subject/rocksdb/server.cc"));
    well(compiler.arg("-o").arg(program).arg("-lrocksdb"))?;
    Ok(true)
}
