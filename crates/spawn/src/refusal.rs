//! What of a child was refused.

use std::io;

use thiserror::Error;

/// In an error of [`Command::spawn`](crate::Command::spawn), where a step of the child's was
/// refused: which, and by which value. The error has the kind of the kernel's own, and in its text
/// both; where the process itself or its program was refused it is the kernel's own.
///
/// ```
/// use kumiki_spawn::{Command, Refusal};
///
/// let error = Command::new("true").current_dir("/nowhere").spawn().unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert_eq!(
///     error.to_string(),
///     "its working folder /nowhere: No such file or directory (os error 2)"
/// );
/// assert_eq!(Refusal::number(&error), Some(2));
/// ```
#[derive(Debug, Error)]
#[error("{step}: {error}")]
pub struct Refusal {
    step: String,
    #[source]
    error: io::Error,
}

impl Refusal {
    pub(crate) fn new(step: String, error: io::Error) -> Refusal {
        Refusal { step, error }
    }

    /// The one in an error, if it is such.
    pub fn of(error: &io::Error) -> Option<&Refusal> {
        error.get_ref()?.downcast_ref()
    }

    /// The kernel's number of an error that may be such, or of any other one.
    pub fn number(error: &io::Error) -> Option<i32> {
        error.raw_os_error().or_else(|| Refusal::of(error)?.error.raw_os_error())
    }

    /// The step of the child: `its user 0`.
    pub fn step(&self) -> &str {
        &self.step
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
