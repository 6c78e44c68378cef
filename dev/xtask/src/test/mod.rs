//! `cargo xtask test`: every test of the workspace, the models of its protocols, and
//! what is promised for aarch64; or a part of them.
//!
//! The workspace's test programs are built at once, then run as many at a time as there
//! are cpus; then those that bind cpus or count time, one after the other.

use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use anyhow::{Result, bail};
use cargo_metadata::{Package, Target, TargetKind};

use crate::part::Part;
use crate::run::{self, cargo, everything, everything_of};
use crate::{aarch64, capi, debian, loom, sim};

mod build;
mod cpus;
mod job;
mod libtest;
mod pool;
mod room;
mod summary;

use job::Job;
use summary::Summary;

/// Installs what the tests need, runs them, and prints a tally as the last line.
///
/// `filters` are handed to the test programs, which then run what has one in its name.
pub(crate) fn test(part: Option<Part>, filters: &[String]) -> Result<ExitCode> {
    let parts = part.map_or(Part::ALL.to_vec(), Part::parts);
    let door = part.filter(|part| part.door().is_some());
    if let Some(sentence) = room::missing()? {
        bail!(sentence);
    }
    for part in &parts {
        part.install()?;
    }
    if parts.contains(&Part::Long) {
        Part::Capi.install()?;
        Part::Workspace.install()?;
        Part::Peers.install()?;
        debian::install("clients")?;
        if let Err(error) = debian::install("long") {
            // The test that needs it says that it is skipped.
            eprintln!("PyTorch cannot be had here: {error:#}");
        }
    }
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    // Fetching what aarch64 needs may take minutes, of the network and not of a cpu.
    let cross = parts.contains(&Part::Cross).then(|| thread::spawn(aarch64::tests));
    let mut jobs = commands(&parts, door)?;
    if parts.iter().any(|part| part.has_programs()) {
        jobs.extend(build::programs(&parts, door)?);
    }
    if filters.is_empty() && parts.iter().any(|part| part.has_tests_of_libkumiki()) {
        // Else the first test that installs it would build it within its own time.
        capi::build("release")?;
    }
    let cross = cross.map_or(Vec::new(), |thread| thread.join().expect("it does not panic"));
    // Its own command line has no place in a summary.
    let named = |command| Job { name: "aarch64".to_owned(), ..Job::from(command) };
    jobs.extend(cross.into_iter().map(named));
    for job in &mut jobs {
        job.pass_on(cpus, filters);
    }

    let mut summary = Summary::default();
    pool::run(jobs, cpus, |job: &Job| job.run(cpus), |job, outcome| summary.add(job, outcome));
    print!("{}", summary.text());
    if let Some(sentence) = room::missing()?.filter(|_| !summary.good()) {
        println!("{sentence}: what failed may have failed for that\n");
    }
    if part.is_none() {
        eprintln!("`cargo xtask test fresh` does all of it in a Debian as new");
    }
    println!("{}", summary.tally());
    Ok(if summary.good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the parts are that cargo builds and runs by itself. They take long, so they are
/// first.
fn commands(parts: &[Part], door: Option<Part>) -> Result<Vec<Job>> {
    let chosen = |package: &Package| door.is_none_or(|of| of.door() == Some(&run::door(package)));
    let mut jobs = Vec::new();
    for part in parts {
        match part {
            Part::Loom => {
                jobs.extend(loom::commands(chosen)?.into_iter().map(Job::from));
                jobs.extend(sim::commands(chosen)?.map(Job::from));
            }
            Part::Doc => {
                let library = |package: &Package| {
                    let kinds = [TargetKind::Lib, TargetKind::RLib];
                    let is = |target: &Target| {
                        target.doctest && kinds.iter().any(|k| target.kind.contains(k))
                    };
                    chosen(package) && package.targets.iter().any(is)
                };
                let what = match door {
                    None => everything()?,
                    Some(_) => everything_of(library)?,
                };
                let words = format!("test --doc {what} --locked --no-fail-fast");
                jobs.push(Job { name: "documentation".to_owned(), ..Job::from(cargo(&words)) });
            }
            _ => {}
        }
    }
    Ok(jobs)
}
