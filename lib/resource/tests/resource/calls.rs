//! Operations that the caller does not simply wait for.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use kumiki_resource::desk::Error as CallError;
use kumiki_resource::{Answer, Error, Handle, Interface, Next, Place};
use kumiki_sys::affinity;

use crate::{Counter, Flag, both, builder};

fn why<R: std::fmt::Debug>(outcome: kumiki_resource::Result<R>) -> CallError {
    match outcome.unwrap_err() {
        Error::Manager { source, .. } => source,
        other => panic!("{other}"),
    }
}

/// The least that an executor does: nothing but waiting to be woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn many_are_under_way_and_are_joined_or_awaited() {
    for interface in both() {
        let place = *interface.places().last().unwrap();
        let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
        let add = |i: u64| {
            let add = move |counter: &mut Counter, _: &mut usize| {
                counter.value += i;
                counter.value
            };
            interface.start(&counter, add).unwrap()
        };
        for _ in 0..50 {
            let answers: Vec<_> = (0..20).map(add).collect();
            let joined: Vec<u64> = answers.into_iter().map(|a| a.wait().unwrap()).collect();
            assert!(joined.is_sorted());
            let answers: Vec<_> = (0..20).map(add).collect();
            answers.into_iter().for_each(|answer| _ = block_on(answer).unwrap());
        }
        // By another thread than has asked.
        let answer = add(0);
        let there = thread::scope(|s| s.spawn(|| answer.wait().unwrap()).join().unwrap());
        assert_eq!(there, 50 * 2 * 190);
        let gone = interface.of_id::<Counter>(counter.id()).unwrap();
        interface.destroy(counter).unwrap();
        let stale = interface.start(&gone, |counter, _| counter.value);
        assert!(matches!(stale.unwrap().wait(), Err(Error::Stale { .. })));
    }
}

/// A resource whose owner is busy until the sender is dropped.
pub(crate) fn busy(
    interface: &Interface,
    place: Place,
) -> (std::sync::mpsc::Sender<()>, Answer<()>) {
    let flag = interface.create::<Flag>(place, None, ()).unwrap();
    let (go, gone) = channel::<()>();
    let (tell, told) = channel();
    let answer = interface.start(&flag, move |_, ()| {
        tell.send(()).unwrap();
        let _ = gone.recv();
    });
    told.recv().unwrap();
    (go, answer.unwrap())
}

#[test]
fn time_limits_and_cancelling_tell_what_has_run() {
    let interface = builder().per_core().unwrap();
    let place = interface.places()[0];
    let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
    let count = |counter: &mut Counter, _: &mut usize| counter.value += 1;
    let (go, answer) = busy(&interface, place);
    let soon = Duration::from_millis(20);
    let (tell, told) = channel();
    let last = move |counter: &mut Counter, pool: &mut usize| {
        count(counter, pool);
        tell.send(()).unwrap();
    };
    // From another thread, whose lane is not held up by the first request.
    thread::scope(|threads| {
        let (interface, counter) = (&interface, &counter);
        threads.spawn(move || {
            let late = why(interface.with_timeout(counter, soon, count));
            assert!(matches!(late, CallError::TimedOut { begun: false }), "{late}");
            let started = interface.start(counter, count).unwrap();
            let started = started.wait_timeout(soon).expect_err("the owner is busy");
            let started = started.wait_timeout(Duration::ZERO).expect_err("it still is");
            assert!(!started.is_done());
            started.cancel().expect("nobody has begun it");
            drop(interface.start(counter, count).unwrap());
            interface.start(counter, last).unwrap().detach();
        });
    });
    drop(go);
    answer.wait().unwrap();
    // The last of that lane: what was taken back before it would have run by now.
    told.recv().unwrap();
    let enough = Duration::from_secs(60);
    assert_eq!(interface.with_timeout(&counter, enough, |counter, _| counter.value).unwrap(), 1);
    // An answer that has come is there at once, and cannot be taken back.
    let value = interface.start(&counter, |counter, _| counter.value).unwrap();
    let value = match value.wait_timeout(enough) {
        Ok(value) => value.unwrap(),
        Err(late) => panic!("{late:?} after {enough:?}"),
    };
    assert_eq!(value, 1);
    let done = interface.start(&counter, |counter, _| counter.value).unwrap();
    interface.with(&counter, |_, _| ()).unwrap();
    assert_eq!(done.cancel().expect_err("it has run").wait().unwrap(), 1);
}

