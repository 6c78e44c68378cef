//! Claims of a batch on a machine of lines: the line's real code, and calls that take so long and
//! are not made.

use kumiki_calls::Request;
use kumiki_sys::sim::atomic::{AtomicU64, Ordering};
use kumiki_sys::sim::{spin_loop, work};

use crate::line::{Calls, Line, Takers};

/// Memory that begins at a line, so that counts do not depend on where an allocator puts it: a
/// request, or eight results.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Aligned([AtomicU64; 8]);

const _: () = assert!(size_of::<Request>() <= size_of::<Aligned>());

/// A batch of one requesting thread, which it offers again and again.
#[derive(Debug)]
pub struct Batch {
    line: Line,
    requests: Vec<Aligned>,
    results: Vec<Aligned>,
    call_ns: u64,
    most: usize,
}

impl Batch {
    /// Makes one of `calls`, each of which takes so long; `most` are claimed at once at most.
    pub fn new(calls: usize, call_ns: u64, most: usize) -> Self {
        let lines = |count: usize| (0..count).map(|_| Aligned::default()).collect();
        let (requests, results) = (lines(calls), lines(calls.div_ceil(8)));
        Batch { line: Line::default(), requests, results, call_ns, most }
    }

    /// Runs it, by the requesting thread and the threads of the first seats, `threads` in all.
    pub fn run(&self, threads: usize) {
        let kept = self.requests.len() / threads;
        let offered = self.requests.len() - kept;
        // Nobody follows these: calls are not made.
        let calls = Calls { requests: std::ptr::null(), results: std::ptr::null_mut() };
        self.line.open_for(Takers::of(0..threads - 1), calls, offered, self.most);
        (offered..self.requests.len()).for_each(|at| self.call(at));
        while let Some(chunk) = self.line.last(threads) {
            chunk.for_each(|at| self.call(at));
        }
        while self.line.over().is_none() {
            spin_loop();
        }
        self.results.iter().for_each(|line| _ = line.0[0].load(Ordering::Relaxed));
    }

    /// Serves it by the thread of a seat, until `ends`.
    pub fn serve(&self, seat: usize, ends: impl Fn() -> bool) {
        while !ends() {
            if !self.line.is_for(seat) {
                spin_loop();
                continue;
            }
            let mut made = 0;
            while let Some(chunk) = self.line.next(made, 2) {
                made = chunk.len();
                chunk.for_each(|at| self.call(at));
            }
        }
    }

    /// Takes the time of a call, and the lines of its request and its result.
    fn call(&self, at: usize) {
        self.requests[at].0[0].load(Ordering::Relaxed);
        work(self.call_ns);
        self.results[at / 8].0[at % 8].store(at as u64, Ordering::Relaxed);
    }
}
