//! Servers that end, or learn of another's end, however busy they are.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_resource::desk::{Answer, Caller, Error, LINES};

use super::deaths::{die, mortal};
use super::{caller, filter, waiter};

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// Always has something for the server, until that has ended or `done` says so.
fn never_rest(caller: &mut Caller, done: &AtomicBool) {
    let end = Instant::now() + LONG;
    let mut answers = std::collections::VecDeque::new();
    while Instant::now() < end && !done.load(Ordering::Relaxed) {
        match caller.submit(|| thread::sleep(Duration::from_micros(200))) {
            Ok(answer) => answers.push_back(answer),
            Err(error) => panic!("{error}"),
        }
        if answers.len() == LINES && caller.join(answers.pop_front().unwrap()).is_err() {
            break;
        }
    }
    // What is left is cancelled.
}

/// A caller, and answers that it has not asked for yet.
type Asking = Arc<Mutex<(Caller, Vec<Answer<()>>)>>;

/// A request that hands over the next one.
fn again(asking: &Asking, ran: &Arc<AtomicUsize>) {
    let before = ran.fetch_add(1, Ordering::Relaxed);
    if before < LINES {
        let (next, theirs) = (Arc::clone(asking), Arc::clone(ran));
        let (caller, answers) = &mut *asking.lock().unwrap();
        answers.push(caller.submit(move || again(&next, &theirs)).unwrap());
    }
}

#[test]
fn what_comes_while_a_server_ends_does_not_keep_it() {
    let (door, server) = kumiki_resource::desk::open();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut other = caller(&door);
    let asking = Arc::new(Mutex::new((caller(&door), Vec::new())));
    again(&asking, &ran);
    let answer = other.submit(|| 7).unwrap();
    server.begin().end();
    assert_eq!(other.join(answer).unwrap(), 7);
    // One here, one that had come.
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    let answers = std::mem::take(&mut asking.lock().unwrap().1);
    let outcomes: Vec<_> = answers.into_iter().map(Answer::wait).collect();
    assert!(matches!(outcomes[..], [Ok(()), Err(Error::Gone)]), "{outcomes:?}");
}

#[test]
fn a_server_that_serves_without_a_rest_learns_that_the_one_it_called_has_died() {
    let (door, server) = kumiki_resource::desk::open();
    let told = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            let mut server = server.begin();
            let mut asks = mortal().caller_of(&server, waiter());
            let died = asks.call_serving(die, Some(&mut server));
            assert!(matches!(died, Err(Error::Died)), "{died:?}");
            assert!(!told.swap(true, Ordering::Relaxed));
        });
        never_rest(&mut caller(&door), &told);
        assert!(told.load(Ordering::Relaxed), "it was told when its own callers had ended");
    });
}

#[test]
fn who_cannot_fence_any_more_gets_back_what_an_ended_server_has_left() {
    // The process relies on membarrier(2), and then this thread may not use it.
    kumiki_wait::barrier::is_asymmetric();
    let (door, server) = kumiki_resource::desk::open();
    let (ended, left) = (caller(&door), caller(&door));
    thread::scope(|threads| {
        for (mut caller, first) in [(ended, true), (left, false)] {
            threads.spawn(move || {
                filter::filter(&[libc::SYS_membarrier], filter::REFUSE);
                // One is there before the end, the other may be.
                let answer = first.then(|| caller.submit(|| ()).unwrap());
                thread::sleep(Duration::from_millis(if first { 0 } else { 40 }));
                assert!(matches!(caller.call(|| ()), Err(Error::Gone)));
                if let Some(answer) = answer {
                    assert!(matches!(caller.join(answer), Err(Error::Gone)));
                }
            });
        }
        thread::sleep(Duration::from_millis(20));
        drop(server);
    });
}
