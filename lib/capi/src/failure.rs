//! Errors as C knows them: a negative errno value, and the text of the last
//! one beside it.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use kumiki_shadow::Error;
use kumiki_sys::cancellation::Held;

/// Reason for which a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: c_int,
    text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl ToString) -> Self {
        Failure { errno, text: text.to_string() }
    }

    /// Names the thing that was tried.
    pub(crate) fn about(self, what: &str) -> Self {
        Failure { text: format!("{what}: {}", self.text), ..self }
    }

    /// A value that no call can work with.
    pub(crate) fn invalid(text: impl ToString) -> Self {
        Failure::new(libc::EINVAL, text)
    }

    /// A panic that would go on into C.
    pub(crate) fn panicked(what: &str, panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Failure::new(libc::EIO, format!("{what} panicked: {}", text.unwrap_or("without a text")))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let errno = match &error {
            Error::Busy => libc::EBUSY,
            Error::NotForked | Error::Orphaned => libc::ESRCH,
            Error::NoFreeCpu { .. } | Error::TeamTooLarge { .. } => libc::ENODEV,
            Error::SameCpu { .. } => libc::EINVAL,
            Error::TimedOut { .. } => libc::ETIMEDOUT,
            Error::Thread { .. } => libc::EAGAIN,
            Error::Sys(error) => of_machine(error),
            Error::Wait(error) => of_wait(error),
            // Whatever else there may be one day.
            _ => libc::EIO,
        };
        Failure::new(errno, error)
    }
}

impl From<kumiki_parasc::Error> for Failure {
    fn from(error: kumiki_parasc::Error) -> Self {
        use kumiki_parasc::Error;

        let errno = match &error {
            Error::Config { .. } | Error::TooManyArguments { .. } | Error::Lengths { .. } => {
                libc::EINVAL
            }
            Error::Refused { .. } | Error::NotAllowed { .. } => libc::EPERM,
            Error::NoLane { .. } => libc::EBUSY,
            Error::Full { .. } => libc::EAGAIN,
            Error::ShutDown => libc::ESHUTDOWN,
            Error::Forked => libc::ESRCH,
            Error::UnknownTicket { .. } => libc::ENOENT,
            Error::Backend { .. } => libc::ENOTSUP,
            Error::Sys(error) => of_machine(error),
            Error::Wait(error) => of_wait(error),
            _ => libc::EIO,
        };
        Failure::new(errno, error)
    }
}

impl From<kumiki_resource::Error> for Failure {
    fn from(error: kumiki_resource::Error) -> Self {
        use kumiki_resource::Error;
        use kumiki_resource::desk::Error as Request;

        let errno = match &error {
            Error::Name { .. } | Error::Pattern { .. } | Error::Kind { .. } => libc::EINVAL,
            Error::Taken { .. } => libc::EEXIST,
            Error::NotFound { .. } | Error::Unknown { .. } => libc::ENOENT,
            Error::NoPlace { .. } => libc::ENXIO,
            Error::NoKind { .. } => libc::ENODEV,
            Error::WrongKind { .. } => libc::EPROTOTYPE,
            Error::Foreign { .. } => libc::EXDEV,
            Error::Stale { .. } => libc::ESTALE,
            Error::Rights { .. } => libc::EACCES,
            Error::TableFull { .. } => libc::ENOSPC,
            Error::Share { .. } => libc::ENOMEM,
            Error::Nested { .. } => libc::EDEADLK,
            Error::Manager { source: Request::Gone, .. } => libc::ESHUTDOWN,
            Error::Manager { source: Request::Died, .. } => libc::EOWNERDEAD,
            Error::Manager { source: Request::Full, .. } => libc::EAGAIN,
            Error::Manager { source: Request::TimedOut { .. }, .. } => libc::ETIMEDOUT,
            Error::Crew(kumiki_crew::Error::Thread { .. }) => libc::EAGAIN,
            Error::Crew(kumiki_crew::Error::Sys(error)) | Error::Sys(error) => of_machine(error),
            Error::Crew(kumiki_crew::Error::Wait(error)) | Error::Wait(error) => of_wait(error),
            // What a process is refused may be wrapped in the step that was.
            Error::System { source, .. } | Error::Socket { source, .. } => {
                kumiki_spawn::Refusal::number(source).unwrap_or(libc::EIO)
            }
            // A panic in the function, and whatever else there may be one day.
            _ => libc::EIO,
        };
        Failure::new(errno, error)
    }
}

