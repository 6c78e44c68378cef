//! What of a child was refused.

use std::io;

use kumiki_spawn_wire::EXECUTE;
use thiserror::Error;

/// Refusal in an error of [`Command::spawn`](crate::Command::spawn), where the kernel refused the
/// process, its program or a step on the way there: which, and by which value. The error has the
/// kind of the kernel's own, and in its text both.
///
/// ```
/// use kumiki_spawn::{Command, Refusal};
///
/// let error = Command::new("no-such").spawn().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert_eq!(
///     error.to_string(),
///     "executing the program no-such: No such file or directory (os error 2)"
/// );
/// let error = Command::new("true").current_dir("/nowhere").spawn().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert_eq!(
///     error.to_string(),
///     "its working folder /nowhere: No such file or directory (os error 2)"
/// );
/// assert_eq!(Refusal::number(&error), Some(2));
/// ```
#[derive(Error)]
#[error("{step}: {error}")]
pub struct Refusal {
    step: String,
    is_program: bool,
    #[source]
    error: io::Error,
}

kumiki_sys::debug_is_display!(Refusal);

impl Refusal {
    /// Made of the number of a step, said in words.
    pub(crate) fn new(said: String, step: u32, error: io::Error) -> Refusal {
        Refusal { step: said, is_program: step == EXECUTE, error }
    }

    /// The one in an error, if it is such.
    pub fn of(error: &io::Error) -> Option<&Refusal> {
        error.get_ref()?.downcast_ref()
    }

    /// The kernel's number of an error that may be such, or of any other one.
    pub fn number(error: &io::Error) -> Option<i32> {
        error.raw_os_error().or_else(|| Refusal::of(error)?.error.raw_os_error())
    }

    /// The step of the child: `its user 0`, `executing the program no-such`.
    pub fn step(&self) -> &str {
        &self.step
    }

    /// True if it is the program that cannot be executed, and all before was done.
    pub fn is_program(&self) -> bool {
        self.is_program
    }

    /// The kernel's own error.
    pub fn error(&self) -> &io::Error {
        &self.error
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        io::Error::new(refusal.error.kind(), refusal)
    }
}
