//! Two threads that take shares of a batch from a channel of crossbeam.

use std::thread::JoinHandle;

use anyhow::Result;
use crossbeam_channel::{Receiver, Sender, bounded};
use kumiki_parasc::Request;

use super::Execute;
use super::share::Share;

const WORKERS: usize = 2;
/// Shares of a batch: so many that a late worker can be helped out.
const SHARES: usize = 4 * WORKERS;

/// The workers, which end when the channel closes.
pub(crate) struct Crossbeam {
    shares: Option<Sender<Share>>,
    done: Receiver<()>,
    workers: Vec<JoinHandle<()>>,
}

impl Crossbeam {
    /// Starts the workers.
    pub(crate) fn new() -> Result<Self> {
        let (shares, mine) = bounded::<Share>(SHARES);
        let (say, done) = bounded(SHARES);
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let (mine, say) = (mine.clone(), say.clone());
            workers.push(std::thread::Builder::new().spawn(move || {
                for share in mine {
                    // SAFETY: whoever sent it waits for what is said next.
                    unsafe { share.execute() };
                    say.send(()).expect("main waits for it");
                }
            })?);
        }
        Ok(Crossbeam { shares: Some(shares), done, workers })
    }
}

impl Execute for Crossbeam {
    unsafe fn execute(&mut self, requests: &[Request], results: &mut [i64]) {
        let mut sent = 0;
        for share in Share::cut(requests, results, SHARES) {
            let shares = self.shares.as_ref().expect("open until drop");
            shares.send(share).expect("workers live as long");
            sent += 1;
        }
        for _ in 0..sent {
            self.done.recv().expect("workers live as long");
        }
    }
}

impl Drop for Crossbeam {
    fn drop(&mut self) {
        self.shares = None;
        for worker in self.workers.drain(..) {
            worker.join().expect("calls do not panic");
        }
    }
}
