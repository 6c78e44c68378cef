//! Which job runs when.

use std::cmp::Reverse;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;

use super::job::{Job, Outcome};

/// Runs the jobs, `at_once` at a time, those first that take longest and the others in their order, so
/// that no long one is left alone at the end; then one after the other those that
/// nothing may run beside. `done` hears of each as it ends.
pub(super) fn run(
    jobs: Vec<Job>,
    at_once: usize,
    run: impl Fn(&Job) -> Outcome + Sync,
    mut done: impl FnMut(Job, Outcome),
) {
    let (alone, mut beside): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.alone);
    beside.sort_by_key(|job| Reverse(job.seconds));
    let queue = Mutex::new(beside.into_iter());
    let next = || queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    let (send, ended) = mpsc::channel();
    thread::scope(|threads| {
        for _ in 0..at_once.max(1) {
            let (send, next, run) = (send.clone(), &next, &run);
            threads.spawn(move || {
                while let Some(job) = next() {
                    let outcome = run(&job);
                    if send.send((job, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        ended.iter().for_each(|(job, outcome)| done(job, outcome));
    });
    for job in alone {
        let outcome = run(&job);
        done(job, outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    fn job(name: &str, alone: bool) -> Job {
        Job { name: name.to_owned(), command: Command::new("true"), alone, seconds: 0 }
    }

    #[test]
    fn as_many_at_once_as_asked_for_and_the_others_alone_after_them() {
        let jobs = ["a", "B", "b", "C", "c", "d"];
        let jobs = jobs.map(|name| job(name, name.chars().all(char::is_uppercase)));
        let running = AtomicUsize::new(0);
        let pairs = Barrier::new(2);
        let mut order = Vec::new();
        let runs = |job: &Job| {
            let others = running.fetch_add(1, SeqCst);
            if job.alone {
                assert_eq!(others, 0, "{} has company", job.name);
            } else {
                assert!(others < 2);
                // Ends only together with another one.
                pairs.wait();
            }
            running.fetch_sub(1, SeqCst);
            Outcome { passed: 1, ..Outcome::default() }
        };
        run(jobs.into(), 2, runs, |job, outcome| {
            assert_eq!(outcome.passed, 1);
            order.push(job.name);
        });
        assert_eq!(order.len(), 6);
        assert_eq!(order[4..], ["B", "C"]);
    }

    #[test]
    fn what_takes_longest_is_begun_first() {
        let jobs = [("a", 0), ("b", 40), ("c", 470), ("d", 40), ("e", 0)];
        let jobs = jobs.map(|(name, seconds)| Job { seconds, ..job(name, false) });
        let mut order = Vec::new();
        run(jobs.into(), 1, |_| Outcome::default(), |job, _| order.push(job.name));
        assert_eq!(order, ["c", "b", "d", "a", "e"]);
    }
}
