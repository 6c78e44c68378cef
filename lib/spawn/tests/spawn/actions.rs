//! File actions in any order, against the C library's posix_spawn(3): the same descriptors, the
//! same working folder, or the same error, whoever makes the child.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

use kumiki_spawn::{Action, Command, Refusal};

use crate::child::in_a_child;

const ROUNDS: usize = 120;
/// Numbers that the child's table is looked at.
const NUMBERS: c_int = 10;

type FileActions = libc::posix_spawn_file_actions_t;

unsafe extern "C" {
    fn posix_spawn_file_actions_addchdir_np(all: *mut FileActions, path: *const c_char) -> c_int;
    fn posix_spawn_file_actions_addfchdir_np(all: *mut FileActions, fd: c_int) -> c_int;
    fn posix_spawn_file_actions_addclosefrom_np(all: *mut FileActions, first: c_int) -> c_int;
    fn posix_spawn_file_actions_addtcsetpgrp_np(all: *mut FileActions, fd: c_int) -> c_int;
    static environ: *const *mut c_char;
}

/// What is open in the child and where it is, or why there is none.
type Seen = Result<String, c_int>;

/// Tells of the shell itself: what is in brackets is another process.
fn script(to: &Path) -> CString {
    let look = "find /proc/$$/fd /proc/$$/cwd -type l -printf '%f %l\\n'";
    CString::new(format!("({look}) >{} 2>/dev/null; :", to.display())).unwrap()
}

fn waited(pid: libc::pid_t, to: &Path) -> String {
    let mut status = -1;
    // SAFETY: waits for that child; `status` is writable.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    let text = fs::read_to_string(to).unwrap();
    // What the shell has for itself is higher.
    let is_low = |line: &&str| {
        let number = line.split(' ').next().unwrap().parse::<c_int>();
        number.is_err() || number.is_ok_and(|number| number < NUMBERS)
    };
    let mut lines: Vec<&str> = text.lines().filter(is_low).collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[expect(clippy::multiple_unsafe_ops_per_block, reason = "one of them, as the action says")]
fn theirs(actions: &[Action], to: &Path) -> Seen {
    let mut all = MaybeUninit::<FileActions>::uninit();
    // SAFETY: it is initialised there, and used by functions made for it from here on.
    assert_eq!(unsafe { libc::posix_spawn_file_actions_init(all.as_mut_ptr()) }, 0);
    let all = all.as_mut_ptr();
    for action in actions {
        // SAFETY: as above; each string ends with a zero.
        let added = unsafe {
            match action {
                Action::Open { fd, path, flags, mode } => {
                    libc::posix_spawn_file_actions_addopen(all, *fd, path.as_ptr(), *flags, *mode)
                }
                Action::Dup2 { from, to } => {
                    libc::posix_spawn_file_actions_adddup2(all, *from, *to)
                }
                Action::Close(fd) => libc::posix_spawn_file_actions_addclose(all, *fd),
                Action::CloseFrom(first) => posix_spawn_file_actions_addclosefrom_np(all, *first),
                Action::Chdir(path) => posix_spawn_file_actions_addchdir_np(all, path.as_ptr()),
                Action::Fchdir(fd) => posix_spawn_file_actions_addfchdir_np(all, *fd),
                Action::Foreground(fd) => posix_spawn_file_actions_addtcsetpgrp_np(all, *fd),
                other => unreachable!("{other:?}"),
            }
        };
        assert_eq!(added, 0, "{action:?}");
    }
    let script = script(to);
    let argv = [c"sh".as_ptr(), c"-c".as_ptr(), script.as_ptr(), ptr::null()];
    let mut pid = 0;
    let path = c"/bin/sh".as_ptr();
    let argv = argv.as_ptr().cast::<*mut c_char>();
    // SAFETY: lists that end with a null pointer, of strings that end with a zero.
    let error = unsafe { libc::posix_spawn(&mut pid, path, all, ptr::null(), argv, environ) };
    // SAFETY: as above.
    unsafe { libc::posix_spawn_file_actions_destroy(all) };
    if error == 0 { Ok(waited(pid, to)) } else { Err(error) }
}

fn ours(actions: &[Action], to: &Path, by_server: bool) -> Seen {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script(to).to_str().unwrap()).by_server(by_server).close_others(false);
    for action in actions {
        // SAFETY: what they name is this test's.
        unsafe { command.action(action.clone()) };
    }
    match command.spawn() {
        Ok(child) => Ok(waited(child.id() as i32, to)),
        Err(error) => Err(Refusal::number(&error).unwrap()),
    }
}

