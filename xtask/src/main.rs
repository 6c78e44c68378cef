//! The project's own chores, run as `cargo xtask CHORE`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod aarch64;
mod bench;
mod capi;
mod debian;
mod deny;
mod kmod;
mod lab;
mod layers;
mod lint;
mod loom;
mod run;
mod stress;
mod test;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs every test; installs the Debian packages that the tests need
    Test,
    /// Checks format, clippy, layers, documentation, licences
    Lint,
    /// Checks the protocols between threads under every interleaving
    Loom,
    /// Does one thing so often that what is rare happens
    Stress {
        /// What to do
        #[command(subcommand)]
        name: stress::Name,
    },
    /// Measures a part as a user runs it and checks what it promises
    Bench {
        /// What to measure
        name: bench::Name,
        /// Writes the rows to this file as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Checks the promises; of `measure` the long ones too (some minutes more)
        #[arg(long)]
        check: bool,
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
    },
    /// Builds libkumiki for C and C++ and installs it with headers and
    /// pkg-config file
    Capi {
        /// Installs below this folder, which is made if need be
        #[arg(long, value_name = "DIR")]
        prefix: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test => test::test(),
        Chore::Lint => lint::lint(),
        Chore::Loom => loom::loom(),
        Chore::Stress { name } => stress::stress(name),
        Chore::Bench { name, json, check } => bench::bench(name, json.as_deref(), check),
        Chore::Kmod { kernels } => kmod::kmod(&kernels),
        Chore::Lab { tests } => lab::lab(&tests),
        Chore::Capi { prefix } => capi::capi(&prefix),
    };
    // Not through main's result: that adds a backtrace where one is asked for,
    // and what failed here is another program.
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
