//! Threads as coroutines, in virtual time.
//!
//! All are on one thread of the system. The one that is the earliest runs, until another one is
//! earlier or it has to wait: so accesses happen in the order of their times, and two runs of one
//! program are the same.
//!
//! | event | at | does |
//! |---|---|---|
//! | run | when a thread's access, work or sleep is over | goes on with it |
//! | grant | when a line is free for the next who asks | gives it, [`crate::directory`] |
//! | stored | when a posted store is visible | frees its place among the cpu's stores |
//!
//! A wait has a number, and a run event says which it ends: an event of an earlier one does nothing.
//!
//! No borrow of the state is held while a coroutine is suspended.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use kumiki_sys::sim::{self, Access, Site};

use crate::directory::{Asked, Directory, LINE, LineCounts, Outcome};
use crate::machine::{Machine, Time, picoseconds};

/// Bytes of a thread's stack.
const STACK: usize = 256 << 10;
/// Lines of a round of looks, at most, for which a thread stops looking.
const WATCHED: usize = 8;

type Thread = Coroutine<(), (), (), DefaultStack>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Run { thread: usize, wait: u64 },
    Grant { line: usize },
    Stored { thread: usize },
}

/// Event that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// Fewer stores under way than this.
    Stores(usize),
    /// A wake at this address.
    Wake(usize),
    /// The end of this thread.
    End(usize),
}

struct State {
    cpu: usize,
    now: Time,
    /// Number of its present wait.
    wait: u64,
    waits: Waits,
    /// Stores under way.
    stores: usize,
    /// Lines that it has looked at since the last round that found nothing.
    looked: Vec<usize>,
    /// All of these looks were hits, and nothing else was done.
    only_hits: bool,
    timed_out: bool,
    over: bool,
    yielder: *const Yielder<(), ()>,
}

/// Counts since a run's begin, or since [`Run::forget`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Sleeps in the kernel.
    pub sleeps: u64,
    /// Wakes by the kernel that have found a sleeper.
    pub wakes: u64,
}

struct World {
    directory: Directory,
    threads: Vec<State>,
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    events: u64,
    current: usize,
    sleepers: HashMap<usize, VecDeque<usize>>,
    counts: Counts,
    /// Watchers that a store has woken, kept for its memory.
    woken: Vec<(usize, u64)>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// A run: the machine, and the threads on it.
pub struct Run {
    machine: Machine,
    world: RefCell<World>,
    /// Coroutines, apart, as one is at work while the world is borrowed.
    coroutines: RefCell<Vec<Option<Thread>>>,
    /// Itself, for the threads that it starts.
    this: Cell<Option<&'static Run>>,
}

impl World {
    fn new(machine: &Machine) -> World {
        World {
            directory: Directory::new(machine),
            threads: Vec::new(),
            heap: BinaryHeap::new(),
            events: 0,
            current: 0,
            sleepers: HashMap::new(),
            counts: Counts::default(),
            woken: Vec::new(),
        }
    }

    fn me(&mut self) -> &mut State {
        &mut self.threads[self.current]
    }

    fn push(&mut self, at: Time, event: Event) {
        self.events += 1;
        self.heap.push(Reverse((at, self.events, event)));
    }

    /// Lets a thread go on at `at`, out of its present wait.
    fn resume_at(&mut self, thread: usize, at: Time) {
        let state = &mut self.threads[thread];
        state.waits = Waits::Nothing;
        let (wait, at) = (state.wait, at.max(state.now));
        self.push(at, Event::Run { thread, wait });
    }

    /// Does what a grant or a store's end does.
    fn happens(&mut self, at: Time, event: Event) {
        match event {
            Event::Grant { line } => {
                let granted = self.directory.grant(line, at);
                if let Some(next) = granted.next {
                    self.push(next, Event::Grant { line });
                }
                self.tell(granted.watchers, at);
                let thread = granted.asked.thread;
                if granted.asked.access == Access::Store {
                    self.push(granted.end, Event::Stored { thread });
                } else {
                    self.resume_at(thread, granted.end);
                }
            }
            Event::Stored { thread } => {
                let state = &mut self.threads[thread];
                state.stores -= 1;
                if matches!(state.waits, Waits::Stores(fewer) if state.stores < fewer) {
                    self.resume_at(thread, at);
                }
            }
            Event::Run { .. } => unreachable!("runs are the caller's"),
        }
    }

