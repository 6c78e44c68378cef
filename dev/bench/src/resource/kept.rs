//! What an allocator keeps of memory that has been in use: threads of a short life have much
//! of it, one at a time, and another thread frees it.

use std::ptr::NonNull;
use std::sync::{Barrier, OnceLock, mpsc};
use std::thread;

use anyhow::{Context, Result};

use super::pages::{BYTES, Pages, touch};
use super::request::MOST_MIB;

/// Threads at a time.
const THREADS: usize = 8;
/// Of each its turn, so often.
const ROUNDS: usize = 2;

/// A page on its way to who frees it.
struct Sent(NonNull<u8>);
// SAFETY: a page is its user's, whichever thread that is.
unsafe impl Send for Sent {}

/// What this process has resident more than before the first turn, MiB: what a turn has left
/// the next one uses.
pub(super) fn mib(pages: impl Pages) -> Result<f64> {
    static BEFORE: OnceLock<f64> = OnceLock::new();
    let now = resident_mib()?;
    let before = *BEFORE.get_or_init(|| now);
    let (send, receive) = mpsc::channel::<Vec<Sent>>();
    let (freed, is_freed) = mpsc::channel();
    let other = thread::spawn(move || {
        for all in receive {
            for Sent(page) in all {
                // SAFETY: sent by its only user.
                unsafe { pages.free(page) };
            }
            let _ = freed.send(());
        }
    });
    for round in 0..ROUNDS * THREADS {
        let all_have_one = Barrier::new(THREADS);
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (send, all_have_one) = (send.clone(), &all_have_one);
                scope.spawn(move || {
                    let own = one(pages);
                    all_have_one.wait();
                    if n == round % THREADS {
                        let many = (MOST_MIB << 20) / BYTES;
                        let _ = send.send((0..many).map(|_| one(pages)).collect());
                    }
                    // SAFETY: this thread's.
                    unsafe { pages.free(own.0) };
                });
            }
        });
        is_freed.recv().context("the thread that frees has gone")?;
    }
    drop(send);
    let _ = other.join();
    Ok((resident_mib()? - before).max(0.0))
}

fn one(pages: impl Pages) -> Sent {
    let page = pages.allocate();
    touch(page);
    Sent(page)
}

/// Of this process.
fn resident_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    Ok(kib.context("VmRSS in /proc/self/status")? / 1024.0)
}
