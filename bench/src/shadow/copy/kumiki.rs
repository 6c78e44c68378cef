//! Kumiki's parallel copy.

use kumiki_shadow::Shadow;
use kumiki_shadow::copy::{Method, copy, prepare};

use super::Copy;

/// Below this [`Method::Auto`] asks no helper, and what it has done last may be long ago.
const ALONE: usize = 1 << 20;

/// Copies with a shadow thread by one method.
pub(crate) struct Kumiki<M> {
    shadow: Shadow,
    /// A function, so that it is known when compiled, as in most programs.
    method: M,
}

impl<M: Fn() -> Method> Kumiki<M> {
    /// With what the automatic choice measures once already measured.
    pub(crate) fn new(mut shadow: Shadow, method: M) -> Self {
        prepare(&mut shadow);
        Self::unprepared(shadow, method)
    }

    /// As a program finds it that has not asked for anything else.
    pub(crate) fn unprepared(shadow: Shadow, method: M) -> Self {
        Kumiki { shadow, method }
    }
}

/// The method in a subject's name: `kumiki` leaves it to Kumiki.
pub(crate) fn method(subject: &str) -> Option<Method> {
    Some(match subject.strip_prefix("kumiki")? {
        "" => Method::Auto,
        "/prefetch" => Method::Prefetch,
        "/block256" => Method::Block(256),
        "/block1024" => Method::Block(1024),
        "/block4096" => Method::Block(4096),
        "/split" => Method::Split,
        _ => return None,
    })
}

impl<M: Fn() -> Method> Copy for Kumiki<M> {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        copy(&mut self.shadow, to, from, (self.method)()).expect("both are of one length");
    }

    fn wake(&mut self, bytes: usize) {
        if bytes >= ALONE || (self.method)() != Method::Auto {
            wake(&mut self.shadow);
        }
    }
}

/// The C library's copy beside a helper that nobody asks: it may spin on the same
/// core, and takes from it what it does not take where there is none.
pub(crate) struct Memcpy(pub(crate) Shadow);

impl Copy for Memcpy {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        to.copy_from_slice(from);
    }

    fn wake(&mut self, _bytes: usize) {
        wake(&mut self.0);
    }
}

fn wake(shadow: &mut Shadow) {
    shadow.scope(|scope| {
        let job = scope.fork(|| ());
        // A join would take back the job of a helper that sleeps.
        while !job.is_finished() {
            std::hint::spin_loop();
        }
        job.join().expect("the job does not panic");
    });
}
