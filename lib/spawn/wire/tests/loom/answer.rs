//! The answer under every interleaving: of a server, of a child that waits for its maps, of the
//! kernel, and of a server that is killed at any moment. Time passes only where a server has died:
//! a wake that is lost would not be made up for.

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use kumiki_spawn_wire::answer::{self, Waiter};
use kumiki_spawn_wire::{ASKED, DONE, MAPS, TAKEN};

use crate::Word;

/// What the maps are, once they are written.
const WRITTEN: u32 = 7;

struct Scene {
    state: Word,
    mapped: AtomicU32,
    /// True once the server is dead. The kernel's lock of who sleeps at the state.
    is_dead: Mutex<bool>,
    sleepers: Condvar,
}

impl Scene {
    fn asked() -> Arc<Scene> {
        Arc::new(Scene {
            state: Word(AtomicU32::new(ASKED)),
            mapped: AtomicU32::new(0),
            is_dead: Mutex::new(false),
            sleepers: Condvar::new(),
        })
    }

    /// As the kernel, which looks at the word and puts to sleep under one lock. Whether the time is
    /// over, which it is for who waits for the dead.
    fn sleep(&self, now: u32) -> bool {
        let mut is_dead = self.is_dead.lock().unwrap();
        if self.state.0.load(Relaxed) != now {
            return false;
        }
        if !*is_dead {
            is_dead = self.sleepers.wait(is_dead).unwrap();
        }
        *is_dead
    }

    /// Wakes one, as all do here.
    fn wake(&self) {
        let _queue = self.is_dead.lock().unwrap();
        self.sleepers.notify_one();
    }

    fn takes(&self) -> bool {
        self.state.0.compare_exchange(ASKED, TAKEN, Acquire, Relaxed).is_ok()
    }

    fn give(&self, state: u32) {
        answer::give(&self.state, state, || self.wake());
    }

    fn dies(&self) {
        *self.is_dead.lock().unwrap() = true;
        self.sleepers.notify_all();
    }
}

/// The library.
struct Library<'a> {
    scene: &'a Scene,
    has_died: bool,
}

impl Waiter for Library<'_> {
    fn sleep(&mut self, now: u32) -> bool {
        self.scene.sleep(now)
    }

    fn is_alive(&mut self) -> bool {
        !*self.scene.is_dead.lock().unwrap()
    }

    fn map(&mut self) {
        self.scene.mapped.store(WRITTEN, Relaxed);
    }

    fn wake(&mut self) {
        self.scene.wake();
    }

    fn has_died(&mut self) {
        self.has_died = true;
    }
}

/// The state at the end, and whether the server was found dead.
fn wait(scene: &Scene) -> (u32, bool) {
    let mut library = Library { scene, has_died: false };
    (answer::wait(&scene.state, &mut library), library.has_died)
}

/// The child with maps, and the kernel at its exec.
fn child(scene: &Scene) {
    let is_mapped = answer::until_mapped(
        &scene.state,
        || scene.wake(),
        |state| {
            scene.sleep(state);
            true
        },
    );
    assert!(is_mapped);
    assert_eq!(scene.mapped.load(Relaxed), WRITTEN);
    scene.give(DONE);
}

#[test]
fn an_answer_wakes_who_waits_for_it() {
    loom::model(|| {
        let scene = Scene::asked();
        let server = thread::spawn({
            let scene = scene.clone();
            move || {
                assert!(scene.takes());
                scene.mapped.store(WRITTEN, Relaxed);
                scene.give(DONE);
            }
        });
        assert_eq!(wait(&scene), (DONE, false));
        // What was written before the answer.
        assert_eq!(scene.mapped.load(Relaxed), WRITTEN);
        server.join().unwrap();
    });
}

#[test]
fn a_child_gets_its_maps_and_then_the_library_its_answer() {
    loom::model(|| {
        let scene = Scene::asked();
        let server = thread::spawn({
            let scene = scene.clone();
            move || {
                assert!(scene.takes());
                child(&scene);
            }
        });
        assert_eq!(wait(&scene), (DONE, false));
        server.join().unwrap();
    });
}

/// The child of a server that has died goes on, and the library writes its maps.
#[test]
fn a_child_gets_its_maps_though_the_server_is_killed() {
    loom::model(|| {
        let scene = Scene::asked();
        // The server has made it.
        scene.state.0.store(MAPS, Release);
        let killer = thread::spawn({
            let scene = scene.clone();
            move || scene.dies()
        });
        let child = thread::spawn({
            let scene = scene.clone();
            move || {
                // It is past its own wake.
                while scene.state.0.load(Acquire) == MAPS {
                    let queue = scene.is_dead.lock().unwrap();
                    if scene.state.0.load(Relaxed) == MAPS {
                        drop(scene.sleepers.wait(queue).unwrap());
                    }
                }
                assert_eq!(scene.mapped.load(Relaxed), WRITTEN);
            }
        });
        let (state, _) = wait(&scene);
        assert_eq!(state, TAKEN, "the child is on its way");
        child.join().unwrap();
        killer.join().unwrap();
    });
}

#[test]
fn the_end_of_a_server_is_seen_and_what_it_has_answered_before_counts() {
    for answers in [false, true] {
        loom::model(move || {
            let scene = Scene::asked();
            let server = thread::spawn({
                let scene = scene.clone();
                move || {
                    assert!(scene.takes());
                    if answers {
                        scene.give(DONE);
                    }
                    scene.dies();
                }
            });
            let (state, has_died) = wait(&scene);
            if answers {
                assert_eq!(state, DONE);
            } else {
                assert_eq!((state, has_died), (TAKEN, true));
            }
            server.join().unwrap();
        });
    }
}
