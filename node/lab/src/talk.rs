//! What a lab tells a person while it works.

use std::fmt::Display;

/// Receiver of a lab's talk: downloads, long work, retries.
#[derive(Clone, Copy)]
pub struct Talk<'a>(&'a (dyn Fn(&str) + Sync));

impl std::fmt::Debug for Talk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talk").finish_non_exhaustive()
    }
}

impl<'a> Talk<'a> {
    /// Each sentence is passed to this function.
    pub fn to(listener: &'a (dyn Fn(&str) + Sync)) -> Self {
        Talk(listener)
    }

    /// Talk to which nobody listens.
    pub fn nowhere() -> Self {
        Talk(&|_| {})
    }

    pub(crate) fn say(&self, text: impl Display) {
        (self.0)(&text.to_string());
    }
}
