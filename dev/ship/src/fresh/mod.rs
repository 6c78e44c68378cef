//! `cargo xtask test fresh`: the README's commands on a machine as new.
//!
//! A Debian without anything but Rust, gcc, git and certificates is made in a folder, the
//! committed tree is cloned into it, and every command of the README's first block runs
//! there. Rust and the downloaded crates are this machine's, and so is how it reaches
//! package archives; nothing else is. Where that is refused a container of podman or
//! docker takes the folder's place.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::debian;
use crate::readme;
use crate::run::{program, read, root, run, succeeds, target_folder};

mod container;
mod host;

use container::Container;
pub(crate) use host::archive;
pub use host::security;

/// A release of Debian for which the README's commands are promised.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Release {
    /// Bookworm
    #[value(name = "12")]
    Debian12,
    /// Trixie
    #[value(name = "13")]
    Debian13,
}

impl Release {
    pub fn suite(self) -> &'static str {
        match self {
            Release::Debian12 => "bookworm",
            Release::Debian13 => "trixie",
        }
    }
}

/// All that it has beside Debian's essential packages.
const INSTALLED: [&str; 4] = ["gcc", "libc6-dev", "git", "ca-certificates"];
/// Where this machine's Rust is seen in it.
const RUST: &str = "/opt/rust";
/// Where the clone is.
pub const CLONE: &str = "/root/kumiki";

/// In a mount and process namespace of its own: whatever happens, with the last process
/// the kernel takes down every mount. `$1` is the new root, `$2` the Rust. By pivot_root(2): within
/// chroot(2) the kernel gives nobody a user namespace, which some tests make. In a session of its own, as a
/// machine's first process: the number of a process group from outside reads as 0.
const ENTER: &str = r#"
set -eu
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$1/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
mkdir -p "$1/opt/rust"
mount --bind "$2" "$1/opt/rust"
mount -o remount,bind,ro "$1/opt/rust"
mkdir -p "$1/.host"
cd "$1"
shift 2
pivot_root . .host
umount --lazy /.host
exec setsid "$@"
"#;
const NAMESPACES: [&str; 5] =
    ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child"];

/// A program in them, which ends when this one does.
fn entered() -> Command {
    let mut command = program("setpriv", ["--pdeathsig", "KILL", "unshare"]);
    command.args(NAMESPACES);
    command
}

/// Runs the README's commands in this release, or in each; fails if one does.
pub fn fresh(release: Option<Release>) -> Result<ExitCode> {
    verdicts_of(release, |release| Machine::make(release, engine()?)?.check())
}

/// A container's engine where mounts are refused; an error where there is neither.
fn engine() -> Result<Option<&'static str>> {
    let may_mount = succeeds(entered().arg("true"));
    let engine = if may_mount { None } else { container::engine() };
    ensure!(
        may_mount || engine.is_some(),
        "a Debian as new is made with mounts and namespaces, which this user may not have \
         (`unshare {}` fails), or in a container: run as root, or install podman",
        NAMESPACES.join(" ")
    );
    if may_mount {
        debian::install("debootstrap")?;
    }
    Ok(engine)
}

