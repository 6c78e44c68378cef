//! The newest clients that registries of packages have. What is fetched stays in the build's folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{holds, is_there, script};

/// A folder for one language's clients, with these of our files in it.
fn folder(name: &str, files: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kv-clients").join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in files {
        fs::copy(script(file), folder.join(file)).unwrap();
    }
    folder
}

fn runs(folder: &Path, command: &[&str]) {
    let output = Command::new(command[0]).args(&command[1..]).current_dir(folder).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "fetches from PyPI: `cargo xtask test long`, after a change to commands or replies"]
fn redis_py_and_the_caches_of_django_and_flask() {
    let folder = folder("python", &[]);
    let python = folder.join("bin/python");
    let python = python.to_str().unwrap();
    if !is_there(&["/usr/bin/python3", "-m", "venv", folder.to_str().unwrap()], "python3-venv") {
        return;
    }
    let pip = [python, "-m", "pip", "install", "--quiet", "--upgrade", "redis"];
    runs(&folder, &[&pip[..], &["django", "flask-caching"]].concat());
    // Answers are read in Python, and then by hiredis.
    holds(&[python, script("session.py").to_str().unwrap()], 1);
    holds(&[python, script("caches.py").to_str().unwrap()], 2);
    runs(&folder, &[python, "-m", "pip", "install", "--quiet", "--upgrade", "hiredis"]);
    holds(&[python, script("session.py").to_str().unwrap()], 1);
}

#[test]
#[ignore = "fetches from npm: `cargo xtask test long`, after a change to commands or replies"]
fn node_redis_and_ioredis() {
    if !is_there(&["npm", "--version"], "npm") {
        return;
    }
    let folder = folder("node", &["node-redis.mjs", "ioredis.mjs"]);
    fs::write(folder.join("package.json"), "{\"private\": true}").unwrap();
    runs(&folder, &["npm", "install", "--no-audit", "--no-fund", "redis@latest", "ioredis@latest"]);
    for session in ["node-redis.mjs", "ioredis.mjs"] {
        holds(&["node", folder.join(session).to_str().unwrap()], 1);
    }
}

#[test]
#[ignore = "fetches Go's modules: `cargo xtask test long`, after a change to commands or replies"]
fn go_redis_and_rueidis_and_redigo() {
    // Since 1.21 it fetches by itself a newer one that a module asks for.
    let script = "case $(go env GOVERSION) in go1.[0-9]|go1.1?|go1.20*) exit 1;; esac";
    if !is_there(&["sh", "-c", &format!("go version && {script}")], "golang-go (of 1.21 or newer)")
    {
        return;
    }
    let folder = folder("go", &["session.go"]);
    if !folder.join("go.mod").exists() {
        runs(&folder, &["go", "mod", "init", "session"]);
    }
    let modules =
        ["github.com/redis/go-redis/v9", "github.com/redis/rueidis", "github.com/gomodule/redigo"];
    runs(&folder, &[&["go", "get", "-u"][..], &modules].concat());
    runs(&folder, &["go", "mod", "tidy"]);
    runs(&folder, &["go", "build", "-o", "session"]);
    holds(&[folder.join("session").to_str().unwrap()], 3);
}

#[test]
#[ignore = "fetches from Maven: `cargo xtask test long`, after a change to commands or replies"]
fn jedis_and_lettuce() {
    if !is_there(&["mvn", "--version"], "maven")
        || !is_there(&["javac", "-version"], "default-jdk-headless")
    {
        return;
    }
    let folder = folder("java", &["Session.java", "pom.xml"]);
    let classpath = folder.join("classpath");
    let file = format!("-Dmdep.outputFile={}", classpath.display());
    runs(&folder, &["mvn", "-q", "-B", "compile", "dependency:build-classpath", &file]);
    let classes = format!(
        "{}:{}",
        folder.join("target/classes").display(),
        fs::read_to_string(classpath).unwrap()
    );
    holds(&["java", "-cp", &classes, "Session"], 2);
}
