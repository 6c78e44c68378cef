//! Test programs of the parts that place threads on cpus, in machines of the lab that have more
//! cpus than people have at hand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::run::{program, run, target_folder};

use super::job::Job;

/// Sizes of the machines. Half of the cpus is in each of two sockets and NUMA nodes, and two are
/// the threads of a core.
const CPUS: [usize; 2] = [8, 16];

/// Tests for which emulation takes minutes: a million hand-overs or requests, each a change of thread
/// of the emulator's, which `cargo xtask stress` has, or a thousand engines of sixteen threads, or
/// those that ask processes that have five seconds for an answer. And one that reads its own
/// sources, and one that needs a file system that does not refuse RWF_NOWAIT.
const NOT_EMULATED: [&str; 6] = [
    "a_million_handoffs",
    "stress::each_request_is_made_once",
    "where_the_kernel_gives_no_thread_nothing_waits_for_one",
    "published::",
    "every_type_that_operations_take_from_rustix",
    "a_file_system_that_refuses_is_left_alone_and_others_are_tried",
];

/// Jobs that run these programs, one after the other, in a machine of each size. Of `spawn` only
/// what needs a machine of its own: the rest needs Debian's programs, and not many cpus.
pub(super) fn jobs(programs: &[PathBuf]) -> Result<Vec<Job>> {
    let folder = target_folder()?.join("many-cpus");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut names = Vec::new();
    for path in programs {
        let name = path.file_name().context("a program has a name")?.to_string_lossy();
        let bare = folder.join(&*name);
        // A machine's files are in its memory, and four fifths of a program is for a debugger.
        run(&mut program("strip", ["-o", &*bare.to_string_lossy(), &*path.to_string_lossy()]))?;
        names.push(name.into_owned());
    }
    Ok(CPUS.map(|cpus| job(cpus, &folder, &names)).into())
}

fn job(cpus: usize, folder: &Path, names: &[String]) -> Job {
    let (half, cores, last) = (cpus / 2, cpus / 4, cpus - 1);
    let shape = format!(
        "-cpu max,vendor=GenuineIntel,l3-cache=on -smp {cpus},sockets=2,cores={cores},threads=2 \
         -object memory-backend-ram,id=m0,size=1G -object memory-backend-ram,id=m1,size=1G \
         -numa node,nodeid=0,cpus=0-{},memdev=m0 -numa node,nodeid=1,cpus={half}-{last},memdev=m1",
        half - 1,
    );
    let mut words = format!("lab run --kernel 6.12 --memory 2G --timeout 2400 --cpus {cpus}");
    // Its switches may be set: the machine is the tests' own.
    words += " --env KUMIKI_OWN_MACHINE=1 --env CARGO_MANIFEST_DIR=/root";
    for word in shape.split_whitespace() {
        words += &format!(" --qemu={word}");
    }
    let ins: Vec<String> =
        names.iter().map(|name| folder.join(name).to_string_lossy().into_owned()).collect();
    let kumiki = folder.with_file_name("debug/kumiki");
    let mut command = program(&kumiki.to_string_lossy(), words.split_whitespace());
    for path in &ins {
        command.args(["--in", path]);
    }
    let skips = NOT_EMULATED.map(|test| format!(" --skip {test}")).concat();
    let script = format!(
        "mkdir -p {}; bad=0; for program in {}; do echo \"# $program\"; \
         case $program in spawn-*) only=\"refused:: nodes::\" ;; *) only= ;; esac; \
         ./$program{skips} $only \"$@\" || bad=1; done; exit $bad",
        // Where tests have their files, which is told to them when they are built.
        folder.with_file_name("tmp").display(),
        names.join(" ")
    );
    command.args(["--", "sh", "-c", &script, "sh"]);
    Job { name: format!("on {cpus} cpus"), command, alone: true, seconds: 0 }
}
