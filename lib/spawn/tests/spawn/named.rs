//! Processes as resources.

use std::io::Read;

use kumiki_resource::{Builder, Interface, Pattern};
use kumiki_spawn::{Command, Process, Stdio};
use kumiki_sys::affinity;

use crate::faults::servers;

fn of_all_cpus() -> Interface {
    Builder::new().kind::<Process>().per_core().unwrap()
}

fn of_one_cpu() -> Interface {
    let one = affinity::current().unwrap().first();
    Builder::new().kind::<Process>().cores(one).per_core().unwrap()
}

#[test]
fn a_process_is_made_and_waited_for_by_name() {
    for interface in [of_all_cpus(), of_one_cpu()] {
        let place = interface.places()[0];
        let mut command = Command::new("sh");
        command.args(["-c", "exit 5"]);
        interface.create::<Process>(place, Some("worker"), command).unwrap();
        let name = interface.ls(&Pattern::new("*/process/worker").unwrap()).unwrap();
        assert_eq!(name.len(), 1);
        assert!(name[0].about.state.starts_with("pid "), "{:?}", name[0]);
        let worker = interface.open::<Process>(&name[0].name.parse().unwrap()).unwrap();
        assert_eq!(Process::wait(&interface, &worker).unwrap().code(), Some(5));
        assert_eq!(Process::wait(&interface, &worker).unwrap().code(), Some(5));

        let missing = Command::new("/no/such/program");
        let error = interface.create::<Process>(place, None, missing).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");

        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        let sleeper = interface.create::<Process>(place, None, sleep).unwrap();
        let id = interface.with(&sleeper, |process, _| process.child().id()).unwrap();
        let id = rustix::process::Pid::from_raw(id as i32).unwrap();
        interface.destroy(sleeper).unwrap();
        assert!(rustix::process::test_kill_process(id).is_err(), "it is gone, and waited for");
    }
}

/// A manager's own signals are blocked; its children's are not.
#[test]
fn a_process_is_ended_by_signals_that_its_place_blocks() {
    for interface in [of_all_cpus(), of_one_cpu()] {
        let made = |mask: &[i32]| {
            let mut grep = Command::new("grep");
            grep.args(["SigBlk", "/proc/self/status"]).stdout(Stdio::piped());
            if !mask.is_empty() {
                grep.signal_mask(mask.iter().copied());
            }
            let process = interface.create::<Process>(interface.places()[0], None, grep).unwrap();
            let mut stdout = interface
                .with(&process, |process, _| process.child().stdout.take().unwrap())
                .unwrap();
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            interface.destroy(process).unwrap();
            u64::from_str_radix(text.trim_start_matches("SigBlk:").trim(), 16).unwrap()
        };
        assert_eq!(made(&[]), 0);
        assert_eq!(made(&[libc::SIGUSR1]), 1 << (libc::SIGUSR1 - 1));
    }
}

/// A server for each place that has made a process, which ends with the interface.
#[test]
fn each_place_has_a_server_of_its_own() {
    crate::child::in_a_child("named::each_place_has_a_server_of_its_own", || {
        let of = |interface: Interface| {
            let places = interface.places().to_vec();
            for place in places.iter().chain(&places) {
                let worker = interface.create::<Process>(*place, None, Command::new("true"));
                Process::wait(&interface, &worker.unwrap()).unwrap();
            }
            (servers().len(), places.len())
        };
        let (servers_of_cores, places) = of(of_all_cpus());
        assert_eq!(servers_of_cores, places);
        assert_eq!(servers(), [] as [i32; 0]);
        assert_eq!(of(of_one_cpu()).0, 1);
        assert_eq!(servers(), [] as [i32; 0]);
    });
}
