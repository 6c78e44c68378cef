//! The server in a container, as far as that refuses system calls.

use std::collections::BTreeMap;
use std::fs::File;

use rustix::fs::{Advice, fadvise};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use super::scene::Server;

/// Has this thread, and what it starts, get this for these system calls.
fn refuse(calls: &[i64], action: SeccompAction) {
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Docker's default profile refuses these, among others; here io_uring's end the program, so
/// that it is seen to ask for none.
fn confine() {
    let uring = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    let refused = [
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_mount,
        libc::SYS_perf_event_open,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_userfaultfd,
    ];
    refuse(&uring, SeccompAction::KillProcess);
    refuse(&refused, SeccompAction::Errno(libc::EPERM as u32));
    // So that the C library takes clone(2), whose flags a filter can see.
    refuse(&[libc::SYS_clone3], SeccompAction::Errno(libc::ENOSYS as u32));
}

#[test]
fn it_serves_under_a_filter_as_dockers() {
    const FILES: usize = 40;
    let content = |at: usize| vec![at as u8; 100_000 + at];
    let start = move || {
        confine();
        Server::start_with(&[], |folder| {
            for at in 0..FILES {
                std::fs::write(folder.join(at.to_string()), content(at)).unwrap();
            }
        })
    };
    let server = std::thread::spawn(start).join().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    assert!(status.lines().any(|line| line == "Seccomp:\t2"), "{status}");
    for is_cold in [true, false] {
        for at in 0..FILES {
            if is_cold {
                let file = File::open(server.path(&at.to_string())).unwrap();
                file.sync_all().unwrap();
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let answer = server.get(&format!("/{at}"), "");
            assert!(answer.status == 200 && answer.body == content(at), "{at}");
        }
    }
}