/// Which of an answer's two sides waits: its own thread, another one, or a manager that serves.
#[test]
fn a_time_limit_ends_the_wait_of_whoever_waits() {
    let mut cpus = kumiki_sys::affinity::current().unwrap();
    let Some(own) = cpus.first() else { return };
    let _ = cpus.remove(own);
    let others = cpus.first();
    let adopted = builder().cores(others).adopted([own]).per_core().unwrap();
    let [here, there] = adopted.places()[..] else {
        return eprintln!("skipped: two cpus are needed");
    };
    let mut manager = adopted.manage(here).unwrap();
    let counter = adopted.create::<Counter>(there, None, (7, None)).unwrap();
    let mine = adopted.create::<Counter>(here, None, (1, None)).unwrap();
    let (go, held) = busy(&adopted, there);
    let soon = Duration::from_millis(5);
    // The manager's own request, and one of another thread's that it is given.
    let own = adopted.start(&counter, |counter, _| counter.value).unwrap();
    let own = own.wait_timeout(soon).expect_err("its owner is held");
    let given = thread::scope(|threads| {
        let start = || adopted.start(&counter, |counter, _| counter.value).unwrap();
        threads.spawn(start).join().unwrap()
    });
    let given = given.wait_timeout(soon).expect_err("its owner is held");
    // And a third thread takes it, while this one serves.
    let theirs = thread::scope(|threads| {
        let waits = threads.spawn(|| given.wait_timeout(soon).expect_err("its owner is held"));
        while !waits.is_finished() {
            manager.wait_timeout(Duration::from_millis(1));
        }
        waits.join().unwrap()
    });
    // What is this manager's own is there at once.
    let at_once = adopted.start(&mine, |counter, _| counter.value).unwrap();
    assert_eq!(at_once.wait_timeout(Duration::ZERO).expect("it ran here").unwrap(), 1);
    drop(go);
    let enough = Duration::from_secs(60);
    held.wait().unwrap();
    assert_eq!(own.wait_timeout(enough).expect("its owner serves").unwrap(), 7);
    assert_eq!(theirs.wait_timeout(enough).expect("its owner serves").unwrap(), 7);
}

#[test]
fn an_answer_that_is_not_taken_holds_up_no_other_calls() {
    let interface = builder().per_core().unwrap();
    let place = interface.places()[0];
    let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
    let value = |counter: &mut Counter, _: &mut usize| {
        counter.value += 1;
        counter.value
    };
    let kept = interface.start(&counter, value).unwrap();
    for called in 0..200 {
        assert_eq!(interface.with(&counter, value).unwrap(), called + 2);
    }
    let (go, first) = busy(&interface, place);
    // Beside those two.
    let mut answers = Vec::new();
    let full = loop {
        match interface.start(&counter, value) {
            Ok(answer) => answers.push(answer),
            refused => break why(refused.map(|_| ())),
        }
        assert!(answers.len() < 100, "there is a bound");
    };
    assert!(matches!(full, CallError::Full), "{full}");
    assert!(answers.len() >= 30, "{}", answers.len());
    drop(go);
    first.wait().unwrap();
    answers.into_iter().for_each(|answer| _ = answer.wait().unwrap());
    assert_eq!(kept.wait().unwrap(), 1);
    assert!(interface.with(&counter, value).is_ok());
}

#[test]
fn a_panic_is_an_error_and_the_table_lives_on() {
    let interface = builder().per_core().unwrap();
    let counter = interface.create::<Counter>(interface.places()[0], None, (1, None)).unwrap();
    let panic = |_: &mut Counter, _: &mut usize| panic!("on purpose");
    let outcomes = [
        interface.with(&counter, panic),
        interface.with_timeout(&counter, Duration::from_secs(60), panic),
        interface.start(&counter, panic).unwrap().wait(),
        block_on(interface.start(&counter, panic).unwrap()),
    ];
    for outcome in outcomes {
        let text = why(outcome).to_string();
        assert!(text.ends_with("on purpose"), "{text}");
    }
    assert_eq!(interface.with(&counter, |counter, _| counter.value).unwrap(), 1);
}