/// Does this with this release, or with each, and says how it went; fails if something did.
pub fn verdicts_of(
    release: Option<Release>,
    check: impl Fn(Release) -> Result<Vec<Verdict>>,
) -> Result<ExitCode> {
    let releases = release.map_or(Release::value_variants().to_vec(), |release| vec![release]);
    let mut verdicts = Vec::new();
    for release in releases {
        verdicts.extend(check(release)?);
    }
    println!();
    for Verdict { what, good, seconds } in &verdicts {
        println!("{}  {what}, {seconds} s", if *good { "ok    " } else { "FAILED" });
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.good).count();
    println!("{} passed, {failed} failed", verdicts.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How a command or a step went.
#[derive(Debug)]
pub struct Verdict {
    what: String,
    good: bool,
    seconds: u64,
}

/// A Debian as new.
#[derive(Debug)]
struct Machine {
    release: Release,
    /// Its root, or what a container is given.
    folder: PathBuf,
    sysroot: PathBuf,
    container: Option<Container>,
    /// Held while the folder is in use.
    _lock: File,
}

impl Machine {
    /// Empty, with these packages, in a folder of this name.
    fn base(
        name: &str,
        release: Release,
        engine: Option<&'static str>,
        installed: &[&str],
    ) -> Result<Self> {
        let place = target_folder()?.join("fresh");
        fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
        let folder = place.join(name);
        let lock = folder.with_extension("lock");
        let lock = File::create(&lock).with_context(|| format!("making {}", lock.display()))?;
        if lock.try_lock().is_err() {
            bail!("another run of this uses {}", folder.display());
        }
        let sysroot = PathBuf::from(read(&mut program("rustc", ["--print", "sysroot"]))?.trim());
        ensure!(
            sysroot.join("bin/cargo").is_file() && sysroot != Path::new("/usr"),
            "{} is no toolchain of rustup's, which could be lent to another Debian",
            sysroot.display()
        );
        remove(&folder)?;
        File::create(folder.with_extension("log")).context("making a log")?;
        if engine.is_none() {
            // Killed in the middle, it would leave its mounts to the next run.
            run(entered()
                .args(["debootstrap", "--variant=minbase"])
                .arg(format!("--include={}", installed.join(",")))
                .args([release.suite(), &folder.to_string_lossy()])
                .args(host::archive()))?;
        }
        host::lend(&folder)?;
        Ok(Machine { release, folder, sysroot, container: None, _lock: lock })
    }

    /// With the committed tree.
    fn make(release: Release, engine: Option<&'static str>) -> Result<Self> {
        let mut machine = Self::base(release.suite(), release, engine, &INSTALLED)?;
        machine.clone_project()?;
        if let Some(engine) = engine {
            let (suite, folder) = (release.suite(), &machine.folder);
            machine.container = Some(Container::start(engine, suite, folder, &machine.sysroot)?);
            let words = INSTALLED.join(" ");
            let line = format!(
                "cp --archive {}/. / && apt-get update && \
                 apt-get install --yes --no-install-recommends {words}",
                container::LENT
            );
            ensure!(
                machine.command(&line).status()?.success(),
                "{suite}: nothing can be installed"
            );
        }
        machine.ready()?;
        Ok(machine)
    }

    fn ready(&self) -> Result<()> {
        ensure!(
            self.command("update-ca-certificates").status()?.success(),
            "{}: the new Debian is not usable",
            self.release.suite()
        );
        Ok(())
    }

    /// The committed tree, as a person would have it.
    fn clone_project(&self) -> Result<()> {
        let commit = read(&mut program("git", ["rev-parse", "HEAD"]))?;
        if !read(&mut program("git", ["status", "--porcelain"]))?.is_empty() {
            eprintln!("what is not committed is not tested");
        }
        let clone = self.folder.join(&CLONE[1..]);
        let git = |args: &[&str]| run(&mut program("git", args.iter().copied()));
        let to = clone.to_string_lossy();
        git(&[
            "clone",
            "--quiet",
            "--no-hardlinks",
            "--no-checkout",
            &root().to_string_lossy(),
            &to,
        ])?;
        git(&["-C", &to, "checkout", "--quiet", "--detach", commit.trim()])
    }

    /// Runs the README's commands; the folder is kept if one fails.
    fn check(&self) -> Result<Vec<Verdict>> {
        let commands = readme::first_commands()?.into_iter();
        self.steps(
            commands.map(|shown| (shown.clone(), format!("cd {CLONE} && {shown}"))).collect(),
        )
    }

    /// Runs lines of the shell, each with a word on what it does.
    fn steps(&self, steps: Vec<(String, String)>) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for (what, line) in steps {
            let begin = Instant::now();
            let what = format!("Debian {}: {what}", self.release.suite());
            eprintln!("{what}");
            let good = self.tee(&mut self.command(&line))?;
            verdicts.push(Verdict { what, good, seconds: begin.elapsed().as_secs() });
        }
        if self.container.is_some() || verdicts.iter().all(|verdict| verdict.good) {
            remove(&self.folder)?;
        } else {
            let (folder, log) = (self.folder.display(), self.log());
            eprintln!(
                "{folder} is kept for a look (chroot), and what was printed in {}",
                log.display()
            );
        }
        Ok(verdicts)
    }

    /// A line for the shell in it.
    fn command(&self, line: &str) -> Command {
        let mut command = match &self.container {
            Some(container) => container.command(),
            None => {
                let mut command = entered();
                command.args(["sh", "-c", ENTER, "enter"]).arg(&self.folder).arg(&self.sysroot);
                command
            }
        };
        command.args(["/usr/bin/env", "-i", "HOME=/root", "LANG=C.UTF-8"]);
        command.arg(format!("PATH={RUST}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"));
        command.args(host::variables()).args(["sh", "-c", line]);
        command
    }

    fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    /// Runs it, with its output on stdout and in the log.
    fn tee(&self, command: &mut Command) -> Result<bool> {
        let mut log = File::options().create(true).append(true).open(self.log())?;
        let (reader, writer) = std::io::pipe()?;
        let errors = writer.try_clone()?;
        let mut child = command.stdin(Stdio::null()).stdout(writer).stderr(errors).spawn()?;
        // The command holds the pipe's other end, too, until it is told otherwise.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(reader).split(b'\n') {
            let mut line = line?;
            line.push(b'\n');
            std::io::stdout().write_all(&line)?;
            log.write_all(&line)?;
        }
        Ok(child.wait()?.success())
    }
}

/// A Debian with nothing of ours, not even its sources, in a folder: what is installed in it is
/// all that there is.
#[derive(Debug)]
pub struct Clean(Machine);

impl Clean {
    /// Makes it for this purpose, which is a part of its folder's name.
    pub fn make(purpose: &str, release: Release) -> Result<Self> {
        Self::with(purpose, release, &["ca-certificates"])
    }

    /// Makes it with these packages, and with the committed tree in `CLONE`.
    pub fn with_project(purpose: &str, release: Release, packages: &[&str]) -> Result<Self> {
        let clean = Self::with(purpose, release, packages)?;
        clean.0.clone_project()?;
        Ok(clean)
    }

    fn with(purpose: &str, release: Release, packages: &[&str]) -> Result<Self> {
        ensure!(
            engine()?.is_none(),
            "packages are tried in a Debian that is made with mounts, which are refused here"
        );
        let name = format!("{purpose}-{}", release.suite());
        let machine = Machine::base(&name, release, None, packages)?;
        machine.ready()?;
        Ok(Clean(machine))
    }

    /// Its root.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Runs lines of the shell in it, each with a word on what it does.
    pub fn check(&self, steps: Vec<(String, String)>) -> Result<Vec<Verdict>> {
        self.0.steps(steps)
    }
}

fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    // Nothing is mounted there now; should something be, it is not ours to remove.
    run(program("rm", ["--recursive", "--force", "--one-file-system"]).arg(folder))
}
