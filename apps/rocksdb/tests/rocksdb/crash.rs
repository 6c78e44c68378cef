//! kill -9 in the middle of synced writes: what was acknowledged is there.

use std::io::Read;
use std::process::Stdio;

use crate::built::{compiled, folder, well, with_library};

const WRITERS: usize = 3;

/// So many times.
fn killed(times: u32) {
    let (folder, program) = (folder(), compiled("crash"));
    let mut counts = [0_u64; WRITERS];
    let with = |counts: &[u64], writes: &str| {
        let mut command = with_library(&program);
        command.arg(folder.path()).args(["kumiki://", writes]);
        command.args(counts.iter().map(u64::to_string));
        command
    };
    for _ in 0..times {
        let mut command = with(&counts, "1000000");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut acknowledged = child.stdout.take().unwrap();
        let enough = fastrand::usize(1..600);
        let mut names = vec![0; enough];
        // Fewer: it has ended by itself, and says why.
        let read = acknowledged.read_exact(&mut names);
        child.kill().unwrap();
        // What it had acknowledged until then.
        acknowledged.read_to_end(&mut names).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(read.is_ok(), "{}", String::from_utf8_lossy(&output.stderr));
        for name in names {
            counts[usize::from(name - b'0')] += 1;
        }
    }
    well(&mut with(&counts, "0"));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn after_kills_all_that_was_acknowledged_is_there() {
    killed(3);
}

#[test]
#[ignore = "a minute: `cargo xtask test long`, after a change to writable_file.cc"]
fn after_many_kills_all_that_was_acknowledged_is_there() {
    killed(60);
}
