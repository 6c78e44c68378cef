//! `cargo xtask test arm64`: what is for aarch64, in a machine of the lab with Debian's own kernel for it.
//!
//! QEMU emulates the machine: what runs there is right or wrong, and no time of it says anything. Programs and tests
//! are linked with all of the C library, so that the machine needs nothing but them.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Message;
use kumiki_lab::{Arch, Cache, Config, KernelName, Machine, Output, Talk};

use crate::debian;
use crate::run::{announce, cargo, root, target_folder, text};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Programs, each of a crate.
const PROGRAMS: [(&str, &str); 4] = [
    ("kumiki-cli", "kumiki"),
    ("kumiki-du", "kumiki-du"),
    ("kumiki-httpd", "kumiki-httpd"),
    ("kumiki-kv", "kumiki-kv"),
];
/// Libraries whose tests run.
const LIBRARIES: [&str; 17] = [
    "sys",
    "wait",
    "slot",
    "calls",
    "spawn-wire",
    "crew",
    "shadow",
    "stream",
    "copy",
    "parasc",
    "resource",
    "spawn",
    "tokio",
    "places",
    "journal",
    "metrics",
    "destination",
];
/// Tests that are left out there: a part of their names, and why.
const LEFT_OUT: [(&str, &str); 0] = [];
/// Test programs that are left out: their names, and why.
const PROGRAMS_LEFT_OUT: [(&str, &str); 2] = [
    ("nats", "it starts a NATS server, which the machine does not have"),
    ("stress", "it is for hours, and an emulator takes ten times as long"),
];
/// Time that one test program may take.
const LIMIT: Duration = Duration::from_secs(1200);

/// Uses of the programs, each a script of the machine's busybox.
const USES: [(&str, &str); 6] = [
    ("kumiki doctor", "kumiki doctor >doctor; [ -s doctor ]"),
    (
        "kumiki run: a program at a place",
        "printf '[kind.process]\\ncreate = true\\ndestroy = true\\nparts = [\"*\"]\\n' >allow; \
         kumiki place serve --host here --cpu-list 0 --allow allow >serving & \
         n=0; until [ -s serving ]; do sleep 1; n=$((n+1)); [ $n -lt 60 ]; done; \
         [ \"$(kumiki run here.core0 -- /bin/kumiki --version)\" = \"$(kumiki --version)\" ]; kill $!; wait $!",
    ),
    (
        "kumiki-du as du",
        "kumiki-du -a /etc /bin | sort >ours; du -a /etc /bin | sort >theirs; cmp ours theirs",
    ),
    (
        "kumiki-httpd: a file",
        "mkdir -p www; echo of a file >www/file; kumiki-httpd www --listen 127.0.0.1:8080 2>said & \
         n=0; until grep -q 8080 said; do sleep 1; n=$((n+1)); [ $n -lt 60 ]; done; \
         [ \"$(wget -q -O - http://127.0.0.1:8080/file)\" = 'of a file' ]; kill $!; wait $!",
    ),
    (
        "kumiki-kv: a key",
        "kumiki-kv --port 6380 >told & n=0; until [ -s told ]; do sleep 1; n=$((n+1)); [ $n -lt 60 ]; done; \
         printf 'SET a 1\\r\\nGET a\\r\\nQUIT\\r\\n' | nc 127.0.0.1 6380 | tr -d '\\r' >answers; \
         printf '+OK\\n$1\\n1\\n+OK\\n' | cmp - answers; kill $!; wait $!",
    ),
    ("kumiki report --quick", "kumiki report --quick --output report.html; [ -s report.html ]"),
];

