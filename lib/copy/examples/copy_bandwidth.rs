//! Bandwidth of every way to copy, GB/s, from 4 KiB to 256 MiB.
//!
//! ```text
//! cargo run --release -p kumiki-copy --example copy_bandwidth -- [cold|warm|start|half] [fresh] [small|huge]
//! ```
//!
//! Cold: source and destination are in no cache. Each copy takes the next
//! place of two pools far larger than the caches, and both were evicted line
//! by line; so is the destination afterwards, since its write-back belongs to
//! nobody else (it is charged to nobody, in favour of ordinary stores). Their
//! pages are mapped and were touched before, so no page fault counts; with small
//! pages the misses of the translation caches do count.
//! Warm: the same bytes were copied twice by this thread just before; small
//! copies are repeated until the clock's step does not count.
//! Start, half: warm, and then the first 64 KiB or the first half was evicted.
//! Fresh: the destination has no pages before the copy.
//!
//! The ways are interleaved, so all see the same moments; each cell is a
//! median. A copy during which a thread of the process was preempted is made
//! again, five times at most. The helper spins; one empty fork comes before
//! each copy, and its time is the last line.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Instant;
use std::{env, hint, thread};

use kumiki_copy::{Method, Pair, copy, prepare, stream};
use kumiki_sys::affinity;
use kumiki_sys::cache::evict;
use kumiki_sys::shm::{Anon, Huge, Populate};
use kumiki_sys::topology::Topology;
use rustix::mm::{Advice, madvise};

/// What the helper runs: a closure on the stack of the forking thread.
struct Job {
    run: unsafe fn(*mut ()),
    closure: *mut (),
}

/// A helper that spins; one line carries request and completion.
#[repr(align(128))]
struct Spinner(AtomicPtr<Job>);

impl Spinner {
    fn serve(&self) {
        loop {
            let job = self.0.load(Ordering::Acquire);
            if !job.is_null() {
                // SAFETY: a forking thread leaves its job alone until the null
                // below.
                let Job { run, closure } = unsafe { ptr::read(job) };
                // SAFETY: `run` was made for this closure, and is called once.
                unsafe { run(closure) };
                self.0.store(ptr::null_mut(), Ordering::Release);
            }
            hint::spin_loop();
        }
    }
}

impl Pair for &'static Spinner {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        fn job_of<F: FnOnce() + Send>(closure: &UnsafeCell<Option<F>>) -> Job {
            unsafe fn run<F: FnOnce()>(closure: *mut ()) {
                // SAFETY: made from such a cell in `job_of`, which the helper
                // alone uses now.
                if let Some(closure) = unsafe { (*closure.cast::<Option<F>>()).take() } {
                    closure();
                }
            }
            Job { run: run::<F>, closure: closure.get().cast() }
        }
        let theirs = UnsafeCell::new(Some(theirs));
        let mut job = job_of(&theirs);
        self.0.store(&raw mut job, Ordering::Release);
        ours();
        while !self.0.load(Ordering::Acquire).is_null() {
            hint::spin_loop();
        }
    }
}

static SPINNER: Spinner = Spinner(AtomicPtr::new(ptr::null_mut()));

