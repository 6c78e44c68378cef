//! The project's own chores, run as `cargo xtask CHORE`.
#![forbid(unsafe_code)]

#[cfg(not(feature = "bench"))]
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(not(feature = "bench"))]
use anyhow::Context;
use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use kumiki_ship::fresh::Release;
use kumiki_ship::{self as ship, capi, debian, docs, fresh, msrv, package, release, run, tool};
use part::Part;

mod aarch64;
mod arm64;
#[cfg(feature = "bench")]
mod bench;
mod bools;
mod chains;
mod deny;
mod documents;
mod doors;
mod errors;
mod falling;
mod features;
mod figures;
mod first_lines;
mod interfaces;
mod kmod;
mod layers;
mod lint;
mod loom;
mod manifest;
mod modules;
mod part;
mod picture;
mod python;
mod secrets;
mod sim;
mod soak;
mod stress;
mod test;
mod wakes;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs every test, or a part; installs the Debian packages that the tests need
    Test {
        /// Which part
        part: Option<Part>,
        /// Of `fresh`, `deb`, `source` and `python`: the release of Debian; both if none is given
        #[arg(long, value_name = "RELEASE")]
        debian: Option<Release>,
        /// Only tests that have one of these in their name
        #[arg(last = true, value_name = "FILTER")]
        filters: Vec<String>,
    },
    /// Checks format, clippy, layers, circles of modules, documents, licences
    Lint {
        /// Only these checks; all if none is given
        checks: Vec<String>,
    },
    /// Checks the protocols between threads under every interleaving
    Loom,
    /// Counts the lines that the protocols between threads move, on simulated machines of 2 to 256 cpus
    Sim(sim::Sim),
    /// Does one thing so often that what is rare happens
    Stress {
        /// What to do
        #[command(subcommand)]
        name: stress::Name,
    },
    /// Runs a server or a library under mixed clients and drawn faults, and checks every answer
    Soak(soak::Soak),
    /// Measures a part as a user runs it and checks what it promises
    Bench {
        /// What to measure
        name: Bench,
        /// Writes the rows to this file as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Checks the promises; of `measure` the long ones too (some minutes more)
        #[arg(long)]
        check: bool,
        /// Of `shadow`: in turns with another commit, and how much slower or faster than that
        #[arg(long, value_name = "COMMIT", conflicts_with = "check")]
        against: Option<String>,
        /// Of `resource`, or with `--against`: these cases only
        #[arg(long = "case", value_name = "CASE")]
        cases: Vec<String>,
        #[command(flatten)]
        slice: Slice,
    },
    /// Prints the README's tables of figures, from dev/bench/figures.toml
    Figures {
        /// Puts them into the README
        #[arg(long)]
        write: bool,
    },
    /// Draws the README's pictures: of the page that `kumiki report` writes, or of teams on many cpus
    Picture {
        /// Draws this page [default: that of a quiet machine's result, shipped as a reference]
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
        /// Draws docs/many-cpus.svg, of what was predicted and what was measured
        #[arg(long, conflicts_with = "page")]
        many: bool,
    },
    /// Builds the kernel modules for stock kernels
    Kmod {
        /// Kernels by the names that `kumiki lab` knows [default: 6.1 6.12]
        #[arg(value_name = "KERNEL")]
        kernels: Vec<kumiki_lab::KernelName>,
    },
    /// Runs the tests that start machines of their own
    Lab {
        /// Words of the tests' names [default: all]
        #[arg(value_name = "TEST")]
        tests: Vec<String>,
        /// Those of system calls inside the kernel, on a kernel that looks for its own faults, which
        /// is built first: half an hour or more, once; 6.1-debug, 6.12-debug, 6.1-kcsan or 6.12-kcsan
        #[arg(long, value_name = "KERNEL", num_args = 0..=1, require_equals = true,
              default_missing_value = kmod::DEBUG_KERNEL)]
        debug_kernel: Option<kumiki_lab::KernelName>,
    },
    /// Builds libkumiki for C and C++ and installs it with headers and
    /// pkg-config file
    Capi {
        #[command(flatten)]
        place: capi::Place,
        /// Built by this profile: `release` is quick to build, and slower
        #[arg(long, value_name = "PROFILE", default_value = ship::install::PROFILE)]
        profile: String,
        /// The library of places instead, libkumiki-places, which has NATS in it
        #[arg(long)]
        places: bool,
    },
    /// Packs the crates that are published, builds them outside of the workspace, and runs the
    /// README's first program on them
    Package {
        /// Runs the tests of these crates there, too
        #[arg(value_name = "CRATE")]
        tests: Vec<String>,
        /// Fails where a maintainer has yet to fill in a name or an address
        #[arg(long)]
        release: bool,
    },
    /// Builds the programs and libkumiki and installs them with manual pages, completions,
    /// units and the modules' sources
    Install(capi::Place),
    /// Makes a tarball of that for any x86-64 Linux with this glibc or a newer one, a wheel for
    /// Python, and their checksums
    Dist {
        /// Makes a tarball of static programs for any x86-64 Linux instead, tried in a root with nothing else
        #[arg(long)]
        musl: bool,
        /// Processor that `--musl` and `--wheel` make it for; what is for aarch64 is tried in an emulator
        #[arg(long, value_name = "ARCH")]
        arch: Option<ship::arch::Arch>,
        /// Makes and tries the wheel alone, which takes some minutes; with `--musl` that of musl
        #[arg(long)]
        wheel: bool,
    },
    /// Builds Debian's packages without network, and their source package, and has lintian judge both
    Deb,
    /// Tries a release: notes, crates in order against the registry, what the other chores have made and its
    /// sums; says what is left for a person with the key
    Release {
        /// Only writes the names and addresses of release.toml to where they are read
        #[arg(long)]
        fill: bool,
        /// Makes all that is shipped first: packed crates, tarballs, wheels, packages, the site
        #[arg(long, conflicts_with = "fill")]
        make: bool,
    },
    /// Makes the documents into a site with search, and checks every link in it
    Docs,
}

