//! Libraries for aarch64, for which they promise to compile: checked on x86-64, and tests of those that need
//! nothing that it lacks run under QEMU's user emulation.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::debian;
use crate::run::{cargo, program, read, run};

const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Crates whose tests it runs.
const PACKAGES: &str = "--package kumiki-sys --package kumiki-wait --package kumiki-slot \
    --package kumiki-calls --package kumiki-spawn-wire --package kumiki-crew --package kumiki-shadow \
    --package kumiki-stream";
/// Crates that are compiled only: their tests take minutes in it, fork, or put filters on, or start programs that need
/// a kernel of their own.
const COMPILED: &str = "--package kumiki-copy --package kumiki-parasc --package kumiki-resource \
    --package kumiki-spawn --package kumiki-tokio --package kumiki-places --package kumiki-journal \
    --package kumiki-metrics --package kumiki-capi --package kumiki-capi-places --package kumiki-du \
    --package kumiki-httpd --package kumiki-kv --package kumiki-ab --package kumiki-cli";
/// Test programs that are for it, too.
const PROGRAMS: &str = "--lib --test topology --test wait";
/// Tests in them that it cannot run.
const NOT_EMULATED: [&str; 11] = [
    // It makes a million calls, each of which the emulator translates.
    "allow::tests::every_name_of_the_table_can_be_allowed_alone",
    // They start themselves again, which takes the emulator.
    "here::tests::without_a_registration",
    "signals::tests::a_child_is_waited_for_where_its_signal_was_ignored",
    // They start themselves anew, or put seccomp filters on.
    "process::",
    // It says yes to madvise(2) and does nothing. MADV_WIPEONFORK clears no page in children, …
    "fork::tests::children_are_other_processes",
    // … so a child takes its parent's lock for its own and waits for it for ever. No page is populated.
    "roll::tests::a_child_of_fork_begins_anew",
    "shm::anon::tests::populated_memory_is_resident_and_zero",
    "shm::anon::tests::transparent_pages_are_asked_for_at_a_fitting_address",
    // /proc/self/statm has all that the emulator maps for itself.
    "shm::anon::tests::alignment_leaves_no_address_space_behind",
    // It keeps no list of robust mutexes, so that nobody hears of a thread's death.
    "life::tests::",
    // A doze gives way after a millisecond, in which the emulator may not have
    // translated the code yet. Only x86-64 dozes.
    "waiter::tests::",
];

/// Emulator that runs the tests: nothing where they cannot be had, which is said.
pub(crate) fn tests() -> Vec<Command> {
    if !has_target() {
        return Vec::new();
    }
    if let Err(error) = debian::install("aarch64") {
        skipped(&format!("{error:#}"));
        return Vec::new();
    }
    let skips = NOT_EMULATED.map(|test| format!(" --skip {test}")).concat();
    let mut command = cargo(&format!(
        "test --target {TARGET} {PACKAGES} {PROGRAMS} --locked --no-fail-fast --{skips}"
    ));
    // Not in .cargo/config.toml, where they would bind an aarch64 machine, too.
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    let runner = "qemu-aarch64-static -L /usr/aarch64-linux-gnu";
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    vec![command]
}

/// Checks the sources as they are compiled there.
pub(crate) fn clippy() -> Result<()> {
    if !has_target() {
        return Ok(());
    }
    let clippy = |what: &str| {
        let mut command =
            cargo(&format!("clippy --target {TARGET} {what} --locked -- -D warnings"));
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        run(&mut command)
    };
    clippy(&format!("{PACKAGES} --all-targets"))?;
    clippy(COMPILED)
}

/// Whether Rust can compile for it, if need be after fetching what that takes.
fn has_target() -> bool {
    let there = || {
        let mut library = program("rustc", ["--print", "target-libdir", "--target", TARGET]);
        read(&mut library).is_ok_and(|folder| Path::new(folder.trim()).is_dir())
    };
    if there() {
        return true;
    }
    let added = run(&mut program("rustup", ["target", "add", TARGET])).is_ok() && there();
    if !added {
        skipped(&format!(
            "Rust's library for {TARGET} is not installed, and rustup did not add it"
        ));
    }
    added
}

fn skipped(reason: &str) {
    eprintln!("skipped: libraries for aarch64: {reason}");
}