type Way = Box<dyn FnMut(&mut [u8], &[u8])>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|said| said == word);
    let (warm, start, half) = (said("warm"), said("start"), said("half"));
    let fresh = said("fresh");
    // Bytes that are in memory.
    let evicted = |size: usize| match (warm, start, half) {
        (true, ..) => 0,
        (_, true, _) => size.min(64 << 10),
        (.., true) => size / 2,
        _ => size,
    };
    let pages = if said("small") { Huge::Never } else { Huge::Transparent };
    let largest = if said("quick") { 16 << 20 } else { 256 << 20 };

    let allowed = affinity::current()?;
    let cpu = allowed.first().ok_or("no cpu is allowed")?;
    let other = Topology::read()?.nearest(cpu, &allowed).ok_or("this needs two cpus")?;
    thread::spawn(move || {
        let _bound = affinity::bind(other).expect("an allowed cpu");
        SPINNER.serve();
    });
    let _bound = affinity::bind(cpu)?;
    println!("{}: cpus {cpu} and {other}, {pages:?} pages", words.join(" "));

    let mut ways: Vec<(&str, Way)> = vec![
        ("libc", Box::new(|to, from| to.copy_from_slice(from))),
        ("stream 1t", Box::new(|to, from| stream(to, from).expect("equal lengths"))),
        ("stream 2t", Box::new(both_stream)),
    ];
    for (name, method) in [
        ("prefetch", Method::Prefetch),
        ("block 256", Method::Block(256)),
        ("block 1024", Method::Block(1024)),
        ("block 4096", Method::Block(4096)),
        ("split", Method::Split),
        ("auto", Method::Auto),
    ] {
        let mut pair = &SPINNER;
        let way = move |to: &mut [u8], from: &[u8]| {
            copy(&mut pair, to, from, method).expect("equal lengths");
        };
        ways.push((name, Box::new(way)));
    }

    prepare(&mut &SPINNER);
    let mut pools = Pools::new(2 * largest, pages)?;
    let sizes: Vec<usize> =
        (12..).map(|bits| 1 << bits).take_while(|&size| size <= largest).collect();
    let mut table = vec![vec![]; ways.len()];
    let mut forks = vec![];
    for &size in &sizes {
        let rounds = ((1 << 30) / size).clamp(5, 41);
        // The clock has steps of 10 ns on some machines.
        let repeats = if warm && !fresh { ((256 << 10) / size).max(1) } else { 1 };
        let mut samples = vec![vec![]; ways.len()];
        let mut empty = vec![];
        let mut order: Vec<usize> = (0..ways.len()).collect();
        for _ in 0..rounds {
            // A way leaves traces in the caches and the branch predictors.
            fastrand::shuffle(&mut order);
            for &index in &order {
                let (way, samples) = (&mut ways[index], &mut samples[index]);
                let ns = undisturbed(|| {
                    let (to, from) = pools.next(size);
                    let evicted = evicted(size);
                    if evicted < size {
                        to.copy_from_slice(from);
                        to.copy_from_slice(from);
                    }
                    evict(&to[..evicted]);
                    evict(&from[..evicted]);
                    if fresh {
                        without_pages(to);
                    }
                    empty.push(ns_of(|| (&SPINNER).both(|| (), || ())));
                    let ns = ns_of(|| (0..repeats).for_each(|_| way.1(to, from)));
                    let ns = ns / repeats as f64;
                    if !warm {
                        // What it left dirty would be written back at the cost
                        // of the next one.
                        evict(to);
                    }
                    ns
                });
                samples.push(size as f64 / ns);
            }
        }
        for (row, samples) in table.iter_mut().zip(samples) {
            row.push(median(samples));
        }
        forks.push(median(empty));
    }

    print!("{:12}", "GB/s");
    for size in &sizes {
        print!("{:>8}K", size >> 10);
    }
    println!();
    for ((name, _), row) in ways.iter().zip(&table) {
        print_row(name, row, 1);
    }
    let ratio = |way: usize| -> Vec<f64> {
        let auto = table.last().expect("auto is the last way");
        auto.iter().zip(&table[way]).map(|(auto, other)| auto / other).collect()
    };
    print_row("auto/libc", &ratio(0), 2);
    print_row("auto/str. 1t", &ratio(1), 2);
    print_row("auto/str. 2t", &ratio(2), 2);
    print_row("fork ns", &forks, 0);
    Ok(())
}

/// Each thread streams its half and nothing else is done: what two threads can
/// copy at this moment.
fn both_stream(to: &mut [u8], from: &[u8]) {
    let half = (to.len() / 2) & !4095;
    let ((to, to_rest), (from, from_rest)) = (to.split_at_mut(half), from.split_at(half));
    let ours = || stream(to, from).expect("equal lengths");
    (&SPINNER).both(ours, || stream(to_rest, from_rest).expect("equal lengths"));
}

/// Gives its pages back to the kernel.
fn without_pages(to: &mut [u8]) {
    // SAFETY: whole pages of a private mapping of this program's own, exclusively
    // borrowed; they read as zero from now on.
    unsafe { madvise(to.as_mut_ptr().cast(), to.len(), Advice::LinuxDontNeed) }.expect("its pages");
}

fn print_row(name: &str, row: &[f64], digits: usize) {
    print!("{name:12}");
    for value in row {
        print!("{value:>9.digits$}");
    }
    println!();
}

/// Two regions from which places are taken one after the other.
struct Pools {
    to: Anon,
    from: Anon,
    len: usize,
    at: usize,
}

impl Pools {
    fn new(len: usize, pages: Huge) -> kumiki_sys::Result<Self> {
        let pool = || {
            let pool = Anon::new(len, pages, Populate::Now)?;
            // SAFETY: just mapped, writable, nobody else knows it.
            unsafe { ptr::write_bytes(pool.as_ptr(), 1, len) };
            Ok::<_, kumiki_sys::Error>(pool)
        };
        Ok(Pools { to: pool()?, from: pool()?, len, at: 0 })
    }

    fn next(&mut self, size: usize) -> (&mut [u8], &[u8]) {
        if self.at + size > self.len {
            self.at = 0;
        }
        let at = self.at;
        self.at += size;
        // SAFETY: at + size ≤ len bytes of the mapping, borrowed from it.
        let to = unsafe { std::slice::from_raw_parts_mut(self.to.as_ptr().wrapping_add(at), size) };
        // SAFETY: as above, of the other mapping.
        let from = unsafe { std::slice::from_raw_parts(self.from.as_ptr().wrapping_add(at), size) };
        (to, from)
    }
}

fn ns_of(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos().max(1) as f64
}

/// The first measurement during which no thread of the process was preempted,
/// or the fifth.
fn undisturbed(mut measure: impl FnMut() -> f64) -> f64 {
    let mut ns = 0.0;
    for _ in 0..5 {
        let before = preemptions();
        ns = measure();
        if preemptions() == before {
            break;
        }
    }
    ns
}

fn preemptions() -> i64 {
    // SAFETY: all-zero is a value of this struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable and of the right type.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_nivcsw
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
