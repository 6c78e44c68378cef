//! Every interleaving of the protocols, as far as the checker goes: each request
//! is executed once or taken back, every result is seen, nobody sleeps on a
//! request that waits.

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use kumiki_wait::{Policy, Sleep, Threshold, Waiter};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::awaited::{self, WaitStep};
use crate::claim::{At, Claim, OWNER_DIED};
use crate::core::Pool;
use crate::line::{Calls, Line, OfferWord};
use crate::placed::{Handed, Look, Place, Placed};
use crate::primitive::lock;
use crate::queue::Queue;
use crate::side::Side;
use crate::task::{Base, Task, TaskEnd};
use kumiki_calls::Request;

/// A single call's number.
const ONE: libc::c_long = 7;

fn model(scene: impl Fn() + Sync + Send + 'static) {
    bounded(3, scene);
}

/// Runs a scene with at most so many moments at which a thread loses the cpu.
fn bounded(preemptions: usize, scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    let asked = model.preemption_bound.unwrap_or(preemptions);
    model.preemption_bound = Some(asked.min(preemptions));
    model.check(scene);
}

/// Policy of a thread that sleeps at once.
fn sleeper() -> Policy {
    Policy { threshold: Threshold::Ticks(0), sleep: Sleep::Futex, ..Policy::default() }
}

/// Does `work` beside so many processing threads, which end before it returns.
fn beside<T: 'static>(processors: usize, scene: &Arc<T>, serve: fn(&T), work: impl FnOnce()) {
    let processor = |_| {
        let scene = Arc::clone(scene);
        thread::spawn(move || serve(&scene))
    };
    let threads: Vec<_> = (0..processors).map(processor).collect();
    work();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Offer of a requesting thread, with results that only one thread may be at.
struct Offered {
    line: Line,
    side: Side,
    results: Vec<UnsafeCell<i64>>,
    executed: Vec<Count>,
}

impl Offered {
    fn new(calls: usize) -> Arc<Self> {
        Arc::new(Offered {
            line: Line::default(),
            side: Side::default(),
            results: (0..calls).map(|_| UnsafeCell::new(0)).collect(),
            executed: (0..calls).map(|_| Count::new(0)).collect(),
        })
    }

    /// Addresses of the calls of batch `number`, as far as this model goes.
    fn calls(number: usize) -> Calls {
        let results = std::ptr::without_provenance_mut(number);
        Calls { requests: std::ptr::without_provenance(number), results }
    }

    fn make(&self, calls: Calls, at: usize) {
        self.executed[at].fetch_add(1, Relaxed);
        let result = (calls.results.addr() * 10 + at) as i64;
        // SAFETY: loom sees to it that nobody else is at it.
        self.results[at].with_mut(|to| unsafe { to.write(result) });
    }

    /// Serves once as a processing thread does that finds work: a single call or calls of a batch.
    fn serve(&self) {
        let seen = self.line.look();
        if seen.is_single() {
            if seen.has_work() && self.line.take(seen) {
                self.make_one(seen);
                self.side.made(&self.line);
            }
            return;
        }
        let mut made = 0;
        while let Some(chunk) = self.line.next(made, 2) {
            made = chunk.len();
            chunk.for_each(|at| self.make(self.line.calls(), at));
        }
        if made > 0 {
            self.side.made(&self.line);
        }
    }

    /// Makes the single call that was claimed: the answer is its first argument.
    fn make_one(&self, seen: OfferWord) {
        self.executed[0].fetch_add(1, Relaxed);
        self.line.finish(seen, self.line.taken(seen).args[0] as i64);
    }

    /// Offers a single call, and takes it back if nobody has it and it is asked to.
    fn one(&self, number: usize, takes_back: bool, waiter: &mut Waiter) {
        self.line.open_one(&Request::new(ONE, [number as u64]));
        if takes_back && self.line.last(1).is_some() {
            self.executed[0].fetch_add(1, Relaxed);
            assert_eq!(self.line.over(), Some(0));
            return;
        }
        if self.line.over().is_none() {
            waiter.wait(&self.side.bell, self.line.word(), || self.line.over());
        }
        assert_eq!(self.line.result(), Some(number as i64));
    }

    fn batch(&self, number: usize, waiter: &mut Waiter) {
        let (line, calls) = (&self.line, Self::calls(number));
        line.open(calls, self.results.len(), 2);
        while let Some(chunk) = line.last(2) {
            chunk.for_each(|at| self.make(calls, at));
        }
        if line.over().is_none() {
            waiter.wait(&self.side.bell, line.word(), || line.over());
        }
        for (at, result) in self.results.iter().enumerate() {
            // SAFETY: as above.
            let result = result.with(|from| unsafe { from.read() });
            assert_eq!(result, (number * 10 + at) as i64);
        }
    }
}

