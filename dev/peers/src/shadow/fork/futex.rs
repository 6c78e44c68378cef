//! A helper that sleeps on a futex between jobs.

use std::sync::atomic::AtomicU32;

use kumiki_sys::futex::{self, Scope};

use super::helper::{Sleep, Sleeper};

/// Both sides sleep at once and are woken by a call each.
pub(crate) type Futex = Sleeper<Word>;

/// The word itself is all there is.
pub(crate) struct Word;

fn wake(word: &AtomicU32) {
    futex::wake(word, 1, Scope::Private).expect("the word is mapped");
}

impl Sleep for Word {
    fn new() -> Self {
        Word
    }

    fn wait(&self, word: &AtomicU32, value: u32) {
        // However it ended: the caller looks at the word again.
        let _ = futex::wait(word, value, Scope::Private, None).expect("the word is mapped");
    }

    fn wake_helper(&self, word: &AtomicU32) {
        wake(word);
    }

    fn wake_main(&self, word: &AtomicU32) {
        wake(word);
    }
}
