//! Every interleaving of the protocols, as far as the checker goes: each request
//! is executed once or taken back, every result is seen, nobody sleeps on a
//! request that waits.

use std::sync::Arc as StdArc;
use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_wait::{Policy, Sleep, Threshold, Waiter};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::core::Pool;
use crate::offer::Calls;
use crate::placed::{Look, Placed};
use crate::queue::Queue;
use crate::side::Side;
use crate::slot::Slot;
use crate::task::{Base, End, Task};
use kumiki_calls::Request;

fn model(scene: impl Fn() + Sync + Send + 'static) {
    bounded(3, scene);
}

/// With at most so many moments at which a thread loses the cpu.
fn bounded(preemptions: usize, scene: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    let asked = model.preemption_bound.unwrap_or(preemptions);
    model.preemption_bound = Some(asked.min(preemptions));
    model.check(scene);
}

/// How one waits who sleeps at once.
fn sleeper() -> Policy {
    Policy { threshold: Threshold::Ticks(0), sleep: Sleep::Futex, ..Policy::default() }
}

/// Slots, and how often each one's request was executed.
struct Memory {
    slots: Vec<Slot>,
    executed: Vec<Count>,
}

impl Memory {
    fn new(slots: usize) -> Self {
        Memory {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            executed: (0..slots).map(|_| Count::new(0)).collect(),
        }
    }

    /// Executes the request of a slot, if it is there to be had: the answer is
    /// its first argument.
    fn execute(&self, at: usize) {
        let slot = &self.slots[at];
        if slot.is_requested() && slot.take() {
            self.executed[at].fetch_add(1, Relaxed);
            slot.finish(slot.taken().args[0] as i64);
        }
    }
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

/// What a requesting thread offers, with results that only one thread may be at.
struct Offered {
    side: Side,
    results: Vec<UnsafeCell<i64>>,
    executed: Vec<Count>,
}

impl Offered {
    fn new(calls: usize) -> Arc<Self> {
        Arc::new(Offered {
            side: Side::default(),
            results: (0..calls).map(|_| UnsafeCell::new(0)).collect(),
            executed: (0..calls).map(|_| Count::new(0)).collect(),
        })
    }

    /// Where the calls of batch `number` stand, as far as this model goes.
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

    /// As a processing thread does that finds work once.
    fn serve(&self) {
        let mut made = 0;
        while let Some(chunk) = self.side.offer.next(made, 2) {
            made = chunk.len();
            chunk.for_each(|at| self.make(self.side.offer.calls(), at));
        }
        if made > 0 {
            self.side.made();
        }
    }

    fn batch(&self, number: usize, waiter: &mut Waiter) {
        let (offer, calls) = (&self.side.offer, Self::calls(number));
        offer.open(calls, self.results.len(), 2);
        while let Some(chunk) = offer.last(2) {
            chunk.for_each(|at| self.make(calls, at));
        }
        if offer.over().is_none() {
            self.side.expect_end();
            waiter.wait(&self.side.bell, offer.word(), || offer.over());
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
fn an_offer_that_is_seen_late_is_the_next_batch() {
    offers(1, 2, 3);
}

#[test]
fn a_request_is_executed_or_taken_back() {
    model(|| {
        let memory = Arc::new(Memory::new(1));
        memory.slots[0].publish(&Request::new(0, [7]));
        let others = [(); 2].map(|()| {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.execute(0))
        });
        let taken_back = memory.slots[0].take();
        others.into_iter().for_each(|other| other.join().unwrap());
        let executed = memory.executed[0].load(Relaxed);
        assert_eq!(executed + usize::from(taken_back), 1);
    });
}

#[test]
fn the_awaited_answer_wakes_the_one_who_sleeps() {
    model(|| {
        let scene = Arc::new((Side::default(), Memory::new(2)));
        for (at, slot) in scene.1.slots.iter().enumerate() {
            slot.publish(&Request::new(0, [at as u64]));
        }
        let server = thread::spawn({
            let scene = Arc::clone(&scene);
            move || {
                let (side, memory) = &*scene;
                (0..2).for_each(|at| {
                    memory.execute(at);
                    side.answered(at);
                });
            }
        });
        let (side, memory) = &*scene;
        let mut waiter = Waiter::new(&sleeper()).unwrap();
        for at in [1, 0] {
            let slot = &memory.slots[at];
            side.expect(at);
            assert_eq!(waiter.wait(&side.bell, slot.status(), || slot.result()), at as i64);
        }
        server.join().unwrap();
    });
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
            task.base().end(End::Returned(1));
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
        assert!(tasks.iter().all(|task| task.base().ended() == Some(End::Returned(1))));
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

/// Two collect one request placed by hand while it ends, and who has it places the next.
#[test]
fn a_result_is_collected_once_and_not_for_the_next() {
    model(|| {
        let placed = Arc::new(Placed::new(1, 0));
        let place = || placed.place(Request::default());
        let (task, at, first) = place().unwrap();
        let collect = move |placed: &Placed| match placed.collect(at, first, false) {
            Look::Result(ret_val) => Some(ret_val),
            _ => None,
        };
        let server = thread::spawn(move || task.end(End::Returned(1)));
        let other = thread::spawn({
            let placed = Arc::clone(&placed);
            move || collect(&placed)
        });
        let own = collect(&placed);
        let second = own.and_then(|_| place());
        if let Some((task, ..)) = &second {
            task.end(End::Returned(2));
        }
        server.join().unwrap();
        let theirs = other.join().unwrap();
        let late = collect(&placed);
        let all = [own, theirs, late];
        assert_eq!(all.iter().flatten().collect::<Vec<_>>(), [&1], "{all:?}");
        // The next one's is left to who has its number.
        if let Some((_, at, second)) = second {
            assert_eq!(placed.collect(at, second, false), Look::Result(2));
        }
    });
}
