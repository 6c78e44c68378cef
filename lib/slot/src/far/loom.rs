//! Every interleaving of a far line, as far as the checker goes: bytes come whole, and of two sides that sleep
//! none is left asleep.

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Answered, AtomicU64, BYTES, Caller, Server};

/// A line and, for each side, whether it was woken by the other way.
struct Scene {
    words: Vec<AtomicU64>,
    woken: [(Mutex<bool>, Condvar); 2],
}

#[derive(Clone)]
struct Memory(Arc<Scene>);

impl AsRef<[AtomicU64]> for Memory {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0.words
    }
}

impl Memory {
    fn wake(&self, whom: usize) {
        let (woken, bell) = &self.0.woken[whom];
        *woken.lock().unwrap() = true;
        bell.notify_one();
    }

    /// Sleeps until it is woken: the checker finds who never is.
    fn sleep(&self, who: usize) {
        let (woken, bell) = &self.0.woken[who];
        let mut woken = woken.lock().unwrap();
        while !*woken {
            woken = bell.wait(woken).unwrap();
        }
    }
}

#[test]
fn no_wake_is_lost_and_no_bytes() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(|| {
        let words = (0..BYTES + 2).map(|_| AtomicU64::new(0)).collect();
        let memory = Memory(Arc::new(Scene {
            words,
            woken: [(); 2].map(|()| (Mutex::new(false), Condvar::new())),
        }));
        let mut caller = Caller::new(memory.clone(), 1);
        let its = memory.clone();
        let server = thread::spawn(move || {
            let (mut server, mut bytes) = (Server::new(its.clone(), 1), Vec::new());
            if !server.has_news() {
                server.sleeps(true);
                if !server.has_news() {
                    its.sleep(0);
                }
                server.sleeps(false);
            }
            let asked = server.asked().unwrap().unwrap();
            server.read(&asked, &mut bytes);
            assert_eq!((asked.head, &bytes[..]), (7, &b"ask for it"[..]));
            if server.answer(Answered::Answer, 8, b"an answer") {
                its.wake(1);
            }
        });
        if caller.ask(7, b"ask for it") {
            memory.wake(0);
        }
        if caller.answered().unwrap().is_none() {
            caller.sleeps(true);
            if caller.answered().unwrap().is_none() {
                memory.sleep(1);
            }
            caller.sleeps(false);
        }
        let (_, answer) = caller.answered().unwrap().unwrap();
        let mut bytes = Vec::new();
        caller.read(&answer, &mut bytes);
        assert_eq!((answer.head, &bytes[..]), (8, &b"an answer"[..]));
        server.join().unwrap();
    });
}
