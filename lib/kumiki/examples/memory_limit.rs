//! Starts a program that may use so much memory and no more. Feature `spawn`.
//!
//! ```console
//! $ cargo run -p kumiki --features spawn --example memory_limit -- 64 sh -c 'ulimit -v'
//! ```

use std::env;
use std::error::Error;
use std::process::ExitCode;

use kumiki::spawn::{Command, Resource};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = env::args_os().skip(1);
    let (Some(mib), Some(program)) = (words.next(), words.next()) else {
        return Err("usage: memory_limit MIB PROGRAM [ARGUMENT]...".into());
    };
    let mib: u64 = mib.to_str().ok_or("MIB is a number")?.parse()?;
    let bytes = mib.checked_mul(1 << 20).ok_or("MIB is too large")?;

    // The address space of each process by itself. `cgroup` begins it in a cgroup of yours, whose
    // `memory.max` holds for the child and all that it starts, together.
    let status =
        Command::new(program).args(words).limit(Resource::As, Some(bytes), Some(bytes)).status()?;
    eprintln!("it ended with {status}");
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
