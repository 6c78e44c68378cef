//! The workspace's test programs: built together, each with what its crate says of it.

use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use cargo_metadata::{Artifact, Message, Metadata, Package};

use crate::manifest::{Kumiki, Program};
use crate::run::{self, announce, cargo, everything, everything_of, metadata, program, text};

use super::cpus;
use super::job::Job;
use crate::part::Part;

/// Ignored for another reason than its length: it is for a machine of the lab, which a test of the
/// same program starts.
const FOR_A_MACHINE: &str = "in_a_machine";

/// Builds the programs of these parts, by their names; with a door only those behind it.
pub(super) fn programs(parts: &[Part], door: Option<Part>) -> Result<Vec<Job>> {
    let metadata = metadata()?;
    let (mut programs, mut many_cpus) = (Vec::new(), Vec::new());
    for artifact in build(&wanted(&metadata, parts, door)?)? {
        let Some(built) = Built::of(&metadata, artifact)? else { continue };
        if door.is_some_and(|door| !door.has(&run::door(built.package), built.part)) {
            continue;
        }
        if built.many_cpus {
            many_cpus.push(built.executable.clone());
        }
        if parts.contains(&Part::Long) {
            programs.extend(long_job(&built)?);
        }
        programs.extend(job(built, parts)?);
    }
    programs.sort_by_key(|job| job.name.clone());
    let mut jobs = programs;
    if parts.contains(&Part::Cpus) {
        jobs.extend(cpus::jobs(&many_cpus)?);
    }
    Ok(jobs)
}

/// Words that choose the targets: everything if most of it is wanted, or one package's.
fn wanted(metadata: &Metadata, parts: &[Part], door: Option<Part>) -> Result<String> {
    if let Some(door) = door {
        let programs = |package: &Package| -> Result<bool> {
            let tests = said(package)?.tests;
            let behind = run::door(package);
            Ok(package
                .targets
                .iter()
                .filter_map(Program::of)
                .any(|program| door.has(&behind, tests.part(&program))))
        };
        return everything_of(|package| programs(package).unwrap_or(true));
    }
    let everything = everything()?;
    if parts.iter().any(|part| matches!(part, Part::Fast | Part::Workspace | Part::Long)) {
        return Ok(everything);
    }
    // With the features of everything, so that nothing is built twice.
    let mut words = everything;
    for package in metadata.workspace_packages() {
        let said = said(package)?.tests;
        for program in package.targets.iter().filter_map(Program::of) {
            let many = parts.contains(&Part::Cpus) && said.is_for_many_cpus(&program);
            if parts.contains(&said.part(&program)) || many {
                words += &format!(" --test {}", program.name);
            }
        }
    }
    Ok(words)
}

/// Test programs, as cargo tells of them.
fn build(words: &str) -> Result<Vec<Artifact>> {
    let mut command =
        cargo(&format!("test {words} --no-run --locked --message-format=json-render-diagnostics"));
    announce(&command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `{}`", text(&command)))?;
    let stdout = child.stdout.take().expect("stdout was asked for");
    let mut artifacts = Vec::new();
    for message in Message::parse_stream(BufReader::new(stdout)) {
        match message.context("output of cargo")? {
            Message::CompilerArtifact(artifact) if artifact.profile.test => {
                artifacts.push(artifact)
            }
            _ => {}
        }
    }
    let status = child.wait().context("waiting for cargo")?;
    ensure!(status.success(), "`{}` failed: {status}", text(&command));
    Ok(artifacts)
}

/// A test program, and what its crate says of it.
struct Built<'a> {
    package: &'a Package,
    name: String,
    executable: PathBuf,
    part: Part,
    alone: bool,
    /// See [`Job::seconds`].
    seconds: Option<u32>,
    many_cpus: bool,
}

impl<'a> Built<'a> {
    /// `None` of what is no test program.
    fn of(metadata: &'a Metadata, artifact: Artifact) -> Result<Option<Self>> {
        let Some(executable) = artifact.executable else { return Ok(None) };
        let packages = metadata.workspace_packages();
        let package = packages.into_iter().find(|package| package.id == artifact.package_id);
        let package = package.with_context(|| format!("{executable} is of no package"))?;
        let Some(tests) = Program::of(&artifact.target) else { return Ok(None) };
        let said = said(package)?.tests;
        Ok(Some(Built {
            package,
            name: tests.name.to_owned(),
            executable: executable.into(),
            part: said.part(&tests),
            alone: said.is_alone(&tests),
            seconds: said.seconds(&tests),
            many_cpus: said.is_for_many_cpus(&tests),
        }))
    }
}

/// The job that runs a program; `None` if it is of another part.
fn job(built: Built<'_>, parts: &[Part]) -> Result<Option<Job>> {
    let Built { package, name, executable, part, alone, seconds, .. } = built;
    let fast =
        part == Part::Workspace && seconds.is_none() && !alone && parts.contains(&Part::Fast);
    if !parts.contains(&part) && !fast {
        return Ok(None);
    }
    let mut command = program(&executable.to_string_lossy(), []);
    as_cargo_runs(&mut command, package)?;
    if part == Part::Lab {
        // A lab that cannot start is a failure here, not something to pass over.
        command.env("KUMIKI_LAB", "required");
    }
    let name = format!("{} {name}", package.name);
    Ok(Some(Job { name, command, alone, seconds: seconds.unwrap_or_default() }))
}

/// The job that runs a program's ignored tests, if it has any.
fn long_job(built: &Built<'_>) -> Result<Option<Job>> {
    if !matches!(built.part, Part::Workspace | Part::Lab | Part::Capi | Part::Peers) {
        return Ok(None);
    }
    let words = ["--ignored", "--skip", FOR_A_MACHINE];
    let mut list = program(&built.executable.to_string_lossy(), words);
    let list = list.args(["--list", "--format", "terse"]).output()?;
    if !list.stdout.ends_with(b": test\n") {
        return Ok(None);
    }
    let mut command = program(&built.executable.to_string_lossy(), words);
    as_cargo_runs(&mut command, built.package)?;
    command.env("KUMIKI_LAB", "required");
    let name = format!("{} {}, long ones", built.package.name, built.name);
    Ok(Some(Job { name, command, alone: true, seconds: 0 }))
}

/// Folder and variables of a test that cargo runs.
fn as_cargo_runs(command: &mut Command, package: &Package) -> Result<()> {
    let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    command.env("CARGO_PKG_NAME", package.name.as_str());
    command.env("CARGO_PKG_VERSION", package.version.to_string());
    command.env("CARGO", cargo("").get_program());
    Ok(())
}

fn said(package: &Package) -> Result<Kumiki> {
    Kumiki::of(package).map_err(|fault| anyhow!(fault))
}
