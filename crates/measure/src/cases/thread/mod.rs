//! Soon.

use crate::case::{Case, Choice};

/// The cases.
pub(super) fn cases(_choice: &Choice) -> Vec<Case> {
    Vec::new()
}
