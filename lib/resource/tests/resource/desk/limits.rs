//! Requests that are not waited for to their end: time limits, cancelling, a full mailbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use kumiki_resource::desk::{Caller, Error, LINES};

use super::{caller, desk};

/// Too short for anything that waits for us.
const SHORT: Duration = Duration::from_millis(30);
/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Has the server wait inside of a request until the sender is dropped.
fn hold(caller: &mut Caller) -> Sender<()> {
    let (go, gone) = channel::<()>();
    let (tell, told) = channel();
    let wait = move |gone: Receiver<()>| {
        tell.send(()).unwrap();
        let _ = gone.recv();
    };
    caller.submit(move || wait(gone)).unwrap().detach();
    told.recv().unwrap();
    go
}

#[test]
fn what_has_not_begun_in_time_never_runs() {
    let (door, server) = desk();
    let (mut busy, mut caller) = (caller(&door), caller(&door));
    let held = hold(&mut busy);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        move || ran.fetch_add(1, Ordering::Relaxed)
    };
    let late = caller.call_timeout(SHORT, count(&ran));
    assert!(matches!(late, Err(Error::TimedOut { begun: false })), "{late:?}");
    assert_eq!(Arc::strong_count(&ran), 1, "its captures are dropped");
    drop(held);
    // The line that was got back is passed over, and the next ones are served.
    for before in 0..3 * LINES {
        let done = caller.call_timeout(LONG, count(&ran));
        assert_eq!(done.unwrap(), before);
    }
    door.close();
    server.join().unwrap();
}

#[test]
fn what_runs_when_the_time_is_over_has_its_effect_and_says_so() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let result = Arc::new(());
    let theirs = Arc::clone(&result);
    let (go, gone) = channel::<()>();
    let late = caller.call_timeout(SHORT, move || {
        let _ = gone.recv();
        theirs
    });
    match late {
        Err(Error::TimedOut { begun: true }) => (),
        // The server had no cpu in all that time.
        Err(Error::TimedOut { begun: false }) => assert_eq!(Arc::strong_count(&result), 1),
        other => panic!("{other:?}"),
    }
    drop(go);
    // Served in order: the one before is over, and its result dropped when the calls come
    // to another line.
    for _ in 0..=LINES {
        caller.call(|| ()).unwrap();
    }
    assert_eq!(Arc::strong_count(&result), 1);
    door.close();
    server.join().unwrap();
}

#[test]
fn an_answer_that_is_dropped_cancels_what_has_not_begun() {
    let (door, server) = desk();
    let (mut busy, mut caller) = (caller(&door), caller(&door));
    let held = hold(&mut busy);
    let ran = Arc::new(AtomicUsize::new(0));
    let submit = |caller: &mut Caller| {
        let ran = Arc::clone(&ran);
        caller.submit(move || ran.fetch_add(1, Ordering::Relaxed)).unwrap()
    };
    let answers: Vec<_> = (0..4).map(|_| submit(&mut caller)).collect();
    let [dropped, cancelled, detached, kept]: [_; 4] = answers.try_into().unwrap();
    // From another thread, too.
    thread::spawn(|| drop(dropped)).join().unwrap();
    cancelled.cancel().expect("nobody has begun it");
    detached.detach();
    assert_eq!(Arc::strong_count(&ran), 3);
    drop(held);
    assert_eq!(caller.join(kept).unwrap(), 1);
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    let done = submit(&mut caller);
    caller.call(|| ()).unwrap();
    done.cancel().expect_err("it has run");
    door.close();
    server.join().unwrap();
}

#[test]
fn a_mailbox_has_room_for_so_many() {
    let (door, server) = desk();
    let mut caller = caller(&door);
    let held = hold(&mut caller);
    let answers: Vec<_> = (1..LINES).map(|i| caller.submit(move || i).unwrap()).collect();
    assert!(!caller.has_room());
    assert!(matches!(caller.submit(|| ()), Err(Error::Full)));
    let full = caller.call_timeout(SHORT, || ());
    assert!(matches!(full, Err(Error::Full)));
    drop(held);
    for (i, answer) in (1..LINES).zip(answers) {
        assert_eq!(caller.join(answer).unwrap(), i);
    }
    assert!(caller.has_room());
    door.close();
    server.join().unwrap();
}

#[test]
fn an_answer_can_be_passed_on_by_the_one_who_was_asked() {
    // a asks b, which asks c and does not wait; a gets c's answer.
    let ((door_b, b), (door_c, c)) = (desk(), desk());
    let mut ask_b = caller(&door_b);
    let mut ask_c = caller(&door_c);
    let from_c = ask_b.call(move || {
        let answer = ask_c.submit(|| thread::current().id());
        (ask_c, answer)
    });
    let (_ask_c, answer) = from_c.unwrap();
    assert_eq!(answer.unwrap().wait().unwrap(), c.thread().id());
    for (door, server) in [(door_b, b), (door_c, c)] {
        door.close();
        server.join().unwrap();
    }
}