/// Of `verdicts`: a part of a long collection.
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "bench"), allow(dead_code))]
struct Slice {
    /// Of `verdicts`: begin nothing after so many minutes
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    minutes: f64,
    /// Of `verdicts`: keep runs and comparisons in this folder, and count those that are there
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Of `verdicts`: compare runs as `kumiki measure` makes them, of four minutes each,
    /// instead of those of --quick
    #[arg(long)]
    default_runs: bool,
    /// Of `verdicts`: compare runs of five cases and a few seconds each: two hundred pairs take an hour
    #[arg(long, conflicts_with = "default_runs")]
    short_runs: bool,
}

/// Every bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bench {
    /// `kumiki measure` and `kumiki report`: time, memory, repeatability
    Measure,
    /// Fork and join, sums and copies beside their peers, and the promises
    Shadow,
    /// System calls in batches, and `du`, beside their peers, and the promises
    Parasc,
    /// OS nodes in a machine of the lab: loads, starts, programs in them, memory
    Node,
    /// System calls inside the kernel in machines of the lab, and the promises
    Lab,
    /// 4 KiB memory and calls between cores beside their peers, and the promises
    Resource,
    /// Cached and cold reads from tokio, static files, beside their peers, and the promises
    Servers,
    /// `kumiki compare` and `kumiki ab`: how often they are wrong, beside other rules
    Verdicts,
    /// Programs on a slow disk, with calls asked ahead and without, and the promises; root only
    Ahead,
    /// Many files and warm workers from Python, and the promises; what is slow as root only
    Python,
}

#[cfg(feature = "bench")]
use bench::bench;

/// Runs xtask with what only a bench needs.
#[cfg(not(feature = "bench"))]
fn bench(
    _: Bench,
    _: Option<&Path>,
    _: bool,
    _: Option<&str>,
    _: &[String],
    _: &Slice,
) -> Result<ExitCode> {
    let mut again = run::cargo("run --quiet --package xtask --features bench --");
    // In the folder that a path among the arguments is meant from.
    again.args(std::env::args_os().skip(1)).current_dir(std::env::current_dir()?);
    let status = again.status().context("cannot run xtask again")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn main() -> ExitCode {
    let chore = Cli::parse().chore;
    let outcome =
        run::moved_from().map_or_else(|| carried_out(chore), |f| run::again_after_move(&f));
    // Not through main's result: that adds a backtrace where one is asked for,
    // and what failed here is another program.
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn carried_out(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Test { part: Some(Part::Fresh), debian, .. } => fresh::fresh(debian),
        Chore::Test { part: Some(Part::Deb), debian, .. } => ship::deb_test::test(debian),
        Chore::Test { part: Some(Part::Source), debian, .. } => ship::source_test::test(debian),
        Chore::Test { part: Some(Part::Msrv), debian: None, .. } => msrv::test(),
        Chore::Test { part: Some(Part::Musl), debian: None, .. } => ship::musl::test(),
        Chore::Test { part: Some(Part::Arm64), debian: None, filters } => arm64::test(&filters),
        Chore::Test { part: Some(Part::Python), debian, .. } => python::test(debian),
        Chore::Test { debian: Some(_), .. } => Err(anyhow::anyhow!(
            "--debian is for `cargo xtask test fresh`, `deb`, `source` and `python` only"
        )),
        Chore::Test { part, filters, .. } => test::test(part, &filters),
        Chore::Lint { checks } => lint::lint(&checks),
        Chore::Loom => loom::loom(),
        Chore::Sim(asked) => sim::sim(&asked),
        Chore::Stress { name } => stress::stress(name),
        Chore::Soak(soak) => soak::soak(&soak),
        Chore::Bench { name, json, check, against, cases, slice } => {
            bench(name, json.as_deref(), check, against.as_deref(), &cases, &slice)
        }
        Chore::Figures { write } => figures::figures(write).map(|()| ExitCode::SUCCESS),
        Chore::Picture { many: true, .. } => picture::many(),
        Chore::Picture { page, .. } => picture::picture(page.as_deref()),
        Chore::Kmod { kernels } => kmod::kmod(&kernels),
        Chore::Lab { tests, debug_kernel: Some(kernel) } => {
            kmod::tested_on_debug_kernel(&kernel, &tests)
        }
        Chore::Lab { tests, .. } => test::test(Some(Part::Lab), &tests),
        Chore::Capi { place, profile, places } => capi::capi(place, &profile, places),
        Chore::Release { fill: true, .. } => release::release(release::Work::Fill),
        Chore::Release { make: true, .. } => release::release(release::Work::Make),
        Chore::Release { .. } => release::release(release::Work::Try),
        Chore::Package { tests, release } => package::package(&tests, release),
        Chore::Install(place) => ship::install::install(&place),
        Chore::Dist { musl: true, wheel: true, arch } => {
            ship::musl::wheel_alone(arch.unwrap_or_default())
        }
        Chore::Dist { musl: true, arch, .. } => ship::musl::dist(arch.unwrap_or_default()),
        Chore::Dist { wheel: true, arch, .. } => ship::dist::wheel_alone(arch.unwrap_or_default()),
        Chore::Dist { arch: Some(arch), .. } if arch != Default::default() => {
            Err(anyhow::anyhow!("dist --arch aarch64 is for --musl and --wheel"))
        }
        Chore::Dist { .. } => ship::dist::dist(),
        Chore::Deb => ship::deb::deb(),
        Chore::Docs => docs::docs(),
    }
}