/// One requesting thread that offers batches, sleeps for what others are at, and so
/// many others.
fn offers(processors: usize, batches: usize, calls: usize) {
    bounded(4 - processors, move || {
        let offered = Offered::new(calls);
        beside(processors, &offered, Offered::serve, || {
            let mut waiter = Waiter::new(&sleeper()).unwrap();
            (1..=batches).for_each(|number| offered.batch(number, &mut waiter));
        });
        for count in &offered.executed {
            assert_eq!(count.load(Relaxed), batches);
        }
    });
}

#[test]
fn an_offered_batch_with_two_processing_threads() {
    offers(2, 1, 3);
}

#[test]
fn how_many_are_claimed_at_once_may_change_meanwhile() {
    bounded(3, || {
        let offered = Offered::new(4);
        beside(1, &offered, Offered::serve, || {
            let (line, calls) = (&offered.line, Offered::calls(1));
            line.open(calls, 4, 2);
            while let Some(chunk) = line.last(1) {
                chunk.for_each(|at| offered.make(calls, at));
                line.claim_at_most(1);
            }
            let mut waiter = Waiter::new(&sleeper()).unwrap();
            waiter.wait(&offered.side.bell, line.word(), || line.over());
        });
        assert!(offered.executed.iter().all(|count| count.load(Relaxed) == 1));
    });
}

#[test]
fn an_offer_that_is_seen_late_is_the_next_batch() {
    offers(1, 2, 3);
}

/// Single calls and batches in turns, of which `processors` threads each serve one.
fn in_turns(processors: usize, singles_first: bool, takes_back: bool) {
    bounded(4 - processors, move || {
        let offered = Offered::new(2);
        beside(processors, &offered, Offered::serve, || {
            let mut waiter = Waiter::new(&sleeper()).unwrap();
            if singles_first {
                offered.one(1, true, &mut waiter);
                offered.batch(2, &mut waiter);
            } else {
                offered.batch(2, &mut waiter);
                offered.one(1, takes_back, &mut waiter);
            }
        });
        let executed: Vec<usize> =
            offered.executed.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!(executed, [2, 1]);
    });
}

#[test]
fn a_single_call_is_executed_or_taken_back_and_the_batch_after_it_whole() {
    in_turns(1, true, true);
}

#[test]
fn a_batch_and_the_single_call_after_it_seen_late() {
    in_turns(1, false, true);
}

#[test]
fn of_two_that_see_a_single_call_one_makes_it_and_wakes_who_sleeps() {
    bounded(2, || {
        let offered = Offered::new(1);
        let mut waiter = Waiter::new(&sleeper()).unwrap();
        offered.line.open_one(&Request::new(ONE, [7]));
        beside(2, &offered, Offered::serve, || {
            waiter.wait(&offered.side.bell, offered.line.word(), || offered.line.over());
            assert_eq!(offered.line.result(), Some(7));
        });
        assert_eq!(offered.executed[0].load(Relaxed), 1);
    });
}

/// An offer, and a processing thread that dies at what it has claimed of it.
struct Mortal {
    line: Line,
    side: Side,
    claim: Claim,
    /// True if the thread has died, and nobody has found it yet.
    died: loom::sync::atomic::AtomicBool,
    requests: Vec<Request>,
    results: Vec<AtomicI64>,
}

impl Mortal {
    fn new(calls: usize) -> Arc<Self> {
        Arc::new(Mortal {
            line: Line::default(),
            side: Side::default(),
            claim: Claim::default(),
            died: loom::sync::atomic::AtomicBool::new(false),
            requests: vec![Request::new(libc::SYS_getpid, []); calls],
            results: (0..calls).map(|_| AtomicI64::new(i64::MIN)).collect(),
        })
    }

    fn offer(&self, single: bool) {
        match single {
            true => self.line.open_one(&self.requests[0]),
            false => {
                let results = self.results.as_ptr().cast_mut().cast();
                let calls = Calls { requests: self.requests.as_ptr(), results };
                self.line.open(calls, self.requests.len(), 2);
            }
        }
    }

    /// Dies as a processing thread that notes what it claims, and is killed at the first call of
    /// it.
    fn die(&self) {
        let seen = self.line.look();
        if seen.is_single() {
            self.claim.set(0);
            if !(seen.has_work() && self.line.take(seen)) {
                return self.claim.clear();
            }
        } else {
            self.claim.hold(0);
            let Some(chunk) = self.line.next(0, 2) else { return self.claim.clear() };
            self.claim.advance(&chunk, chunk.start);
        }
        // Release: partner is `reap`.
        self.died.swap(true, Release);
    }

