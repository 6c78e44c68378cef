//! `cargo xtask stress NAME`: one thing so often that what is rare happens.

mod drawn;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::run::{cargo, program, run, target_folder};

/// Everything that can be stressed.
#[derive(Debug, Subcommand)]
pub(crate) enum Name {
    /// Two threads wake each other while falling asleep; is a wake-up lost?
    Wait {
        /// How often
        #[arg(long, default_value_t = 100_000_000)]
        handoffs: u64,
    },
    /// Parallel system calls of random kinds, sizes and threads; is one lost,
    /// made twice, or answered wrongly?
    Parasc {
        /// How many [default: 100000000; 1000000 by the backend kernel, twice]
        requests: Option<u64>,
        /// By one backend alone: user, or kernel, in a machine of the lab, at first
        /// as it is and then with the moments around each claim made long
        #[arg(long)]
        backend: Option<String>,
    },
    /// Random programs of ioctls and calls, from random threads with signals, against the module
    /// `parasc` in machines of the lab: does one not end, or is the kernel not well after it?
    ParascKernel(drawn::Drawn),
    /// Random operations on resources, with managers killed, functions that panic and
    /// limits reached; against a model
    Resource {
        /// How many
        #[arg(default_value_t = 10_000_000)]
        operations: u64,
    },
    /// Calls of places on other machines while the line is cut ten times and their place killed ten times:
    /// is one lost, or does one have its effect twice? 10^5 of them; while two places of one name find each other
    /// fifty times; and while a durable place is killed a hundred times
    Places,
    /// A thousand places with a hundred thousand names, behind one server and behind a cluster: traffic,
    /// memory, and how soon a death is noticed
    Scale,
    /// Processes made by spawn servers that are killed meanwhile: is one lost, or run twice,
    /// or something left behind?
    Spawn {
        /// How many
        #[arg(default_value_t = 100_000)]
        spawns: u64,
    },
}

const KERNEL: &str = "kernel";
/// The example draws from this backend alone.
const BACKEND: &str = "KUMIKI_STRESS_BACKEND";

/// In a shell of the machine; the module can be unloaded after it, so nothing is left inside.
const INSIDE: &str = "set -e; ./stress $N; echo 2000 > /sys/module/parasc/parameters/widen_ns; \
                      ./stress $N; cat /sys/module/parasc/parameters/calls_made; rmmod parasc";

/// Makes the requests in a machine of the lab, whose kernel's log is searched after it.
fn inside(requests: u64) -> Result<ExitCode> {
    let packages = "--package kumiki-cli --package kumiki-parasc";
    run(&mut cargo(&format!(
        "build --quiet --release --locked {packages} --bins --example stress"
    )))?;
    let programs = target_folder()?.join("release");
    let example = programs.join("examples/stress");
    let mut lab = program(&programs.join("kumiki").to_string_lossy(), ["lab", "run"]);
    lab.args(["--module", "parasc", "--cpus", "4", "--env", &format!("{BACKEND}={KERNEL}")]);
    lab.args(["--env", &format!("N={requests}"), "--in"]).arg(&example);
    lab.args(["--", "sh", "-c", INSIDE]);
    run(&mut lab)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs it in release form; what goes wrong is on stderr.
pub(crate) fn stress(name: Name) -> Result<ExitCode> {
    let words = match name {
        Name::Wait { handoffs } => {
            format!("run --package kumiki-wait --example handoffs -- {handoffs}")
        }
        Name::Parasc { requests, ref backend } if backend.as_deref() == Some(KERNEL) => {
            return inside(requests.unwrap_or(1_000_000));
        }
        Name::ParascKernel(ref asked) => return drawn::drawn(asked),
        Name::Parasc { requests, .. } => {
            let requests = requests.unwrap_or(100_000_000);
            format!("run --package kumiki-parasc --example stress -- {requests}")
        }
        // It runs in the tests, too, with fewer.
        Name::Resource { .. } => {
            "test --package kumiki-resource --test stress -- --nocapture".to_owned()
        }
        Name::Places => "test --package kumiki-places --test places -- --ignored --nocapture \
                         a_hundred_thousand_calls healed_fifty_times killed_a_hundred_times taken_over_a_hundred_times \
                         moved_a_hundred_times nor_is_it_two"
            .to_owned(),
        Name::Scale => "test --package kumiki-places --test places -- --ignored --nocapture \
                        a_thousand_places"
            .to_owned(),
        Name::Spawn { .. } => "test --package kumiki-spawn --test stress -- --nocapture".to_owned(),
    };
    let (verb, rest) = words.split_once(' ').expect("a verb comes first");
    let mut cargo = cargo(&format!("{verb} --quiet --release --locked {rest}"));
    match name {
        Name::Resource { operations } => {
            cargo.env("KUMIKI_STRESS_OPERATIONS", operations.to_string());
        }
        Name::Parasc { backend: Some(backend), .. } => {
            cargo.env(BACKEND, backend);
        }
        Name::Spawn { spawns } => _ = cargo.env("KUMIKI_STRESS_SPAWNS", spawns.to_string()),
        _ => {}
    }
    run(&mut cargo)?;
    Ok(ExitCode::SUCCESS)
}
