//! Calls and answers of a server that lives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use kumiki_resource::desk::{Error, LINES};

use super::{caller, desk, waiter};

#[test]
fn calls_borrow_and_run_on_the_server() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let mut text = String::from("a");
    let there = caller
        .call(|| {
            text.push('b');
            thread::current().id()
        })
        .unwrap();
    assert_eq!((text.as_str(), there), ("ab", server.thread().id()));
    door.close();
    server.join().unwrap();
}

#[test]
fn large_captures_and_results_cross() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let large = [7_u64; 100];
    assert_eq!(caller.call(move || large.map(|n| n + 1)).unwrap(), [8; 100]);
    door.close();
    server.join().unwrap();
}

#[test]
fn each_caller_s_requests_run_in_their_order() {
    let (door, server) = desk();
    let (sender, order) = mpsc::channel();
    thread::scope(|threads| {
        for id in 0..3 {
            let (door, sender) = (&door, sender.clone());
            threads.spawn(move || {
                let mut caller = caller(door);
                let mut answers = std::collections::VecDeque::new();
                for i in 0..1000 {
                    if answers.len() == LINES {
                        caller.join(answers.pop_front().unwrap()).unwrap();
                    }
                    let sender = sender.clone();
                    answers
                        .push_back(caller.submit(move || sender.send((id, i)).unwrap()).unwrap());
                }
                for answer in answers {
                    caller.join(answer).unwrap();
                }
            });
        }
    });
    drop(sender);
    let all: Vec<(usize, usize)> = order.into_iter().collect();
    assert_eq!(all.len(), 3000);
    for id in 0..3 {
        let own = all.iter().filter(|(of, _)| *of == id).map(|(_, i)| *i);
        assert!(own.eq(0..1000));
    }
    door.close();
    server.join().unwrap();
}

#[test]
fn a_panic_is_the_caller_s_and_the_server_serves_on() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let error = caller.call::<_, ()>(|| panic!("on purpose")).unwrap_err();
    assert!(matches!(&error, Error::Panicked(_)), "{error}");
    assert!(error.to_string().ends_with(": on purpose"), "{error}");
    assert_eq!(caller.call(|| 1).unwrap(), 1);
    door.close();
    server.join().unwrap();
}

#[test]
fn answers_that_nobody_takes_fill_the_lines_and_are_not_lost() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let answers: Vec<_> = (0..LINES).map(|i| caller.submit(move || i).unwrap()).collect();
    assert!(matches!(caller.call(|| ()), Err(Error::Full)));
    assert!(matches!(caller.submit(|| ()), Err(Error::Full)));
    for (i, answer) in answers.into_iter().enumerate() {
        assert_eq!(caller.join(answer).unwrap(), i);
    }
    assert_eq!(caller.call(|| 5).unwrap(), 5);
    door.close();
    server.join().unwrap();
}

/// Counts those of its kind that live.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn what_nobody_wants_is_dropped_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let (door, server) = desk();
    let mut caller = caller(&door);
    for round in 0..5 * LINES {
        let counted = Counted::new(&count);
        match caller.submit(move || counted) {
            Ok(answer) if round % 3 == 0 => drop(caller.join(answer).unwrap()),
            Ok(answer) => drop(answer),
            // The server is behind.
            Err(error) => assert!(matches!(error, Error::Full), "{error}"),
        }
    }
    // Its answers are dropped with the last of the seat.
    drop(caller);
    door.close();
    server.join().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_server_that_closes_answers_what_has_come() {
    for _ in 0..200 {
        let (door, server) = desk();
        let mut caller = caller(&door);
        caller.call(|| ()).unwrap();
        let run = Arc::new(AtomicUsize::new(0));
        let closer = thread::spawn({
            let door = door.clone();
            move || door.close()
        });
        let mut done = 0;
        let gone = loop {
            let run = Arc::clone(&run);
            match caller.call(move || run.fetch_add(1, Ordering::Relaxed)) {
                Ok(before) => {
                    assert_eq!(before, done);
                    done += 1;
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(gone, Error::Gone), "{gone}");
        server.join().unwrap();
        closer.join().unwrap();
        assert_eq!(run.load(Ordering::Relaxed), done, "what was refused has not run");
        assert!(door.is_gone());
    }
}

#[test]
fn two_servers_call_each_other_and_serve_meanwhile() {
    let (left_door, left) = kumiki_resource::desk::open();
    let (right_door, right) = kumiki_resource::desk::open();
    let served = AtomicUsize::new(0);
    let run = |server: kumiki_resource::desk::Server, to: &kumiki_resource::desk::Door| {
        let mut server = server.begin();
        let mut caller = to.caller_of(&server, waiter());
        for _ in 0..2000 {
            caller
                .call_serving(|| served.fetch_add(1, Ordering::Relaxed), Some(&mut server))
                .unwrap();
        }
        // The other may still need this one.
        while served.load(Ordering::Relaxed) < 4000 {
            server.wait_timeout(&mut waiter(), Duration::from_millis(1));
            server.round();
        }
        server.end();
    };
    thread::scope(|threads| {
        threads.spawn(|| run(left, &right_door));
        threads.spawn(|| run(right, &left_door));
    });
    assert_eq!(served.into_inner(), 4000);
}

/// The other thread may not take the server's wakes.
#[test]
fn a_server_s_caller_in_another_thread_is_answered_and_the_server_sleeps_at_its_own_bell() {
    let (door, asked) = desk();
    let (own_door, own) = kumiki_resource::desk::open();
    let (give, given) = mpsc::channel();
    let server = thread::spawn({
        let door = door.clone();
        move || {
            let serving = own.begin();
            give.send(door.caller_of(&serving, waiter())).unwrap();
            serving.serve(&mut waiter());
        }
    });
    let (mut away, mut own) = (given.recv().unwrap(), caller(&own_door));
    let slow = || thread::sleep(Duration::from_millis(2));
    thread::scope(|threads| {
        threads.spawn(move || (0..20).for_each(|_| away.call(slow).unwrap()));
        (0..20).for_each(|_| own.call(slow).unwrap());
    });
    for (door, server) in [(door, asked), (own_door, server)] {
        door.close();
        server.join().unwrap();
    }
}