    /// Reaps as `Core::repair` does: one caller finds it dead.
    fn reap(&self) {
        if self.died.swap(false, AcqRel) {
            if let Some(At::Offer(0, left)) = self.claim.take() {
                lock(&self.side.left).push(left);
            }
        }
    }

    /// Waits as the requesting thread, a step of whose wait lasts until one more of `others` is
    /// gone; returns how many calls were theirs.
    fn finish(&self, others: &mut Vec<thread::JoinHandle<()>>) -> usize {
        let once = || match self.line.over() {
            Some(calls) => WaitStep::Ended(calls),
            None => {
                others.pop().expect("all are gone and nobody has repaired it").join().unwrap();
                WaitStep::Late
            }
        };
        let mend = || {
            let dead = std::mem::take(&mut *lock(&self.side.left));
            // SAFETY: the offer is not over, its claimer is dead, and getpid may be made.
            dead.iter().for_each(|left| unsafe { self.line.repair(left) });
            None
        };
        awaited::wait(once, || self.reap(), mend)
    }
}

/// Checks that, whoever finds the dead thread, its request is answered once, and the rest of its
/// claims is made by the requesting thread, which waits no longer.
fn is_repaired(calls: usize, single: bool) {
    bounded(2, move || {
        let scene = Mortal::new(calls);
        scene.offer(single);
        let beside = |work: fn(&Mortal)| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || work(&scene))
        };
        let mut others = vec![beside(Mortal::reap), beside(Mortal::die)];
        // SAFETY: getpid may be made.
        unsafe { scene.line.make_last(2) };
        let claimed = scene.finish(&mut others);
        let single = scene.line.result().filter(|_| single);
        let results = scene.results.iter().map(|result| result.load(Relaxed));
        let results: Vec<i64> = single.map_or_else(|| results.collect(), |one| vec![one]);
        let died = results.iter().filter(|&&result| result == OWNER_DIED).count();
        assert_eq!(died, claimed.min(1), "{results:?}");
        let made = results.iter().filter(|&&result| result > 0).count();
        assert_eq!(made + died, calls, "{results:?}");
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn of_a_batch_at_which_a_thread_died_each_call_is_answered_once() {
    is_repaired(3, false);
}

#[test]
fn a_single_call_at_which_a_thread_died_is_answered_once() {
    is_repaired(1, true);
}

#[test]
fn a_request_for_the_pool_is_not_left_when_the_others_are_over() {
    model(|| {
        let scene = Arc::new((Pool::new(1), Queue::default()));
        scene.0.rescue();
        let watch = thread::spawn({
            let scene = Arc::clone(&scene);
            move || scene.0.end_rescue(|| scene.1.any())
        });
        scene.1.push(task());
        scene.0.rescue();
        let over = watch.join().unwrap();
        assert!(scene.0.rescues() || !over, "nobody looks for it");
    });
}

fn task() -> StdArc<Base> {
    StdArc::new(Base::of(Request::default()))
}

/// A queue, and how many of its requests were executed.
#[derive(Default)]
struct Scene {
    queue: Queue,
    executed: Count,
}

impl Scene {
    fn put(&self, task: &StdArc<Base>) {
        self.queue.push(task.clone());
    }

    /// Executes a task's request, if there is one.
    fn serve(&self) -> bool {
        let Some(task) = self.queue.pop() else { return false };
        let claimed = task.base().claim();
        if claimed {
            self.executed.fetch_add(1, Relaxed);
            task.base().end(TaskEnd::Returned(1));
        }
        claimed
    }
}

#[test]
fn of_two_that_push_and_two_that_pop_none_is_lost() {
    model(|| {
        let scene = Arc::new(Scene::default());
        let servers = [(); 2].map(|()| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.serve())
        });
        let tasks = [task(), task()];
        tasks.iter().for_each(|task| scene.put(task));
        servers.into_iter().for_each(|server| _ = server.join().unwrap());
        while scene.serve() {}
        assert_eq!(scene.executed.load(Relaxed), 2);
        assert!(tasks.iter().all(|task| task.base().ended() == Some(TaskEnd::Returned(1))));
    });
}

#[test]
fn a_task_is_executed_or_taken_back_and_the_next_not_mistaken_for_it() {
    model(|| {
        let scene = Arc::new(Scene::default());
        let (first, second) = (task(), task());
        scene.put(&first);
        let server = thread::spawn({
            let scene = Arc::clone(&scene);
            move || (0..2).for_each(|_| _ = scene.serve())
        });
        let dynamic: StdArc<dyn Task> = first.clone();
        let taken_back = first.base().claim();
        if taken_back {
            scene.queue.forget(&dynamic);
        }
        scene.put(&second);
        server.join().unwrap();
        while scene.queue.any() {
            scene.serve();
        }
        assert_eq!(first.base().ended().is_some(), !taken_back);
        assert!(second.base().ended().is_some());
        assert_eq!(scene.executed.load(Relaxed), 2 - usize::from(taken_back));
    });
}

