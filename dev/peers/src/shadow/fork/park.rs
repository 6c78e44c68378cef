//! A helper that parks between jobs, as the standard library offers it.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::thread::{self, Thread};

use super::helper::{Sleep, Sleeper};

/// `std::thread::park` and `unpark` both ways.
pub(crate) type Park = Sleeper<Threads>;

/// Who is to be unparked.
pub(crate) struct Threads {
    main: Thread,
    helper: OnceLock<Thread>,
}

impl Sleep for Threads {
    fn new() -> Self {
        Threads { main: thread::current(), helper: OnceLock::new() }
    }

    fn helper_is_here(&self) {
        self.helper.get_or_init(thread::current);
    }

    fn wait(&self, _: &AtomicU32, _: u32) {
        thread::park();
    }

    fn wake_helper(&self, _: &AtomicU32) {
        // Before it is there it has not looked at the word yet, either.
        if let Some(helper) = self.helper.get() {
            helper.unpark();
        }
    }

    fn wake_main(&self, _: &AtomicU32) {
        self.main.unpark();
    }
}