    /// Ends the waits of threads that look at a line that has changed.
    fn tell(&mut self, watchers: impl IntoIterator<Item = (usize, u64)>, at: Time) {
        for (thread, wait) in watchers {
            if self.threads[thread].wait == wait {
                let at = at.max(self.threads[thread].now);
                self.push(at, Event::Run { thread, wait });
            }
        }
    }
}

impl Run {
    /// Runs `body` as the thread on cpu 0 of `machine`, until it ends.
    ///
    /// # Panics
    /// As `body` or another of the run's threads does; if threads sleep that nobody will wake; if
    /// the run is longer than the machine's limit.
    pub fn of<T: 'static>(machine: &Machine, body: impl FnOnce(&'static Run) -> T + 'static) -> T {
        assert!((1..=256).contains(&machine.cpus), "{} cpus: a machine has 1 to 256", machine.cpus);
        // Kept for ever: what threads of the run have still points to it. What it has in it goes.
        let run: &'static Run = Box::leak(Box::new(Run {
            machine: machine.clone(),
            world: RefCell::new(World::new(machine)),
            coroutines: RefCell::new(Vec::new()),
            this: Cell::new(None),
        }));
        run.this.set(Some(run));
        let entered = sim::enter(run);
        let answer = std::rc::Rc::new(Cell::new(None));
        let theirs = std::rc::Rc::clone(&answer);
        run.begin(0, Box::new(move || theirs.set(Some(body(run)))));
        let cleared = Cleared(run);
        run.all();
        drop(cleared);
        drop(entered);
        answer.take().expect("the run's first thread has ended")
    }

    /// Time since the begin, nanoseconds.
    pub fn now(&self) -> f64 {
        self.world.borrow_mut().me().now as f64 / 1000.0
    }

    /// Forgets what was counted so far.
    pub fn forget(&self) {
        let mut world = self.world.borrow_mut();
        world.counts = Counts::default();
        world.directory.forget();
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        self.world.borrow().counts
    }

    /// Lines that have moved, the busiest first.
    pub(crate) fn moved(&self) -> Vec<LineCounts> {
        self.world.borrow().directory.moved()
    }

    fn begin(&'static self, cpu: usize, body: Box<dyn FnOnce()>) -> usize {
        let mut world = self.world.borrow_mut();
        assert!(cpu < self.machine.cpus, "a thread on cpu {cpu} of {}", self.machine.cpus);
        let thread = world.threads.len();
        let now = world.threads.get(world.current).map_or(0, |state| state.now);
        world.threads.push(State {
            cpu,
            now,
            wait: 0,
            waits: Waits::Nothing,
            stores: 0,
            looked: Vec::new(),
            only_hits: true,
            timed_out: false,
            over: false,
            yielder: std::ptr::null(),
        });
        let stack = DefaultStack::new(STACK).expect("memory for a simulated thread's stack");
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            self.world.borrow_mut().threads[thread].yielder = yielder;
            body();
        });
        self.coroutines.borrow_mut().push(Some(coroutine));
        world.resume_at(thread, now);
        thread
    }

    /// Does all events, in their order.
    fn all(&'static self) {
        loop {
            let next = self.world.borrow_mut().heap.pop();
            let Some(Reverse((at, _, event))) = next else { break };
            let Event::Run { thread, wait } = event else {
                self.world.borrow_mut().happens(at, event);
                continue;
            };
            if !self.goes_on(thread, wait, at) {
                continue;
            }
            let coroutine = self.coroutines.borrow_mut()[thread].take();
            let mut coroutine = coroutine.expect("a thread that goes on is not over");
            match coroutine.resume(()) {
                CoroutineResult::Yield(()) => {
                    self.coroutines.borrow_mut()[thread] = Some(coroutine)
                }
                CoroutineResult::Return(()) => self.ended(thread),
            }
        }
        let world = self.world.borrow();
        let left = world.threads.iter().filter(|state| !state.over).count();
        assert!(left == 0, "{left} of {} threads wait for what never comes", world.threads.len());
    }

    /// Begins a thread's next stretch, unless this event is of an earlier wait.
    fn goes_on(&self, thread: usize, wait: u64, at: Time) -> bool {
        let mut world = self.world.borrow_mut();
        assert!(at < picoseconds(self.machine.limit), "the run has no end: {} ns", at / 1000);
        let state = &mut world.threads[thread];
        if state.over || state.wait != wait {
            return false;
        }
        if let Waits::Wake(address) = std::mem::replace(&mut state.waits, Waits::Nothing) {
            // It is still among the sleepers: nobody has woken it, so its time is over.
            state.timed_out = true;
            if let Some(sleepers) = world.sleepers.get_mut(&address) {
                sleepers.retain(|sleeper| *sleeper != thread);
            }
        }
        let state = &mut world.threads[thread];
        state.wait += 1;
        state.now = at;
        world.current = thread;
        true
    }

    fn ended(&self, thread: usize) {
        let mut world = self.world.borrow_mut();
        world.threads[thread].over = true;
        let at = world.threads[thread].now;
        for waiter in 0..world.threads.len() {
            if world.threads[waiter].waits == Waits::End(thread) {
                world.resume_at(waiter, at);
            }
        }
    }

    /// Leaves the cpu to others, until an event of this wait.
    fn suspend(&self) {
        if std::thread::panicking() {
            // What unwinds holds no other thread up, and the count of panics is the system thread's.
            eprintln!("error: a simulated thread waits while it panics: the run ends here");
            std::process::exit(101);
        }
        let yielder = self.world.borrow_mut().me().yielder;
        // SAFETY: the coroutine that runs has put it there, and it lives as long as that.
        unsafe { (*yielder).suspend(()) };
    }

    /// Does what comes before the calling thread's next step.
    fn catch_up(&self) {
        let suspends = {
            let mut world = self.world.borrow_mut();
            let now = world.me().now;
            loop {
                let Some(&Reverse((at, _, event))) = world.heap.peek() else { break false };
                if at > now {
                    break false;
                }
                if let Event::Run { thread, wait } = event {
                    if world.threads[thread].wait == wait && !world.threads[thread].over {
                        let me = world.current;
                        world.resume_at(me, now);
                        break true;
                    }
                    world.heap.pop();
                } else {
                    world.heap.pop();
                    world.happens(at, event);
                }
            }
        };
        if suspends {
            self.suspend();
        }
    }

    /// Waits until fewer than so many stores are under way.
    fn until_stores(&self, fewer: usize) {
        let waits = {
            let mut world = self.world.borrow_mut();
            let me = world.me();
            let waits = me.stores >= fewer;
            if waits {
                me.waits = Waits::Stores(fewer);
            }
            waits
        };
        if waits {
            self.suspend();
        }
    }
}