/// Builds all of it and runs it there; `filters` choose what by parts of names.
pub(crate) fn test(filters: &[String]) -> Result<ExitCode> {
    debian::install("aarch64")?;
    debian::install("lab")?;
    debian::install("arm64")?;
    let chosen = |name: &str| filters.is_empty() || filters.iter().any(|part| name.contains(part));
    let programs = programs()?;
    let machine = machine(&programs)?;
    let mut verdicts = Vec::new();
    for (what, script) in USES.into_iter().filter(|(what, _)| chosen(what)) {
        verdicts.push(verdict(&machine, what, &["sh", "-ec", script])?);
    }
    for program in tests(&chosen)? {
        verdicts.push(program.run(&machine)?);
    }
    machine.shut_down(0)?;
    println!();
    verdicts
        .iter()
        .for_each(|(what, good)| println!("{}  {what}", if *good { "ok    " } else { "FAILED" }));
    let left_out = LEFT_OUT.iter().chain(&PROGRAMS_LEFT_OUT);
    left_out.for_each(|(what, why)| println!("left out  {what}: {why}"));
    let failed = verdicts.iter().filter(|(_, good)| !good).count();
    println!("{} passed, {failed} failed", verdicts.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cargo that runs us, for that processor.
fn cargo_for(words: &str) -> Result<Command> {
    let mut command = cargo(words);
    command.args(["--target", TARGET, "--release", "--locked", "--target-dir"]);
    command.arg(target_folder()?.join("arm64"));
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    command
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
    command.env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc");
    Ok(command)
}

/// Builds the programs.
fn programs() -> Result<Vec<PathBuf>> {
    let words = PROGRAMS.map(|(package, name)| format!("--package {package} --bin {name} "));
    crate::run::run(&mut cargo_for(&format!("build {}", words.concat()))?)?;
    let folder = target_folder()?.join("arm64").join(TARGET).join("release");
    Ok(PROGRAMS.iter().map(|(_, name)| folder.join(name)).collect())
}

/// A machine that has them, with our agent.
fn machine(programs: &[PathBuf]) -> Result<Machine> {
    let config = Config {
        kernel: KernelName::default().on(Arch::Arm64),
        memory_bytes: 3 << 30,
        programs: programs[1..].to_vec(),
        start_limit: Duration::from_secs(600),
        ..Config::new(&programs[0])
    };
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let machine = Machine::start(&Cache::of_user()?, &config, talk)?;
    eprintln!(
        "{} is up after {:.1} s",
        machine.kernel().version,
        machine.times().start.as_secs_f64()
    );
    // Tests read files of their crates, by the paths that they were built with.
    let library = root().join("lib");
    let above = library.parent().context("a clone has a folder")?.to_string_lossy().into_owned();
    show_failure(&machine.command("mkdir").arg("-p").arg(above).output()?);
    machine.guest().put(&library, &library)?;
    Ok(machine)
}

/// A test program.
struct TestProgram {
    name: String,
    file: PathBuf,
    folder: PathBuf,
}

/// Builds those of the libraries.
fn tests(chosen: &dyn Fn(&str) -> bool) -> Result<Vec<TestProgram>> {
    let packages = LIBRARIES.iter().filter(|name| chosen(name));
    let packages: String = packages.map(|name| format!(" --package kumiki-{name}")).collect();
    if packages.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = cargo_for(&format!(
        "test{packages} --lib --tests --no-run --message-format=json-render-diagnostics"
    ))?;
    announce(&command);
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run `{}`", text(&command)))?;
    let stdout = child.stdout.take().expect("stdout was asked for");
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(stdout)) {
        let Message::CompilerArtifact(artifact) = message.context("output of cargo")? else {
            continue;
        };
        let Some(file) = artifact.executable else { continue };
        let folder = artifact.manifest_path.parent().context("a manifest is in a folder")?;
        let package = folder.file_name().unwrap_or_default();
        let name = format!("{package}: {}", artifact.target.name);
        let left_out = PROGRAMS_LEFT_OUT.iter().any(|(what, _)| artifact.target.name == *what);
        if artifact.profile.test && !left_out {
            programs.push(TestProgram { name, file: file.into(), folder: folder.into() });
        }
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "`{}` failed: {status}", text(&command));
    Ok(programs)
}

impl TestProgram {
    fn run(&self, machine: &Machine) -> Result<(String, bool)> {
        let there = Path::new("/tmp").join(self.file.file_name().context("a program has a name")?);
        machine.guest().put(&self.file, &there)?;
        let mut words = format!("cd {} && {}", self.folder.display(), there.display());
        LEFT_OUT.iter().for_each(|(part, _)| words += &format!(" --skip {part}"));
        let verdict = verdict(machine, &self.name, &["sh", "-c", &words])?;
        show_failure(&machine.command("rm").arg(&there).output()?);
        Ok(verdict)
    }
}

/// Runs words there, and says how that went.
fn verdict(machine: &Machine, what: &str, words: &[&str]) -> Result<(String, bool)> {
    let begin = Instant::now();
    let command = machine.command(words[0]).args(&words[1..]).env("XDG_RUNTIME_DIR", "/tmp");
    let ended = command.time_limit(LIMIT).output();
    let seconds = begin.elapsed().as_secs();
    let (good, said) = match ended {
        Ok(output) => (show_failure(&output), summary(&output)),
        Err(error) => {
            eprintln!("{what}: {error}");
            (false, error.to_string())
        }
    };
    eprintln!("{what}: {seconds} s");
    Ok((format!("{what}, {seconds} s{said}"), good))
}

/// Result that a test program says of itself at its end.
fn summary(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let line = line.and_then(|line| line.split("; finished").next());
    line.map_or_else(String::new, |line| format!(": {line}"))
}

/// Shows what was said of what failed.
fn show_failure(output: &Output) -> bool {
    let good = output.exit.code() == 0;
    if !good {
        for said in [&output.stdout, &output.stderr] {
            eprint!("{}", String::from_utf8_lossy(said));
        }
    }
    good
}