fn of_machine(error: &kumiki_sys::Error) -> c_int {
    use kumiki_sys::Error;

    match error {
        Error::CpuOffline { .. } | Error::CpuNotAllowed { .. } => libc::ENXIO,
        Error::Os { source, .. } | Error::File { source, .. } => {
            source.raw_os_error().unwrap_or(libc::EIO)
        }
        Error::Unsupported { .. } => libc::ENOTSUP,
        Error::Invalid(_) => libc::EINVAL,
        // A text of the kernel that is not what it should be.
        _ => libc::EIO,
    }
}

fn of_wait(error: &kumiki_wait::Error) -> c_int {
    match error {
        kumiki_wait::Error::Unsupported { .. } => libc::ENOTSUP,
        kumiki_wait::Error::UnknownSleep { .. } => libc::EINVAL,
        _ => libc::EIO,
    }
}

impl From<kumiki_copy::Error> for Failure {
    fn from(error: kumiki_copy::Error) -> Self {
        use kumiki_copy::Error;

        let errno = match error {
            Error::Busy => libc::EBUSY,
            Error::TimedOut { .. } => libc::ETIMEDOUT,
            // Everything else is what was asked for.
            _ => libc::EINVAL,
        };
        Failure::new(errno, error)
    }
}

/// Bytes of a text with the zero at its end; of a longer one the first.
const TEXT: usize = 1024;

thread_local! {
    /// Always at one place: C may ask for the text before the call that fails, if
    /// both are arguments of one function, whose order is nobody's.
    static LAST: [Cell<u8>; TEXT] = const { [const { Cell::new(0) }; TEXT] };
}

fn keep(text: &str) {
    let end = (0..=text.len().min(TEXT - 1)).rev().find(|at| text.is_char_boundary(*at));
    let end = end.unwrap_or_default();
    let bytes = text.bytes().take(end).filter(|byte| *byte != 0);
    LAST.with(|last| {
        last.iter().zip(bytes.chain([0])).for_each(|(place, byte)| place.set(byte));
    });
}

/// C's `errno`, which these functions do not tell by: their callers' own value stays.
struct Errno(c_int);

impl Errno {
    fn keep() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or_default())
    }
}

impl Drop for Errno {
    fn drop(&mut self) {
        // SAFETY: tells where the calling thread's own word is.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: that word.
        unsafe { errno.write(self.0) };
    }
}

/// Runs what a function of the interface does, and turns its outcome into what
/// C gets. No panic leaves it.
pub(crate) fn answer(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let _errno = Errno::keep();
    // What a panic leaves half done is behind the caller's pointer; the header
    // says that only destroying it is safe to do.
    let outcome = catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(Failure::panicked("the library", &*panic)));
    outcome.unwrap_or_else(|Failure { errno, text }| {
        keep(&text);
        -errno
    })
}

/// Answers as [`answer`], with pthread_cancel(3) held off: its unwinding must not go through Rust
/// that is half way.
pub(crate) fn answer_all(call: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let _held = Held::new();
    answer(call)
}

/// The text of this thread's last failure; see the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_last_error() -> *const c_char {
    LAST.with(|last| last.as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last() -> String {
        // SAFETY: the text ends with a zero, and only this thread's next failure
        // changes it.
        let text = unsafe { CStr::from_ptr(kumiki_last_error()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn failures_leave_errno_and_text() {
        assert_eq!((answer(|| Ok(0)), last().as_str()), (0, ""));
        assert_eq!(answer(|| Err(Failure::invalid("a\0b"))), -libc::EINVAL);
        assert_eq!(last(), "ab");
        assert_eq!(answer(|| Ok(1)), 1);
        assert_eq!(last(), "ab", "only a failure replaces the text");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
    }

    #[test]
    fn a_text_stays_at_its_place_and_is_cut_if_it_is_long() {
        let place = kumiki_last_error();
        answer(|| Err(Failure::invalid("ä".repeat(TEXT))));
        assert_eq!(last(), "ä".repeat((TEXT - 1) / 2));
        answer(|| Err(Failure::invalid("short")));
        assert_eq!((last().as_str(), kumiki_last_error()), ("short", place));
    }

    #[test]
    fn the_caller_s_errno_stays() {
        for outcome in [Ok(0), Err(Failure::invalid("why"))] {
            drop(Errno(77));
            answer(|| {
                assert!(std::fs::File::open("/no/such").is_err());
                outcome
            });
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(77));
        }
    }

    #[test]
    fn panics_stay_here() {
        assert_eq!(answer(|| panic!("number {}", 7)), -libc::EIO);
        assert_eq!(last(), "the library panicked: number 7");
        assert_eq!(answer(|| std::panic::panic_any(7)), -libc::EIO);
        assert!(last().ends_with("without a text"), "{}", last());
    }
}
