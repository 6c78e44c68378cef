//! Entering the kernel and coming back.

use crate::case::{Case, Choice, Each};

/// The cases.
pub(super) fn cases(_choice: &Choice) -> Vec<Case> {
    vec![Case::new("entry.getppid", "a system call that does next to nothing", |_| {
        Ok(Each(|| {
            std::hint::black_box(rustix::process::getppid());
            Ok(())
        }))
    })]
}
