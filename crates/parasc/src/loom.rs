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
use crate::lane::Lane;
use crate::offer::Calls;
use crate::open::{Item, Look, Open};
use crate::request::Request;
use crate::side::Side;
use crate::slot::Slot;
use crate::task::{Bare, End, Task};

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

/// A lane in ordinary memory, and how often each slot's request was executed.
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

    fn lane(&self) -> Lane<'_> {
        Lane { slots: &self.slots }
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
        let scene = Arc::new((Pool::new(1), Open::new(1, 0)));
        scene.0.rescue();
        let watch = thread::spawn({
            let scene = Arc::clone(&scene);
            move || scene.0.end_rescue(|| scene.1.any())
        });
        scene.1.push(Item::Slot(0));
        scene.0.rescue();
        let over = watch.join().unwrap();
        assert!(scene.0.rescues() || !over, "nobody looks for it");
    });
}

fn task() -> StdArc<Bare> {
    Bare::new(Request::default())
}

/// An open lane.
struct Scene {
    memory: Memory,
    open: Open,
    executed: Count,
}

impl Scene {
    fn new(slots: usize) -> Arc<Self> {
        let (memory, open) = (Memory::new(slots), Open::new(slots, 0));
        Arc::new(Scene { memory, open, executed: Count::new(0) })
    }

    fn put(&self, task: &StdArc<Bare>) {
        self.open.push(Item::Task(task.clone()));
    }

    /// Executes a task's request, if there is one.
    fn serve(&self) -> bool {
        let Some(item) = self.open.pop() else { return false };
        let claimed = item.claim(self.memory.lane());
        if let (true, Item::Task(task)) = (claimed, item) {
            self.executed.fetch_add(1, Relaxed);
            task.base().end(End::Returned(1));
        }
        claimed
    }
}

#[test]
fn of_two_that_push_and_two_that_pop_none_is_lost() {
    model(|| {
        let scene = Scene::new(1);
        let servers = [(); 2].map(|()| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.serve())
        });
        let tasks = [task(), task()];
        tasks.iter().for_each(|task| scene.put(task));
        servers.into_iter().for_each(|server| drop(server.join().unwrap()));
        while scene.serve() {}
        assert_eq!(scene.executed.load(Relaxed), 2);
        assert!(tasks.iter().all(|task| task.base().ended() == Some(End::Returned(1))));
    });
}

#[test]
fn a_task_is_executed_or_taken_back_and_the_next_not_mistaken_for_it() {
    model(|| {
        let scene = Scene::new(1);
        let (first, second) = (task(), task());
        scene.put(&first);
        let server = thread::spawn({
            let scene = Arc::clone(&scene);
            move || drop((scene.serve(), scene.serve()))
        });
        let dynamic: StdArc<dyn Task> = first.clone();
        let taken_back = first.base().claim();
        if taken_back {
            scene.open.forget(&dynamic);
        }
        scene.put(&second);
        server.join().unwrap();
        while scene.open.any() {
            scene.serve();
        }
        assert_eq!(first.base().ended().is_some(), !taken_back);
        assert!(second.base().ended().is_some());
        assert_eq!(scene.executed.load(Relaxed), 2 - usize::from(taken_back));
    });
}

/// One thread serves requests by hand while two collect the first of them by its number, and
/// who has it places the next.
#[test]
fn a_result_is_collected_once_and_not_for_the_next() {
    model(|| {
        let scene = Scene::new(1);
        let place = |scene: &Scene| scene.open.place(scene.memory.lane(), &Request::default());
        let (_, first) = place(&scene).unwrap();
        let lane = scene.memory.lane();
        let answer = |scene: &Scene, ret_val| {
            assert!(Item::Slot(0).claim(scene.memory.lane()));
            scene.memory.slots[0].finish(ret_val);
        };
        answer(&scene, 1);
        let other = thread::spawn({
            let scene = Arc::clone(&scene);
            move || match scene.open.collect(scene.memory.lane(), 0, first) {
                Look::Result(ret_val) => Some(ret_val),
                _ => None,
            }
        });
        let own = scene.open.collect(lane, 0, first);
        let mut second = None;
        if let Look::Result(_) = own {
            second = place(&scene).map(|(_, second)| second);
            answer(&scene, 2);
        }
        let theirs = other.join().unwrap();
        match own {
            Look::Result(ret_val) => assert_eq!((ret_val, theirs), (1, None)),
            _ => assert_eq!(theirs, Some(1)),
        }
        // The next one's is left to who has its number.
        if let Some(second) = second {
            assert_eq!(scene.open.collect(lane, 0, second), Look::Result(2));
        }
    });
}