#[test]
fn a_panic_that_is_caught_is_the_same_error_on_the_callers_own_core() {
    let cpu = affinity::current().unwrap().first().unwrap();
    let interfaces = [builder().cores([cpu]), builder().cores([]).adopted([cpu])];
    for (at, builder) in interfaces.into_iter().enumerate() {
        let interface = builder.per_core().unwrap();
        let place = interface.places()[0];
        let _manager = (at == 1).then(|| interface.manage(place).unwrap());
        let counter = interface.create::<Counter>(place, None, (1, None)).unwrap();
        for n in 0..3 {
            let panics = interface.with_caught(&counter, |_: &mut Counter, _| -> i64 {
                std::panic::resume_unwind(Box::new("on purpose"))
            });
            let refused = panics.unwrap_err();
            let is_panic =
                matches!(&refused, Error::Manager { source: CallError::Panicked(_), .. });
            assert!(is_panic && refused.to_string().ends_with("on purpose"), "{at}: {refused}");
            // Its table is free.
            let value = interface.with_caught(&counter, |counter, _| {
                counter.value += 1;
                counter.value
            });
            assert_eq!(value.unwrap(), n + 2, "{at}");
        }
    }
}

/// Where it runs.
fn thread_name() -> String {
    thread::current().name().unwrap_or("none").to_owned()
}

/// From the first resource to the second.
fn pass(interface: &Interface, from: &Handle<Flag>, to: &Handle<Counter>) -> Answer<[String; 2]> {
    let to = interface.of_id::<Counter>(to.id()).unwrap();
    interface
        .chain(from, move |_, ()| {
            let first = thread_name();
            let run = move |counter: &mut Counter, _: &mut usize| {
                counter.value += 1;
                [first, thread_name()]
            };
            Next { to, run }
        })
        .unwrap()
}

#[test]
fn an_owner_sends_on_without_waiting() {
    let interface = builder().per_core().unwrap();
    let places = interface.places();
    let [first, last] = [places[0], *places.last().unwrap()];
    let flag = interface.create::<Flag>(first, None, ()).unwrap();
    let counter = interface.create::<Counter>(last, None, (0, None)).unwrap();
    let names = [first, last].map(|place| format!("core{}", place.0));
    for _ in 0..100 {
        assert_eq!(pass(&interface, &flag, &counter).wait().unwrap(), names);
        assert_eq!(block_on(pass(&interface, &flag, &counter)).unwrap(), names);
    }
    if first != last {
        // The second owner is busy, and the first one goes on.
        let (go, answer) = busy(&interface, last);
        let passed = pass(&interface, &flag, &counter);
        assert!(interface.with(&flag, |_, ()| ()).is_ok() && !passed.is_done());
        drop(go);
        assert_eq!(passed.wait().unwrap(), names);
        answer.wait().unwrap();
    }
    assert!(interface.with(&counter, |counter, _| counter.value).unwrap() >= 200);
}

#[test]
fn what_is_sent_on_may_come_back_to_a_manager_that_waits() {
    let cpus: Vec<usize> = affinity::current().unwrap().iter().take(2).collect();
    if cpus.len() < 2 {
        return eprintln!("skipped: two cpus are needed");
    }
    let interface = builder().cores([]).adopted(cpus).per_core().unwrap();
    let places = interface.places();
    let ended = AtomicUsize::new(0);
    // Each manager: its own counter counted by way of the other manager's flag.
    let run = |own: usize| {
        let (interface, places, ended) = (&interface, &places, &ended);
        move || {
            let mut manager = interface.manage(places[own]).unwrap();
            let counter = interface.create::<Counter>(places[own], None, (0, None)).unwrap();
            let flag = interface.create::<Flag>(places[1 - own], None, ()).unwrap();
            for _ in 0..300 {
                pass(interface, &flag, &counter).wait().unwrap();
            }
            let count = interface.with(&counter, |counter, _| counter.value).unwrap();
            ended.fetch_add(1, Ordering::Relaxed);
            while ended.load(Ordering::Relaxed) < 2 {
                manager.wait_timeout(Duration::from_millis(1));
            }
            count
        }
    };
    thread::scope(|threads| {
        let both = [threads.spawn(run(0)), threads.spawn(run(1))];
        assert_eq!(both.map(|thread| thread.join().unwrap()), [300, 300]);
    });
}

