//! The pool's life under every interleaving: nobody waits for ever, one thread ends it, and none outlives its end.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use kumiki_wait::EventCount;

use super::{Claim, Life};

struct Pool {
    life: Life,
    work: EventCount,
    alive: AtomicUsize,
    ended: AtomicUsize,
}

impl Pool {
    fn new() -> Arc<Self> {
        Arc::new(Pool {
            life: Life::new(),
            work: EventCount::new(),
            alive: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        })
    }

    /// A thread of the pool, as `pool::work` has it.
    fn work(&self) {
        loop {
            let seen = self.work.look();
            if self.life.is_over() {
                break;
            }
            self.work.sleep(seen, None);
        }
        self.alive.fetch_sub(1, Ordering::AcqRel);
    }

    fn end(&self, worker: Option<thread::JoinHandle<()>>) {
        if self.life.is_to_end() {
            self.work.notify(u32::MAX);
            if let Some(worker) = worker {
                worker.join().unwrap();
            }
            self.ended.fetch_add(1, Ordering::AcqRel);
            self.life.ended(true);
        }
    }
}

#[test]
fn an_end_reaches_a_thread_wherever_it_is() {
    loom::model(|| {
        let pool = Pool::new();
        assert_eq!(pool.life.claim(), Claim::Mine);
        pool.alive.fetch_add(1, Ordering::AcqRel);
        let worker = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                pool.life.tell(true);
                pool.work();
            })
        };
        assert!(pool.life.is_made());
        pool.end(Some(worker));
        assert_eq!(pool.alive.load(Ordering::Acquire), 0);
        assert_eq!(pool.life.claim(), Claim::Mine);
    });
}

#[test]
fn of_two_who_end_it_one_does_and_both_find_it_ended() {
    loom::model(|| {
        let pool = Pool::new();
        assert_eq!(pool.life.claim(), Claim::Mine);
        pool.life.tell(true);
        let other = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                pool.end(None);
                assert_eq!(pool.ended.load(Ordering::Acquire), 1);
            })
        };
        pool.end(None);
        assert_eq!(pool.ended.load(Ordering::Acquire), 1);
        other.join().unwrap();
    });
}

#[test]
fn an_end_during_a_start_waits_for_it() {
    loom::model(|| {
        let pool = Pool::new();
        let starter = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                if pool.life.claim() == Claim::Mine {
                    pool.life.tell(true);
                }
            })
        };
        pool.end(None);
        starter.join().unwrap();
        // Ended, or begun after it.
        let is_ended = pool.ended.load(Ordering::Acquire) == 1;
        assert_eq!(pool.life.claim() == Claim::Mine, is_ended);
    });
}