/// Frees what a run has, also one that panics: its threads are then left as they are.
struct Cleared(&'static Run);

impl Drop for Cleared {
    fn drop(&mut self) {
        let coroutines = std::mem::take(&mut *self.0.coroutines.borrow_mut());
        coroutines.into_iter().flatten().for_each(std::mem::forget);
        *self.0.world.borrow_mut() = World::new(&self.0.machine);
    }
}

impl sim::Machine for Run {
    fn access(&self, address: usize, access: Access, site: Site) {
        if std::thread::panicking() {
            return;
        }
        self.catch_up();
        match access {
            Access::Load => {}
            Access::Store => self.until_stores(self.machine.stores),
            Access::Swap => self.until_stores(1),
        }
        let line = address / LINE;
        let waits = {
            let mut world = self.world.borrow_mut();
            let world = &mut *world;
            let thread = world.current;
            let me = &mut world.threads[thread];
            let asked = Asked { thread, cpu: me.cpu, access, site };
            let now = me.now;
            match world.directory.access(line, asked, now, &mut world.woken) {
                Outcome::Hit(time) => {
                    me.now += time;
                    if access == Access::Load && me.looked.len() < WATCHED {
                        if !me.looked.contains(&line) {
                            me.looked.push(line);
                        }
                    } else {
                        me.only_hits = false;
                    }
                    false
                }
                Outcome::Asked(due) => {
                    me.only_hits = false;
                    if access == Access::Store {
                        me.stores += 1;
                        me.now += picoseconds(self.machine.hit);
                    }
                    if let Some(at) = due {
                        world.push(at, Event::Grant { line });
                    }
                    let mut woken = std::mem::take(&mut world.woken);
                    world.tell(woken.drain(..), now);
                    world.woken = woken;
                    access != Access::Store
                }
            }
        };
        if waits {
            self.suspend();
        }
    }

    fn fence(&self) {
        self.catch_up();
        self.until_stores(1);
        self.work(10);
    }

    fn spun(&self) {
        self.catch_up();
        let suspends = {
            let mut world = self.world.borrow_mut();
            let world = &mut *world;
            let thread = world.current;
            let me = &mut world.threads[thread];
            let looked = std::mem::take(&mut me.looked);
            let parks = std::mem::replace(&mut me.only_hits, true) && !looked.is_empty();
            let park = picoseconds(self.machine.park);
            if parks {
                let (at, wait) = (me.now + park, me.wait);
                world.directory.watch(&looked, thread, wait);
                world.resume_at(thread, at);
            } else {
                me.now += picoseconds(self.machine.hit);
            }
            world.threads[thread].looked = looked;
            world.threads[thread].looked.clear();
            parks
        };
        if suspends {
            self.suspend();
        }
    }

    fn now_ns(&self) -> u64 {
        self.world.borrow_mut().me().now / 1000
    }

    fn work(&self, ns: u64) {
        let mut world = self.world.borrow_mut();
        let me = world.me();
        me.now += ns * 1000;
        me.only_hits = false;
    }

    fn cpu(&self) -> usize {
        self.world.borrow_mut().me().cpu
    }

    fn cpus(&self) -> usize {
        self.machine.cpus
    }

    fn group(&self) -> usize {
        self.machine.groups.first().map_or(self.machine.cpus, |(size, _)| *size)
    }

    fn sleep(&self, address: usize, changed: &dyn Fn() -> bool, until_ns: Option<u64>) -> bool {
        self.work(self.machine.syscall as u64);
        self.fence();
        if changed() {
            return false;
        }
        {
            let mut world = self.world.borrow_mut();
            let thread = world.current;
            world.counts.sleeps += 1;
            world.sleepers.entry(address).or_default().push_back(thread);
            if let Some(ns) = until_ns {
                world.resume_at(thread, ns.saturating_mul(1000));
            }
            let me = world.me();
            me.waits = Waits::Wake(address);
            me.timed_out = false;
        }
        self.suspend();
        self.world.borrow_mut().me().timed_out
    }

    fn wake(&self, address: usize, count: u32) -> u32 {
        self.work(self.machine.syscall as u64);
        self.fence();
        let mut world = self.world.borrow_mut();
        let at = world.me().now + picoseconds(self.machine.wake);
        let mut woken = 0;
        while woken < count {
            let sleeper = world.sleepers.get_mut(&address).and_then(VecDeque::pop_front);
            let Some(sleeper) = sleeper else { break };
            // Of the two events that may be there the earlier ends the wait: its time, or this.
            world.resume_at(sleeper, at);
            woken += 1;
        }
        world.counts.wakes += u64::from(woken);
        woken
    }

    fn sleep_ns(&self) -> u64 {
        (self.machine.wake + 2.0 * self.machine.syscall) as u64
    }

    fn interrupt_all(&self) {
        self.fence();
        self.work(self.machine.interrupt as u64);
    }

    fn spawn(&self, cpu: usize, body: Box<dyn FnOnce()>) -> usize {
        self.catch_up();
        self.this.get().expect("it was set when the run began").begin(cpu, body)
    }

    fn is_over(&self, thread: usize) -> bool {
        self.catch_up();
        self.world.borrow().threads[thread].over
    }

    fn join(&self, thread: usize) {
        self.catch_up();
        let waits = {
            let mut world = self.world.borrow_mut();
            let over = world.threads[thread].over;
            if !over {
                world.me().waits = Waits::End(thread);
            }
            !over
        };
        if waits {
            self.suspend();
        }
    }
}