#[test]
fn a_manager_that_is_killed_answers_all_that_is_pending() {
    let interface = builder().per_core().unwrap();
    let place = interface.places()[0];
    let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
    let (ready, began) = (Arc::new(AtomicBool::new(false)), channel());
    let theirs = Arc::clone(&ready);
    let (tell, told) = began;
    let killed = interface.start(&counter, move |_, _| {
        tell.send(()).unwrap();
        while !theirs.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // SAFETY: ends the manager's thread alone, which nobody joins.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    told.recv().unwrap();
    let behind = interface.start(&counter, |counter, _| counter.value).unwrap();
    thread::scope(|threads| {
        let waits = threads.spawn(|| why(interface.with(&counter, |counter, _| counter.value)));
        let awaits = threads.spawn(move || [why(block_on(killed.unwrap())), why(block_on(behind))]);
        thread::sleep(Duration::from_millis(5));
        ready.store(true, Ordering::Release);
        assert!(matches!(awaits.join().unwrap(), [CallError::Died, CallError::Gone]));
        assert!(matches!(waits.join().unwrap(), CallError::Gone));
    });
    // Whoever comes later is told at once.
    assert!(matches!(why(interface.with(&counter, |counter, _| counter.value)), CallError::Gone));
}

#[test]
fn a_batch_is_one_request_for_each_owner_and_its_results_are_in_order() {
    for interface in both() {
        let places = interface.places();
        let make = |n: u64| {
            let place = places[n as usize % places.len()];
            interface.create::<Counter>(place, None, (n, None)).unwrap()
        };
        let counters: Vec<Handle<Counter>> = (0..20).map(make).collect();
        let add = |counter: &mut Counter, _: &mut usize, by: u64| {
            counter.value += by;
            counter.value
        };
        for round in 1..=50 {
            let all = interface.each(counters.iter().map(|counter| (counter, 100)), add);
            let values: Vec<u64> = all.into_iter().map(Result::unwrap).collect();
            assert_eq!(values, (0..20).map(|n| n + 100 * round).collect::<Vec<_>>());
        }
        // One twice: in the order of the batch.
        let twice = interface.each([(&counters[3], 1), (&counters[3], 2)], add);
        let twice: Vec<u64> = twice.into_iter().map(Result::unwrap).collect();
        assert_eq!(twice, [5004, 5006]);
        assert!(interface.each::<Counter, u64, _, _>([], add).is_empty());
    }
}

#[test]
fn what_fails_in_a_batch_keeps_nothing_else_from_running() {
    for interface in both() {
        let place = *interface.places().last().unwrap();
        let make = || interface.create::<Counter>(place, None, (0, None)).unwrap();
        let (gone, looked_at) = (make(), make());
        let stale = interface.of_id::<Counter>(gone.id()).unwrap();
        interface.destroy(gone).unwrap();
        let unusable = looked_at.share(kumiki_resource::Rights::SHARE).unwrap();
        let other = builder().per_core().unwrap();
        let foreign = other.create::<Counter>(other.places()[0], None, (0, None)).unwrap();
        let good = make();
        let all = [&stale, &good, &unusable, &foreign, &good, &good];
        let count = |counter: &mut Counter, _: &mut usize, n: usize| {
            assert!(n != 4, "a batch's panic");
            counter.value += 1;
            counter.value
        };
        let results = interface.each(all.into_iter().zip(0..), count);
        let [a, b, c, d, e, f] = &results[..] else { panic!("six") };
        assert!(matches!(a, Err(Error::Stale { .. })), "{a:?}");
        assert!(matches!(c, Err(Error::Rights { .. })), "{c:?}");
        assert!(matches!(d, Err(Error::Foreign { .. })), "{d:?}");
        assert!(matches!((b, f), (Ok(1), Ok(2))), "{b:?} {f:?}");
        let panicked = e.as_ref().unwrap_err().to_string();
        assert!(panicked.contains("a batch's panic"), "{panicked}");
    }
}

#[test]
fn an_owner_that_has_gone_is_the_error_of_all_that_it_was_to_do() {
    let Some(cpu) = affinity::current().unwrap().first() else { return };
    let interface = builder().cores([]).adopted([cpu]).per_core().unwrap();
    let place = interface.places()[0];
    let manager = interface.manage(place).unwrap();
    let counter = interface.create::<Counter>(place, None, (0, None)).unwrap();
    let all = || interface.each([(&counter, ()), (&counter, ())], |counter, _, ()| counter.value);
    assert!(all().iter().all(Result::is_ok), "on its own place at once");
    drop(manager);
    for outcome in all() {
        assert!(matches!(why(outcome), CallError::Gone));
    }
}
