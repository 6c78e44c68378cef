//! Builds the spawn server: a program of its own, without a C library, which the library
//! carries along.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=server");
    println!("cargo::rerun-if-changed=src/bell.rs");
    println!("cargo::rerun-if-changed=src/wire.rs");
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let out = PathBuf::from(variable("OUT_DIR")).join("server");
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        // The library says so itself.
        std::fs::write(&out, b"").expect("OUT_DIR is writable");
        return;
    }
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args(["--edition=2024", "--crate-name=kumiki_spawn_server", "--crate-type=bin"]);
    compiler.args(["--target", &variable("TARGET"), "-Copt-level=s", "-Cpanic=abort"]);
    compiler.args(["-Cstrip=symbols", "-Crelocation-model=static", "-Ccodegen-units=1"]);
    compiler.args(["-Clink-args=-nostartfiles -nostdlib -static -no-pie"]);
    compiler.args(["-Clink-args=-Wl,--build-id=none -Wl,-z,noseparate-code"]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    compiler.arg("server/main.rs").arg("-o").arg(&out);
    let status = compiler.status().expect("rustc runs");
    assert!(status.success(), "the spawn server does not compile: {status}");
}
