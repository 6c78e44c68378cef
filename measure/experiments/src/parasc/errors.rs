//! What engines and the module refuse, as errors of cases.

use kumiki_measure::Error;

/// Keeps the type of an error by which the machine lacks something, so that the case is skipped.
pub(super) fn refused(error: kumiki_parasc::Error) -> Error {
    match error {
        kumiki_parasc::Error::Sys(error) => error.into(),
        error => Error::Invalid(format!("no parallel system calls: {error}")),
    }
}

/// Takes an error of the module; that it is not there leaves the case out.
pub(super) fn failed(error: kumiki_parasc::Error) -> Error {
    match error {
        kumiki_parasc::Error::Backend { reason, remedy, .. } => {
            Error::unsupported("backend kernel", format!("{reason}; {remedy}"))
        }
        error => refused(error),
    }
}
