//! Descriptors 0 to 2: each child has what the caller has at that moment, though a server
//! keeps those of the request before.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use kumiki_spawn::{Command, SpawnServer};

use crate::child::in_a_child;
use crate::faults::servers;
use crate::filter::{REFUSE, filter};

/// What a process has as its descriptors 0 to 2: files, offsets and flags of each.
type Standard = [Option<String>; 3];

/// FD_CLOEXEC, as /proc shows it among the flags: of the descriptor, not of what is open.
const CLOEXEC: u32 = libc::O_CLOEXEC as u32;

fn one(link: &str, info: &str) -> String {
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().to_owned()
    };
    let flags = u32::from_str_radix(&field("flags:"), 8).unwrap() & !CLOEXEC;
    format!("{link} at {} {flags:o}", field("pos:"))
}

/// As exec leaves them.
fn own() -> Standard {
    [0, 1, 2].map(|number| {
        let link = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap();
        // SAFETY: only asks.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } & libc::FD_CLOEXEC != 0 {
            return None;
        }
        Some(one(link.to_str().unwrap(), &info))
    })
}

/// What a child says of itself.
fn its(server: &mut Option<SpawnServer>) -> Standard {
    // Its own are those of the outer shell.
    const LOOK: &str = "(for n in 0 1 2; do if test -e /proc/$$/fd/$n
        then readlink /proc/$$/fd/$n; cat /proc/$$/fdinfo/$n; fi; echo =; done) >&9; :";
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    // Not at a number of those that are closed.
    let [mut reader, writer] =
        [OwnedFd::from(reader), writer.into()].map(|end| File::from(end.try_clone().unwrap()));
    let mut command = Command::new("sh");
    command.args(["-c", LOOK]).fd(writer, 9);
    let child = match server {
        Some(server) => command.spawn_by(server),
        None => command.spawn(),
    };
    assert!(child.unwrap().wait().unwrap().success());
    drop(command);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let mut parts = text.split("=\n");
    [0; 3].map(|_| {
        let (link, info) = parts.next()?.split_once('\n')?;
        Some(one(link, info))
    })
}

fn put(file: &File, number: RawFd) {
    // SAFETY: changes only this process, which is for this test alone.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
}

fn close(number: RawFd) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::close(number) }, 0);
}

fn flags(number: RawFd, command: i32, flags: i32) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::fcntl(number, command, flags) }, 0);
}

/// Changes what the caller has, one after the other, and tells what it had and what its
/// children had.
fn changes(
    folder: &Path,
    server: &mut Option<SpawnServer>,
) -> Vec<(&'static str, Standard, Standard)> {
    let file = |name: &str| {
        let path = folder.join(name);
        fs::write(&path, "text").unwrap();
        File::options().read(true).write(true).open(path).unwrap()
    };
    let [first, second] = ["first", "second"].map(file);
    let second_again = file("second");
    let changes: [(&str, &dyn Fn()); 12] = [
        ("as they were", &|| {}),
        ("other files", &|| [0, 1, 2].iter().for_each(|number| put(&first, *number))),
        ("one other file", &|| put(&second, 1)),
        ("the same file, opened again", &|| put(&second_again, 1)),
        ("another place in it", &|| assert_eq!((&second_again).read(&mut [0; 2]).unwrap(), 2)),
        ("other flags of the open file", &|| flags(1, libc::F_SETFL, libc::O_APPEND)),
        ("closed at exec", &|| flags(1, libc::F_SETFD, libc::FD_CLOEXEC)),
        ("the first one closed", &|| close(0)),
        ("all closed", &|| [1, 2].iter().for_each(|number| close(*number))),
        ("one is there again", &|| put(&second, 2)),
        ("all are", &|| [0, 1].iter().for_each(|number| put(&first, *number))),
        ("exchanged", &|| {
            put(&first, 2);
            put(&second, 0);
        }),
    ];
    let mut all = Vec::new();
    for (name, change) in changes {
        // The server has had those of before, and then these.
        let _ = its(server);
        change();
        all.extend([(); 2].map(|()| (name, own(), its(server))));
    }
    all
}

/// Compares, with the standard descriptors put back for what a failure says.
fn compare(by_server: bool) {
    let folder = tempfile::tempdir().unwrap();
    let kept = [0, 1, 2].map(|number| {
        // SAFETY: it is open, and nobody closes it meanwhile.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        File::from(fd.try_clone_to_owned().unwrap())
    });
    let mut server = by_server.then(SpawnServer::new);
    server.iter_mut().for_each(|server| server.start().unwrap());
    let before = servers();
    let all = changes(folder.path(), &mut server);
    kept.iter().zip(0..).for_each(|(file, number)| put(file, number));
    for (name, own, its) in all {
        assert_eq!(own, its, "{name}");
    }
    assert_eq!(servers(), before, "one server has made them all, or none");
}

#[test]
fn each_child_has_what_the_caller_has_at_that_moment() {
    in_a_child("descriptors::each_child_has_what_the_caller_has_at_that_moment", || {
        compare(true);
    });
}

#[test]
fn so_has_one_that_the_caller_makes_itself() {
    in_a_child("descriptors::so_has_one_that_the_caller_makes_itself", || compare(false));
}

/// Then they are sent each time. The server has the filter from its caller.
#[test]
fn where_the_kernel_does_not_compare_they_are_sent() {
    in_a_child("descriptors::where_the_kernel_does_not_compare_they_are_sent", || {
        filter(&[libc::SYS_kcmp], REFUSE);
        compare(true);
    });
}

/// A server that kept them would keep a reader waiting for the end of a pipe.
#[test]
fn a_pipe_ends_though_the_server_has_had_it() {
    in_a_child("descriptors::a_pipe_ends_though_the_server_has_had_it", || {
        let (mut reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        // SAFETY: as `put`.
        let kept = File::from(unsafe { BorrowedFd::borrow_raw(1) }.try_clone_to_owned().unwrap());
        let mut server = SpawnServer::new();
        put(&File::from(OwnedFd::from(writer)), 1);
        for _ in 0..2 {
            let mut child = Command::new("echo").arg("said").spawn_by(&mut server).unwrap();
            assert!(child.wait().unwrap().success());
        }
        put(&kept, 1);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "said\nsaid\n");
    });
}
