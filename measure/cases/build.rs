//! Builds the ordinary programs that are measured beside the bare ones. The tool
//! carries them: a machine to be measured has no compiler.
//!
//! One that cannot be built here (a static one where there is no libc.a) is left
//! empty, and its rows are skipped with the reason.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

const SOURCES: &str = "src/program/ordinary";

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    println!("cargo::rerun-if-changed=build.rs");
    // What is ordinary is what most machines have.
    let env = variable("CARGO_CFG_TARGET_ENV");
    let glibc = || match env == "gnu" {
        true => Ok(()),
        false => Err(format!("it is of glibc, and this program of {}", env.to_string_lossy())),
    };
    build("dynamic_c", glibc().and_then(|()| c()));
    build(
        "static_c",
        glibc().and_then(|()| c()).map(|mut command| {
            command.arg("-static");
            command
        }),
    );
    build("rust", glibc().map(|()| rust()));
}

/// Builds the program `name`.
fn build(name: &str, command: Result<Command, String>) {
    let program = PathBuf::from(variable("OUT_DIR")).join(name);
    let built = command.and_then(|mut command| run(command.arg("-o").arg(&program)));
    let packed = match built {
        Ok(()) => pack(&fs::read(&program).expect("reading what was built")),
        Err(why) => {
            println!("cargo::warning=the rows of program={name} will be skipped: {why}");
            Vec::new()
        }
    };
    fs::write(program.with_extension("gz"), packed).expect("writing to OUT_DIR");
}

/// They are a megabyte, and used by few runs.
fn pack(program: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(program).expect("writing to memory");
    packed.finish().expect("writing to memory")
}

/// As C programs are usually built.
fn c() -> Result<Command, String> {
    let compiler =
        cc::Build::new().cargo_metadata(false).opt_level(2).debug(false).try_get_compiler();
    let mut command = compiler.map_err(|e| e.to_string())?.to_command();
    command.args(["-Wall", "-Wextra", "-s"]).arg(Path::new(SOURCES).join("ordinary.c"));
    Ok(command)
}

/// As Rust programs are usually built.
fn rust() -> Command {
    let mut command = Command::new(variable("RUSTC"));
    command.args(["--edition", "2024", "-C", "opt-level=2", "-C", "strip=symbols", "--target"]);
    command.arg(variable("TARGET"));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut option = OsString::from("-Clinker=");
        option.push(linker);
        command.arg(option);
    }
    command.arg(Path::new(SOURCES).join("ordinary.rs"));
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().collect::<Vec<_>>().join(" ")),
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name} for build scripts"))
}
