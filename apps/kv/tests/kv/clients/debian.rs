//! Clients that Debian has.

use std::path::Path;
use std::process::Command;

use super::{holds, is_there, script};

/// Debian's, for which its packages are: another one may stand before it in PATH.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn python() {
    if is_there(&[PYTHON, "-c", "import redis"], "python3-redis") {
        holds(&[PYTHON, script("session.py").to_str().unwrap()], 1);
    }
}

#[test]
fn hiredis() {
    if !is_there(&["pkg-config", "hiredis"], "libhiredis-dev") {
        return;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kv-session");
    let built = Command::new("cc")
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(script("session.c"))
        .arg("-lhiredis")
        .status();
    assert!(built.unwrap().success());
    holds(&[program.to_str().unwrap()], 1);
}

#[test]
fn perl() {
    if is_there(&["perl", "-MRedis", "-e", "1"], "libredis-perl") {
        holds(&["perl", script("session.pl").to_str().unwrap()], 1);
    }
}

#[test]
fn ruby() {
    if is_there(&["ruby", "-r", "redis", "-e", "1"], "ruby-redis") {
        holds(&["ruby", script("session.rb").to_str().unwrap()], 1);
    }
}

#[test]
fn php() {
    if is_there(&["php", "-r", "new Redis();"], "php-redis and php-cli") {
        holds(&["php", script("session.php").to_str().unwrap()], 1);
    }
}
