//! Builds the spawn server: a program of its own, without a C library, which the library
//! carries along. Its crates are of the workspace as well, where they are looked at and tested;
//! but cargo has no way to build a program into one of its libraries. `embedded` leads to their
//! sources: a packed crate has copies there, where folders that are crates do not come along.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates in the order in which one needs the other; the program is the last.
const CRATES: [(&str, &str, &str); 2] = [
    ("kumiki_spawn_wire", "rlib", "embedded/wire/lib.rs"),
    ("server", "bin", "embedded/server/lib.rs"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=embedded");
    println!("cargo::rustc-check-cfg=cfg(std_has_pipes)");
    if minor_version().is_some_and(|minor| minor >= 87) {
        println!("cargo::rustc-cfg=std_has_pipes");
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    if !["x86_64", "aarch64"].contains(&&*variable("CARGO_CFG_TARGET_ARCH")) {
        // The library says so itself.
        std::fs::write(out.join("server"), b"").expect("OUT_DIR is writable");
        return;
    }
    for (name, kind, file) in CRATES {
        build(&out, name, kind, file);
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The compiler's version 1.N.
fn minor_version() -> Option<u32> {
    let output = Command::new(variable("RUSTC")).arg("--version").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').nth(1)?.parse().ok()
}

/// It has no C library: the compiler's own target, whose `core` is there, also where the library's is made
/// anew (-Zbuild-std).
fn target() -> String {
    variable("TARGET").replace("-musl", "-gnu")
}

fn build(out: &Path, name: &str, kind: &str, file: &str) {
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args(["--edition=2024", "--crate-name", name, "--crate-type", kind]);
    compiler.args(["--target", &target(), "-Copt-level=s", "-Cpanic=abort"]);
    compiler.args(["-Ccodegen-units=1", "-Crelocation-model=static", "--cfg=freestanding"]);
    // Its own crates, before others of the same names that cargo may have put elsewhere.
    compiler.arg("-L").arg(format!("dependency={}", out.display()));
    for (needed, ..) in CRATES.iter().take_while(|(other, ..)| *other != name) {
        compiler.arg("--extern").arg(format!("{needed}={}/lib{needed}.rlib", out.display()));
    }
    if kind == "bin" {
        compiler.args(["-Clto=fat", "-Cstrip=symbols"]);
        compiler.args(["-Clink-args=-nostartfiles -nostdlib -static -no-pie"]);
        compiler.args(["-Clink-args=-Wl,--build-id=none -Wl,-z,noseparate-code"]);
        compiler.arg("-o").arg(out.join(name));
        if let (Ok(linker), true) = (env::var("RUSTC_LINKER"), target() != variable("HOST")) {
            compiler.arg(format!("-Clinker={linker}"));
        }
    } else {
        compiler.arg("--out-dir").arg(out);
    }
    let status = compiler.arg(file).status().expect("rustc runs");
    assert!(status.success(), "the spawn server does not compile: {file}: {status}");
}
