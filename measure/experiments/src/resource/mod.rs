//! The figures of Horii et al., "Evaluation of Tender, which manages OS resources on each
//! core": Figures 5 to 8, and the calls between cores that the paper left open.

mod calls;
pub mod cores;
pub mod shared;
mod spawn;

use kumiki_measure::Error;
use kumiki_measure::case::Case;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cores::cases();
    cases.extend(calls::cases());
    cases.extend(spawn::cases());
    cases
}

/// Keeps the type of an error by which the machine lacks something, so that the case is skipped.
fn refused(error: kumiki_resource::Error) -> Error {
    match error {
        kumiki_resource::Error::Sys(error) => error.into(),
        error => Error::Invalid(format!("no resource: {error}")),
    }
}
