//! The kernel log: faults fail the command in whose time they fall, a panic is
//! reported with its reason.

use std::io;

use kumiki_lab::{Error, Machine};

use crate::{cache, config, is_lack, start, talk};

/// A machine of its own: its log is to have faults that are nobody else's.
#[test]
fn faults_fail_the_command_and_a_panic_ends_the_machine() {
    let Some(machine) = start("6.1") else { return };
    let shell = |script: &str| machine.command("sh").args(["-c", script]);
    let command = shell("echo said; echo 3 > /sys/module/kumiki_lab_test/parameters/warn");
    let mut said = Vec::new();
    let outcome = command.spawn().unwrap().pass(io::empty(), &mut said, io::sink()).unwrap();
    assert_eq!((outcome.exit.code(), said.as_slice()), (0, b"said\n".as_slice()));
    assert!(outcome.faults[0].contains("WARNING: CPU:"), "{:?}", outcome.faults);
    let error = shell("echo '<3>BUG: written by hand' > /dev/kmsg").output().unwrap_err();
    assert!(matches!(&error, Error::Faulty { lines } if lines.len() == 1), "{error}");
    assert!(error.to_string().contains("BUG: written by hand"), "{error}");
    assert!(shell("true").output().is_ok(), "the next command is not to blame");
    let kept = machine.keep_log().unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("BUG: written by hand"));

    let error = shell("echo c > /proc/sysrq-trigger").output().unwrap_err();
    let Error::Ended { reason, log } = &error else { panic!("{error}") };
    assert!(reason.contains("Kernel panic - not syncing: sysrq triggered crash"), "{reason}");
    assert!(log.len() > 10, "its end is shown: {log:?}");
    assert!(matches!(shell("true").output(), Err(Error::Ended { .. })));
}

/// What the kernel is told by `append` it knows, and a machine that cannot start
/// says why.
#[test]
fn a_machine_that_cannot_start_says_why() {
    let mut config = config();
    config.append.push("rdinit=/no/such/program root=/dev/none".to_owned());
    let error = Machine::start(&cache(), &config, talk()).expect_err("there is no such program");
    if is_lack(&error) {
        eprintln!("skipped: {error}");
        return;
    }
    let Error::NotStarted { reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("Kernel panic - not syncing"), "{reason}");
}
