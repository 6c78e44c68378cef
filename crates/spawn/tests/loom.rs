//! The bell under every interleaving (`cargo xtask loom`): requests with and without messages,
//! and ones that could not be sent, while the server's time at the bell runs out. A request that
//! does not wake it would leave all threads asleep, which loom tells.

#![cfg(loom)]

use std::collections::VecDeque;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

#[path = "../src/bell.rs"]
mod bell;
#[path = "../src/wire.rs"]
#[allow(dead_code, reason = "most of it is not the bell's")]
mod wire;

use bell::Hand;
use wire::{ASKED, AT_BELL, AT_SOCKET, DONE, TAKEN};

bell::word!(AtomicU32);

/// Messages: the number of their request, and whether they bring its descriptors.
#[derive(Default)]
struct Socket {
    messages: VecDeque<(u32, bool)>,
    is_closed: bool,
}

/// The server's time at the bell.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    Not,
    Once,
    Always,
}

struct Both {
    state: AtomicU32,
    bell: AtomicU32,
    number: AtomicU32,
    sent: AtomicU32,
    /// Of the server: how many requests it has served, the last one's number among them.
    served: AtomicU32,
    socket: Mutex<Socket>,
    arrived: Condvar,
    /// Sleepers at words, and when the server's time at the bell is over.
    futex: Mutex<Over>,
    woken: Condvar,
}

impl Both {
    fn new(at: u32) -> Both {
        Both {
            state: AtomicU32::new(DONE),
            bell: AtomicU32::new(at),
            number: AtomicU32::new(0),
            sent: AtomicU32::new(0),
            served: AtomicU32::new(0),
            socket: Mutex::new(Socket::default()),
            arrived: Condvar::new(),
            futex: Mutex::new(Over::Not),
            woken: Condvar::new(),
        }
    }

    fn wake(&self) {
        // As the kernel, which looks at the word and puts to sleep under one lock.
        let _sleepers = self.futex.lock().unwrap();
        self.woken.notify_all();
    }

    fn send(&self, number: u32, with: bool) {
        self.socket.lock().unwrap().messages.push_back((number, with));
        self.arrived.notify_all();
    }

    /// As `Server::tell` of the library, and then it waits. `Err`: what it brings cannot be sent.
    fn ask(&self, message: Option<Result<(), ()>>) {
        let number = self.number.load(Relaxed) + 1;
        self.number.store(number, Relaxed);
        self.sent.store(u32::from(message.is_some()), Relaxed);
        self.state.store(ASKED, Release);
        let send = |with: bool| {
            if with {
                message.unwrap()?;
            }
            self.send(number, with);
            Ok::<_, ()>(())
        };
        let wake = || {
            self.wake();
            Ok(())
        };
        if bell::ring(&self.bell, message.is_some(), send, wake).is_err() {
            if self.state.compare_exchange(ASKED, DONE, Relaxed, Relaxed).is_ok() {
                return;
            }
            self.send(number, false);
        }
        let mut sleepers = self.futex.lock().unwrap();
        while self.state.load(Acquire) != DONE {
            sleepers = self.woken.wait(sleepers).unwrap();
        }
    }
}

struct Places<'a> {
    both: &'a Both,
    message: Option<(u32, bool)>,
}

impl bell::Server for Places<'_> {
    fn takes(&mut self) -> bool {
        self.both.state.compare_exchange(ASKED, TAKEN, Acquire, Relaxed).is_ok()
    }

    fn sleep(&mut self) -> bool {
        let mut over = self.both.futex.lock().unwrap();
        loop {
            match *over {
                Over::Not => {}
                Over::Once => {
                    *over = Over::Not;
                    return true;
                }
                Over::Always => return true,
            }
            if self.both.bell.load(Relaxed) != AT_BELL {
                return false;
            }
            over = self.both.woken.wait(over).unwrap();
        }
    }

    fn leave(&mut self) {}

    fn receive(&mut self) -> bool {
        let mut socket = self.both.socket.lock().unwrap();
        loop {
            self.message = socket.messages.pop_front();
            if self.message.is_some() || socket.is_closed {
                return self.message.is_some();
            }
            socket = self.both.arrived.wait(socket).unwrap();
        }
    }

    fn in_hand(&self) -> Hand {
        let (sent, number) = (self.both.sent.load(Relaxed) != 0, self.both.number.load(Relaxed));
        match self.message {
            None | Some((_, false)) if !sent => Hand::Its,
            Some((its, with)) if its == number && with == sent => Hand::Its,
            Some((its, _)) if its == number => Hand::Withdrawn,
            _ => Hand::Others,
        }
    }

    fn drop_message(&mut self) {
        self.message = None;
    }

    fn withdraw(&mut self) {
        self.both.state.store(DONE, Release);
        self.both.wake();
    }
}

/// The server, until the socket is closed.
fn serve(both: &Both) {
    while bell::is_asked(&both.bell, &mut Places { both, message: None }) {
        both.served.fetch_add(1, Relaxed);
        both.state.store(DONE, Release);
        both.wake();
    }
}

/// The server begins at `at`; its time at the bell is over at any moment, and again at the end,
/// as the library's socket is closed.
fn requests(at: u32, all: &'static [Option<Result<(), ()>>]) {
    loom::model(move || {
        let both = Arc::new(Both::new(at));
        let server = thread::spawn({
            let both = both.clone();
            move || serve(&both)
        });
        let clock = thread::spawn({
            let both = both.clone();
            move || {
                *both.futex.lock().unwrap() = Over::Once;
                both.woken.notify_all();
            }
        });
        all.iter().for_each(|message| both.ask(*message));
        clock.join().unwrap();
        both.socket.lock().unwrap().is_closed = true;
        both.arrived.notify_all();
        *both.futex.lock().unwrap() = Over::Always;
        both.woken.notify_all();
        server.join().unwrap();
        let wanted = all.iter().filter(|message| !matches!(message, Some(Err(())))).count();
        assert_eq!(both.served.load(Relaxed), wanted as u32);
    });
}

#[test]
fn a_ring_and_the_way_to_the_socket_cross() {
    requests(AT_BELL, &[None, None]);
}

#[test]
fn messages_wake_it_at_either_place() {
    requests(AT_BELL, &[Some(Ok(())), None]);
    requests(AT_SOCKET, &[None, Some(Ok(()))]);
}

#[test]
fn what_could_not_be_sent_is_withdrawn() {
    requests(AT_BELL, &[Some(Err(())), None]);
    requests(AT_SOCKET, &[Some(Err(())), Some(Ok(()))]);
}
