//! Kumiki's parallel copy.

use kumiki_copy::{Method, copy, prepare};
use kumiki_shadow::Shadow;

use super::Copy;

/// Below this, `FLOOR` of Kumiki's automatic choice, it asks no helper, and what that has
/// done last may be long ago.
const ALONE: usize = 1 << 20;

/// Copies with a shadow thread by one method.
pub(crate) struct Kumiki<M> {
    shadow: Shadow,
    /// A function, so that it is known when compiled, as in most programs.
    method: M,
    /// The helper is awake before copies of so many bytes and more.
    awake_from: usize,
}

impl<M: Fn() -> Method> Kumiki<M> {
    /// With what the automatic choice measures once already measured.
    pub(crate) fn new(mut shadow: Shadow, method: M, awake_from: usize) -> Self {
        prepare(&mut shadow);
        Kumiki { shadow, method, awake_from }
    }

    /// As a program finds it that has not asked for anything else.
    pub(crate) fn unprepared(shadow: Shadow, method: M) -> Self {
        Kumiki { shadow, method, awake_from: ALONE }
    }
}

/// The method in a subject's name, and from how many bytes on its helper is awake:
/// `kumiki` leaves the one to Kumiki, and by the other helps where it is to help.
pub(crate) fn method(subject: &str) -> Option<(Method, usize)> {
    Some(match subject.strip_prefix("kumiki")? {
        "" => (Method::Auto, ALONE),
        "/awake" => (Method::Auto, 0),
        "/prefetch" => (Method::Prefetch, 0),
        "/block256" => (Method::Block(256), 0),
        "/block1024" => (Method::Block(1024), 0),
        "/block4096" => (Method::Block(4096), 0),
        "/split" => (Method::Split, 0),
        "/cold" => (Method::Cold, 0),
        _ => return None,
    })
}

impl<M: Fn() -> Method> Copy for Kumiki<M> {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        copy(&mut self.shadow, to, from, (self.method)()).expect("both are of one length");
    }

    fn wake(&mut self, bytes: usize) {
        if bytes >= self.awake_from {
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
        while !job.is_done() {
            std::hint::spin_loop();
        }
        job.join().expect("the job does not panic");
    });
}
