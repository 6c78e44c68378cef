//! File systems and filters that know no form which cannot sleep.

use std::fs::File;
use std::sync::Arc;

use kumiki_parasc::op::{CWD, Openat, Pread};
use kumiki_parasc::tries::{NotMade, attempt};
use rustix::fs::{Mode, OFlags};

use super::{engine, file};
use crate::child::in_a_child;
use crate::open::filter::{REFUSE, filter};

/// The files of `/proc` know no `RWF_NOWAIT`.
#[test]
fn a_file_system_that_refuses_is_left_alone_and_others_are_tried() {
    let name = "tries::refused::a_file_system_that_refuses_is_left_alone_and_others_are_tried";
    in_a_child(name, || {
        let engine = engine();
        let proc = Arc::new(File::open("/proc/self/stat").unwrap());
        let read = || Pread::new(&proc, 0, [0_u8; 16]);
        let first = attempt(&mut read());
        assert!(matches!(first, Err(NotMade::NotHere(_))), "{first:?}");
        assert_eq!(attempt(&mut read()), Err(NotMade::WouldSleep));
        let read = engine.attempt(Pread::new(Arc::clone(&proc), 0, [0_u8; 16])).wait().unwrap();
        assert_eq!(read.output, Ok(16));
        let temporary = file(b"of another one");
        assert_eq!(attempt(&mut Pread::new(&temporary, 0, [0_u8; 5])), Ok(Ok(5)));
    });
}

/// As some container runtimes answer to calls that are newer than their list.
#[test]
fn where_a_filter_refuses_the_tried_form_the_plain_call_is_made() {
    let name = "tries::refused::where_a_filter_refuses_the_tried_form_the_plain_call_is_made";
    in_a_child(name, || {
        filter(&[libc::SYS_openat2, libc::SYS_preadv2], REFUSE);
        let engine = engine();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || Openat::new(CWD, c"/etc/passwd", flags, Mode::empty());
        let temporary = file(b"content");
        let shared = Arc::new(temporary.reopen().unwrap());
        for _ in 0..3 {
            let opened = engine.attempt(open());
            assert!(!opened.is_made());
            assert!(opened.wait().unwrap().output.is_ok());
            let read = engine.attempt(Pread::new(Arc::clone(&shared), 0, [0_u8; 7]));
            assert!(!read.is_made());
            assert_eq!(read.wait().unwrap().operation.filled(), b"content");
        }
        // Learnt from what the plain calls were answered.
        assert_eq!(attempt(&mut open()).err(), Some(NotMade::WouldSleep));
        let mut read = Pread::new(&temporary, 0, [0_u8; 7]);
        assert_eq!(attempt(&mut read), Err(NotMade::WouldSleep));
        // An error of the call's own is no refusal.
        assert!(open().into_parts().1 == c"/etc/passwd");
    });
}
