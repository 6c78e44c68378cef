//! What the calling thread may not do, its children may not do either, also if the server
//! was started before.

use std::fs;
use std::path::Path;
use std::thread;

use kumiki_spawn::start_server;

use crate::faults::servers;
use crate::filter::{REFUSE, filter};

use super::new;

/// Whether a child can make a folder there.
fn makes(folder: &Path) -> bool {
    let output = new("mkdir").arg(folder).output().unwrap();
    assert_eq!(output.status.success(), folder.exists(), "{output:?}");
    folder.exists()
}

fn forbid_folders() {
    filter(&[libc::SYS_mkdir, libc::SYS_mkdirat], REFUSE);
}

#[test]
fn a_filter_after_the_server_s_start_holds_for_children() {
    alone!("a_filter_after_the_server_s_start_holds_for_children", || {
        let folder = tempfile::tempdir().unwrap();
        filter(&[], REFUSE);
        assert!(makes(&folder.path().join("before")));
        forbid_folders();
        assert!(!makes(&folder.path().join("after")));
    });
}

/// As many filters as the thread that has started the server, but others.
#[test]
fn another_thread_s_filter_holds_for_its_children() {
    alone!("another_thread_s_filter_holds_for_its_children", || {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| folder.path().join(name);
        let in_thread = |work: &(dyn Fn() -> bool + Sync)| {
            thread::scope(|threads| threads.spawn(work).join().unwrap())
        };
        let allowed = || {
            filter(&[], REFUSE);
            makes(&of("allowed"))
        };
        let forbidden = || {
            forbid_folders();
            makes(&of("forbidden"))
        };
        assert!(in_thread(&allowed));
        assert!(!in_thread(&forbidden));
        assert!(makes(&of("unfiltered")));
    });
}

/// Rules that forbid to make folders, for this thread; `false` if the kernel has none.
fn landlock() -> bool {
    const MAKE_DIR: u64 = 1 << 7;
    let attributes = [MAKE_DIR];
    let size = size_of_val(&attributes);
    // SAFETY: the kernel reads so many bytes of the attributes.
    let rules =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes.as_ptr(), size, 0) };
    if rules < 0 {
        return false;
    }
    // SAFETY: changes only what this thread may do from now on.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) }, 0);
    true
}

#[test]
fn landlock_after_the_server_s_start_holds_for_children() {
    alone!("landlock_after_the_server_s_start_holds_for_children", || {
        let folder = tempfile::tempdir().unwrap();
        // Set before, it gives the second rules away in nothing that the kernel tells.
        // SAFETY: changes only what this thread may do from now on.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
        assert!(makes(&folder.path().join("before")));
        let before = servers();
        assert!(makes(&folder.path().join("again")));
        assert_eq!(servers(), before);
        if !landlock() {
            return println!("skipped: a kernel without Landlock");
        }
        assert!(fs::create_dir(folder.path().join("own")).is_err());
        assert!(!makes(&folder.path().join("after")));
        // The new server has the rules as well, and stays.
        let after = servers();
        assert!(!makes(&folder.path().join("after")));
        let another = after != before || !super::BY_SERVER;
        assert!(another && servers() == after, "{before:?} {after:?}");
    });
}

fn says(program: &str, args: &[&str]) -> String {
    let output = new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn what_changes_after_the_server_s_start_is_the_child_s_too() {
    alone!("what_changes_after_the_server_s_start_is_the_child_s_too", || {
        start_server().unwrap();
        let server = servers();
        let niceness = says("nice", &[]);
        assert_eq!(servers(), server, "nothing has changed");
        // SAFETY: changes this process, which is for this test alone.
        unsafe { libc::umask(0o027) };
        assert_eq!(says("sh", &["-c", "umask"]), "0027");
        // SAFETY: as above.
        unsafe { libc::nice(3) };
        assert_eq!(says("nice", &[]).parse(), niceness.parse::<i32>().map(|nice| nice + 3));
        // SAFETY: as above.
        if unsafe { libc::unshare(libc::CLONE_NEWUTS) } != 0 {
            return println!("skipped in part: only root has new namespaces");
        }
        let own = fs::read_link("/proc/thread-self/ns/uts").unwrap();
        assert_eq!(says("readlink", &["/proc/self/ns/uts"]), own.to_str().unwrap());
        // There a server would be the first process, which has no siblings: the caller makes the
        // child itself, which is that then.
        // SAFETY: as above.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWPID) }, 0);
        assert_eq!(new("sh").args(["-c", "exit $$"]).status().unwrap().code(), Some(1));
    });
}
