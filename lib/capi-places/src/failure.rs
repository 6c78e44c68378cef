//! Errors as C knows them: a negative errno value, and the sentence of the last one beside it.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use kumiki_places::Error;
use kumiki_places::wire::Why;

/// Reason why a call failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl ToString) -> Failure {
        Failure { errno, text: text.to_string() }
    }

    /// A value that no call can work with.
    pub(crate) fn invalid(text: impl ToString) -> Failure {
        Failure::new(libc::EINVAL, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let errno = match &error {
            Error::Gone { .. } => libc::ESRCH,
            Error::NotSent { .. } | Error::Unanswered { .. } | Error::Connect { .. } => {
                libc::ENOTCONN
            }
            Error::Unknown { .. } => libc::ECONNABORTED,
            Error::TooLarge { .. } => libc::EMSGSIZE,
            Error::Rights { .. } => libc::EACCES,
            Error::Value { .. } => libc::EINVAL,
            Error::Refused { why, .. } => match why {
                Why::NotAllowed => libc::EACCES,
                Why::NotFound => libc::ENOENT,
                Why::Taken => libc::EEXIST,
                Why::Stale => libc::ESTALE,
                Why::Full => libc::EAGAIN,
                Why::AnswerTooLarge => libc::EMSGSIZE,
                _ => libc::EREMOTEIO,
            },
            // Whatever else there may be one day.
            _ => libc::EIO,
        };
        Failure::new(errno, error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs what a function of C's is to do. No panic goes on into C.
pub(crate) fn run(what: &str, work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = format!("{what} panicked: {}", text.unwrap_or("without a text"));
        Err(Failure::new(libc::EIO, text))
    });
    outcome.unwrap_or_else(|failure| {
        // A text with a zero in it came from afar.
        let text = CString::new(failure.text.replace('\0', "?")).unwrap_or_default();
        LAST.with(|last| *last.borrow_mut() = text);
        -failure.errno
    })
}

/// The sentence of this thread's last error.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_places_last_error() -> *const c_char {
    LAST.with(|last| last.borrow().as_ptr())
}