fn any(random: &mut fastrand::Rng) -> Action {
    const PATHS: [&CStr; 6] = [c"here", c"sub/here", c"none", c"/dev/null", c"sub", c"/dev/fd/5"];
    let number = |random: &mut fastrand::Rng| random.i32(0..NUMBERS);
    let path = |random: &mut fastrand::Rng| PATHS[random.usize(..PATHS.len())].to_owned();
    match random.u8(..16) {
        0..4 => {
            let flags = [libc::O_RDONLY, libc::O_RDWR, libc::O_WRONLY | libc::O_CREAT];
            let flags = flags[random.usize(..3)];
            // With O_CLOEXEC it depends in the C library on which number was free before.
            Action::Open { fd: number(random), path: path(random), flags, mode: 0o600 }
        }
        4..10 => Action::Dup2 { from: number(random), to: number(random) },
        10..12 => Action::Close(number(random)),
        12 => Action::CloseFrom(random.i32(3..NUMBERS)),
        13 => Action::Chdir([c"sub", c"..", c"none", c"/"][random.usize(..4)].to_owned()),
        14 => Action::Fchdir(number(random)),
        _ => Action::Foreground(number(random)),
    }
}

/// Descriptors of any kind at numbers 3 to 8, of which exec closes some.
fn table(folder: &Path) {
    let open = |name: &str| File::options().read(true).open(folder.join(name)).unwrap();
    // Out of the way first.
    let high = |name: &str| {
        let file = open(name);
        // SAFETY: changes this process, which is for this test alone.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) }
    };
    let sources = ["here", "sub/here", "sub", "here", "sub", "here"].map(high);
    for number in 3..NUMBERS {
        // SAFETY: as above: nobody uses them.
        unsafe { libc::close(number) };
    }
    // Exec closes it, unless an action has copied it.
    // SAFETY: as above.
    assert_eq!(unsafe { libc::fcntl(0, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    for (from, number) in sources.into_iter().zip(3..) {
        let flags = if number % 2 == 0 { libc::O_CLOEXEC } else { 0 };
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup3(from, number, flags) }, number);
        // SAFETY: as above.
        unsafe { libc::close(from) };
    }
}

fn crossed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    for name in ["here", "sub/here"] {
        fs::write(folder.path().join(name), "text").unwrap();
    }
    std::env::set_current_dir(folder.path()).unwrap();
    let to = folder.path().join("seen");
    let mut random = fastrand::Rng::with_seed(39);
    let all: Vec<Vec<Action>> =
        (0..ROUNDS).map(|_| (0..random.usize(..6)).map(|_| any(&mut random)).collect()).collect();
    table(folder.path());
    let mut errors = BTreeSet::new();
    let clean = || {
        let _ = fs::remove_file(folder.path().join("none"));
        let _ = fs::remove_file(folder.path().join("sub/none"));
    };
    for actions in &all {
        let posix = theirs(actions, &to);
        clean();
        for by_server in [false, true] {
            let own = ours(actions, &to, by_server);
            clean();
            assert_eq!(own, posix, "by a server: {by_server}, {actions:?}");
        }
        errors.extend(posix.err());
    }
    let known = [libc::EBADF, libc::ENOENT, libc::ENOTDIR, libc::ENOTTY, libc::EISDIR];
    assert!(errors.is_superset(&BTreeSet::from(known)), "{errors:?}");
}

#[test]
fn any_actions_in_any_order_are_those_of_posix_spawn() {
    in_a_child("actions::any_actions_in_any_order_are_those_of_posix_spawn", crossed);
}