/// A table for requests placed by hand, and the line to which they are appended.
fn placed(slots: usize) -> Arc<(Placed, Line)> {
    let scene = Arc::new((Placed::new(slots, 0), Line::default()));
    scene.1.open(scene.0.calls(), 0, 1);
    scene
}

/// Answers the calls of the line that nobody else claims, each by its number of arguments: what
/// was in the slot when it was claimed. Whoever waits is told.
fn answer((placed, line): &(Placed, Line)) {
    let mut made = 0;
    while let Some(chunk) = line.next(made, 1) {
        placed.tell();
        made = chunk.len();
        // SAFETY: claimed just now.
        let number = unsafe { line.calls().request(chunk.start) }.args_num;
        // SAFETY: as above.
        unsafe { line.calls().answer(chunk.start, number.into()) };
    }
    placed.tell();
}

/// Checks that a result which two threads collect while it ends, and whoever has it places the
/// next, in the line or as a task, is had once, and by its own number.
#[test]
fn a_result_is_collected_once_and_not_for_the_next() {
    for by_line in [false, true] {
        model(move || {
            let scene = placed(1);
            let place = |args| {
                let request = Request { args_num: args, ..Request::default() };
                scene.0.place(by_line.then_some(&scene.1), request).unwrap()
            };
            let end = |scene: &(Placed, Line), by: &Handed, args| match by {
                Handed::Line { .. } => answer(scene),
                Handed::Task(task) => task.end(TaskEnd::Returned(args)),
            };
            let Place { at, generation: first, by } = place(1);
            let collect = move |placed: &Placed| match placed.collect(at, first, false) {
                Look::Result(ret_val) => Some(ret_val),
                _ => None,
            };
            let server = thread::spawn({
                let scene = Arc::clone(&scene);
                move || end(&scene, &by, 1)
            });
            let other = thread::spawn({
                let scene = Arc::clone(&scene);
                move || collect(&scene.0)
            });
            let own = collect(&scene.0);
            let second = own.map(|_| place(2));
            if let Some(second) = &second {
                end(&scene, &second.by, 2);
            }
            server.join().unwrap();
            let theirs = other.join().unwrap();
            let late = collect(&scene.0);
            let all = [own, theirs, late];
            assert_eq!(all.iter().flatten().collect::<Vec<_>>(), [&1], "{all:?}");
            // The next one's is left to who has its number.
            if let Some(Place { at, generation, .. }) = second {
                assert_eq!(scene.0.collect(at, generation, false), Look::Result(2));
            }
        });
    }
}

/// Two append while a third claims: each is made once, whoever of them was first, and who waits
/// for both is told.
#[test]
fn what_is_appended_meanwhile_is_claimed_once_and_waited_for() {
    bounded(2, || {
        let scene = placed(3);
        let place = |scene: &(Placed, Line), args| {
            let request = Request { args_num: args, ..Request::default() };
            let place = scene.0.place(Some(&scene.1), request).unwrap();
            // As the caller does with what could not be appended.
            if let Handed::Task(task) = &place.by {
                task.end(TaskEnd::Returned(args.into()));
            }
            place
        };
        let other = thread::spawn({
            let scene = Arc::clone(&scene);
            move || place(&scene, 1)
        });
        let server = thread::spawn({
            let scene = Arc::clone(&scene);
            move || answer(&scene)
        });
        let own = place(&scene, 2);
        let theirs = other.join().unwrap();
        server.join().unwrap();
        answer(&scene);
        let time = (None, std::time::Duration::MAX / 4);
        assert_eq!(scene.0.wait(&scene.1, 2, time, false, || false, (|| (), || ())), 2);
        for (place, args) in [(own, 2), (theirs, 1)] {
            assert_eq!(scene.0.collect(place.at, place.generation, false), Look::Result(args));
        }
        assert_eq!(scene.1.over().map(|_| ()), Some(()));
    });
}

/// A thread that waits for the one result sleeps only until it is there.
#[test]
fn who_waits_for_a_result_of_the_line_is_told() {
    model(|| {
        let scene = placed(1);
        let place = scene.0.place(Some(&scene.1), Request::default()).unwrap();
        let server = thread::spawn({
            let scene = Arc::clone(&scene);
            move || answer(&scene)
        });
        let time = (None, std::time::Duration::MAX / 4);
        assert_eq!(scene.0.wait(&scene.1, 1, time, false, || false, (|| (), || ())), 1);
        assert_eq!(scene.0.collect(place.at, place.generation, false), Look::Result(0));
        server.join().unwrap();
    });
}
