//! Every interleaving of requests that end and the loop that has only the descriptor to go by.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loom::sync::Mutex;
use loom::thread;

use super::Completions;

/// A request, and who is to be woken at its end.
#[derive(Debug, Default)]
struct Request(Mutex<(bool, Option<Waker>)>);

impl Request {
    fn end(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

struct UnderWay(Arc<Request>);

impl Future for UnderWay {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Threads that end `each` requests, one after the other, and a loop that waits for all of them.
fn all_are_told(threads: usize, each: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let mut completions = Completions::new().unwrap();
        let enders: Vec<_> = (0..threads)
            .map(|_| {
                let requests: Vec<_> = (0..each).map(|_| Arc::<Request>::default()).collect();
                requests.iter().for_each(|one| _ = completions.add(UnderWay(Arc::clone(one))));
                thread::spawn(move || requests.iter().for_each(|request| request.end()))
            })
            .collect();
        while !completions.is_empty() {
            completions.poll();
            completions.take().for_each(drop);
        }
        enders.into_iter().for_each(|ender| ender.join().unwrap());
    });
}

#[test]
fn one_thread_ends_them() {
    all_are_told(1, 3);
}

#[test]
fn two_threads_end_them() {
    all_are_told(2, 2);
}
