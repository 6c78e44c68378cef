//! The bell under every interleaving: requests without messages, with one and
//! with several, and ones that could not be sent or only in part, while the server's time at the
//! bell runs out. A request that does not wake it would leave all threads asleep, which loom tells.

use std::collections::VecDeque;

use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use kumiki_spawn_wire::bell::{self, Hand};
use kumiki_spawn_wire::{ASKED, AT_BELL, AT_SOCKET, DONE, TAKEN};

use crate::Word;

/// What a request brings: in so many messages, of which this one, from 0 on, cannot be sent.
#[derive(Clone, Copy)]
struct Brings {
    messages: u32,
    fails_at: Option<u32>,
}

const NOTHING: Brings = Brings { messages: 0, fails_at: None };
const ONE: Brings = Brings { messages: 1, fails_at: None };
const TWO: Brings = Brings { messages: 2, fails_at: None };
const UNSENT: Brings = Brings { messages: 1, fails_at: Some(0) };
const HALF: Brings = Brings { messages: 2, fails_at: Some(1) };

/// Messages: the number of their request, and whether they bring descriptors of it.
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
    bell: Word,
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
            bell: Word(AtomicU32::new(at)),
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

    /// As `Server::tell` of the library, and then it waits.
    fn ask(&self, brings: Brings) {
        let number = self.number.load(Relaxed) + 1;
        self.number.store(number, Relaxed);
        self.sent.store(brings.messages, Relaxed);
        self.state.store(ASKED, Release);
        let part = |part: u32| {
            if brings.fails_at == Some(part) {
                return Err(());
            }
            self.send(number, true);
            Ok(())
        };
        let first = |with: bool| {
            if with {
                return part(0);
            }
            self.send(number, false);
            Ok(())
        };
        let wake = || {
            self.wake();
            Ok(())
        };
        let told = bell::ring(&self.bell, brings.messages > 0, first, wake)
            .and_then(|()| (1..brings.messages).try_for_each(part));
        if told.is_err() {
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
    /// The last one's number, and whether it brought something.
    message: Option<(u32, bool)>,
    got: u32,
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
            if self.both.bell.0.load(Relaxed) != AT_BELL {
                return false;
            }
            over = self.both.woken.wait(over).unwrap();
        }
    }

    fn leave(&mut self) {}

    fn receive(&mut self) -> bool {
        let mut socket = self.both.socket.lock().unwrap();
        loop {
            if let Some((number, brings)) = socket.messages.pop_front() {
                if self.message.is_none_or(|(last, _)| last != number) {
                    self.got = 0;
                }
                self.message = Some((number, brings));
                self.got += u32::from(brings);
                return true;
            }
            if socket.is_closed {
                return false;
            }
            socket = self.both.arrived.wait(socket).unwrap();
        }
    }

    fn in_hand(&self) -> Hand {
        let (sent, number) = (self.both.sent.load(Relaxed), self.both.number.load(Relaxed));
        match self.message {
            _ if sent == 0 && self.got == 0 => Hand::Its,
            Some((its, _)) if its != number => Hand::Others,
            Some((_, false)) => Hand::Withdrawn,
            Some(_) if self.got < sent => Hand::Part,
            Some(_) => Hand::Its,
            None => Hand::Others,
        }
    }

    fn drop_message(&mut self) {
        (self.message, self.got) = (None, 0);
    }

    fn withdraw(&mut self) {
        self.both.state.store(DONE, Release);
        self.both.wake();
    }
}

/// The server, until the socket is closed.
fn serve(both: &Both) {
    while bell::is_asked(&both.bell, &mut Places { both, message: None, got: 0 }) {
        both.served.fetch_add(1, Relaxed);
        both.state.store(DONE, Release);
        both.wake();
    }
}

/// The server begins at `at`; its time at the bell is over at any moment, and again at the end,
/// as the library's socket is closed.
fn requests(at: u32, all: &'static [Brings]) {
    model(at, all, true);
}

/// The same, but its time at the bell is over at the end only: two requests of two messages and a
/// third thread are more interleavings than minutes have room for.
fn requests_in_time(at: u32, all: &'static [Brings]) {
    model(at, all, false);
}

fn model(at: u32, all: &'static [Brings], runs_out: bool) {
    loom::model(move || {
        let both = Arc::new(Both::new(at));
        let server = thread::spawn({
            let both = both.clone();
            move || serve(&both)
        });
        let clock = runs_out.then(|| {
            let both = both.clone();
            thread::spawn(move || {
                *both.futex.lock().unwrap() = Over::Once;
                both.woken.notify_all();
            })
        });
        all.iter().for_each(|brings| both.ask(*brings));
        if let Some(clock) = clock {
            clock.join().unwrap();
        }
        both.socket.lock().unwrap().is_closed = true;
        both.arrived.notify_all();
        *both.futex.lock().unwrap() = Over::Always;
        both.woken.notify_all();
        server.join().unwrap();
        let wanted = all.iter().filter(|brings| brings.fails_at.is_none()).count();
        assert_eq!(both.served.load(Relaxed), wanted as u32);
    });
}

#[test]
fn a_ring_and_the_way_to_the_socket_cross() {
    requests(AT_BELL, &[NOTHING, NOTHING]);
}

#[test]
fn messages_wake_it_at_either_place() {
    requests(AT_BELL, &[ONE, NOTHING]);
    requests(AT_SOCKET, &[NOTHING, ONE]);
}

#[test]
fn what_needs_two_messages_waits_for_both() {
    requests(AT_BELL, &[TWO]);
    requests_in_time(AT_BELL, &[TWO, NOTHING]);
    requests_in_time(AT_SOCKET, &[TWO, ONE]);
}

#[test]
fn what_could_not_be_sent_is_withdrawn() {
    requests(AT_BELL, &[UNSENT, NOTHING]);
    requests(AT_SOCKET, &[UNSENT, ONE]);
}

#[test]
fn so_is_what_was_sent_in_part() {
    requests(AT_BELL, &[HALF]);
    requests_in_time(AT_BELL, &[HALF, NOTHING]);
    requests_in_time(AT_SOCKET, &[HALF, ONE]);
}
