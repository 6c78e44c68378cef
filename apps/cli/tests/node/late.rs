//! A line that does not end: what the host and its nodes were at, so that a record of a test is
//! enough to see why.

use std::time::Duration;

use kumiki_lab::{Error, Machine, Output};

/// A line that takes longer hangs. `xtask test` has more patience with a program of tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
const LOOK_LIMIT: Duration = Duration::from_secs(60);
const LOG_LINES: usize = 200;

/// Each part by itself and with a limit: what hangs may be what is asked.
const LOOK: &str = r#"
ps -o pid,stat,args
for task in $(grep -ls kumiki /proc/[0-9]*/task/*/comm); do
    task=${task%/comm}; echo "$task: $(cat $task/comm), system call $(cat $task/syscall)"
    cat $task/stack
done
timeout 10 kumiki node ls --json
for node in $(timeout 10 kumiki node ls | awk '{print $1, $2}'); do
    timeout 5 kumiki node logs $node 2> /dev/null | tail -n 40
done
echo w > /proc/sysrq-trigger; sleep 1
"#;

/// For lines: an address is reached within 20 s. A packet may be lost while a card is new, and busybox' ping
/// sends as many as are counted.
const REACHED: &str =
    "reached() { for n in $(seq 10); do ping -c 1 -W 2 $1 && return; done; false; }";

/// Runs a line of shell, which has to end in [`LIMIT`].
pub(crate) fn in_time(machine: &Machine, line: &str) -> Output {
    let script = format!("{REACHED}\n{line}");
    let command = machine.command("sh").args(["-c", &script]).time_limit(LIMIT);
    match command.output() {
        Ok(output) => output,
        Err(error @ Error::TimeLimit { .. }) => panic!("{error}\n{}", look(machine)),
        Err(error) => panic!("{line}: {error}\n{}", log(machine)),
    }
}

/// What runs there, where in the kernel it waits, and the ends of all logs.
fn look(machine: &Machine) -> String {
    let mut said = Vec::new();
    let looked = machine.command("sh").args(["-c", LOOK]).time_limit(LOOK_LIMIT).spawn();
    let looked = looked.and_then(|looking| {
        let mut errors = Vec::new();
        looking.pass(std::io::empty(), &mut said, &mut errors)
    });
    let failed = looked.err().map_or(String::new(), |error| error.to_string());
    format!("{}{failed}\n{}", String::from_utf8_lossy(&said), log(machine))
}

/// The end of the kernel's log, which a machine has that no longer answers.
fn log(machine: &Machine) -> String {
    let log = machine.guest().log_text();
    let from = log.lines().count().saturating_sub(LOG_LINES);
    let log: Vec<_> = log.lines().skip(from).collect();
    format!("kernel log:\n{}", log.join("\n"))
}
