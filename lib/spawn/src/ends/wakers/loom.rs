//! Who waits for a descriptor is woken, under every interleaving of its wait, of the descriptor's
//! event and of the thread that wakes: else all threads sleep, which loom tells.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::Wakers;

/// The number that each descriptor here has.
const NUMBER: u64 = 5;

/// One descriptor in an epoll, as epoll(7) has it with EPOLLONESHOT: an event is told while it is
/// armed and readable, and then it is armed no more.
#[derive(Default)]
struct Descriptor {
    is_armed: bool,
    is_readable: bool,
    /// Nobody waits any more.
    is_over: bool,
}

/// An awaited task that sleeps until it is woken.
struct Task {
    is_woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().unwrap() = true;
        self.bell.notify_one();
    }
}

impl Task {
    fn new() -> Arc<Task> {
        Arc::new(Task { is_woken: Mutex::new(false), bell: Condvar::new() })
    }

    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().unwrap();
        while !*is_woken {
            is_woken = self.bell.wait(is_woken).unwrap();
        }
        *is_woken = false;
    }
}

struct Scene {
    wakers: Wakers,
    descriptor: Mutex<Descriptor>,
    epoll: Condvar,
}

impl Scene {
    fn new() -> Arc<Scene> {
        let (descriptor, epoll) = (Mutex::new(Descriptor::default()), Condvar::new());
        Arc::new(Scene { wakers: Wakers::default(), descriptor, epoll })
    }

    fn change(&self, change: impl FnOnce(&mut Descriptor)) {
        change(&mut self.descriptor.lock().unwrap());
        self.epoll.notify_one();
    }

    /// The thread that wakes.
    fn run(&self) {
        loop {
            let mut it = self.descriptor.lock().unwrap();
            while !(it.is_armed && it.is_readable || it.is_over) {
                it = self.epoll.wait(it).unwrap();
            }
            if !(it.is_armed && it.is_readable) {
                return;
            }
            it.is_armed = false;
            drop(it);
            self.wakers.tell(NUMBER);
        }
    }

    /// A future that is polled once; whether it is ready.
    fn poll(&self, task: &Arc<Task>) -> bool {
        if self.descriptor.lock().unwrap().is_readable {
            return true;
        }
        let arm = || {
            self.change(|it| it.is_armed = true);
            Ok::<_, ()>(())
        };
        self.wakers.watch(NUMBER, &Waker::from(Arc::clone(task)), arm).unwrap();
        false
    }

    fn wait(&self, task: &Arc<Task>) {
        while !self.poll(task) {
            task.sleep();
        }
    }

    /// A future that is dropped, and its descriptor closed.
    fn forget(&self) {
        self.wakers.forget(NUMBER);
        self.change(|it| *it = Descriptor::default());
    }
}

/// Runs `waits` beside the thread that wakes and, if `ends`, the child's end at any moment.
fn model(ends: Option<fn(&Scene)>, waits: fn(&Scene)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let scene = Scene::new();
        let beside = |run: fn(&Scene)| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || run(&scene))
        };
        let wakes = beside(Scene::run);
        let ends = ends.map(beside);
        waits(&scene);
        scene.change(|it| it.is_over = true);
        wakes.join().unwrap();
        ends.map(|ends| ends.join().unwrap());
    });
}

fn end(scene: &Scene) {
    scene.change(|it| it.is_readable = true);
}

#[test]
fn an_end_wakes_who_waits_for_it() {
    model(Some(end), |scene| scene.wait(&Task::new()));
}

#[test]
fn so_it_does_who_waits_by_another_waker_than_before() {
    model(Some(end), |scene| {
        if !scene.poll(&Task::new()) {
            scene.wait(&Task::new());
        }
    });
}

/// The event of a descriptor that was closed is on its way while another one has its number.
#[test]
fn a_number_that_is_used_again_is_no_one_elses() {
    model(None, |scene| {
        scene.poll(&Task::new());
        end(scene);
        scene.forget();
        let task = Task::new();
        if !scene.poll(&task) {
            end(scene);
            scene.wait(&task);
        }
    });
}
