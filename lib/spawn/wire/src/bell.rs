//! Where the server sleeps, and how it is woken there. `tests/loom` runs this under
//! every interleaving.
//!
//! ```text
//! library                                  server
//!  state = ASKED
//!  message, if it brings descriptors
//!  bell: AT_BELL → RUNG, futex wake ─────▶ at the bell: AT_BELL, for some ms
//!  or the bell is AT_SOCKET: message ────▶ at the socket: AT_SOCKET
//! ```
//!
//! Only the server leaves the bell: it writes AT_SOCKET when its time there is over, and learns
//! by that whether it was rung just then. Only the library writes RUNG, over whatever is there:
//! both exchange, so of two such one comes after the other, and sees what was before it. Either
//! the server takes RUNG away after the request was made, and sees the state ASKED, or the library
//! finds AT_BELL and wakes it. (A compare-exchange that fails writes nothing, and a server that
//! takes a former RUNG away just then may miss the request until its time at the bell is over.)
//!
//! What the bell tells may be told by a message too, if it crossed with the server's way to the
//! socket. So neither says that there is a request: the state does, which the server changes to
//! TAKEN before it looks which message it needs. A message has its request's number, and one of
//! another is dropped. What a request brings may need several messages: the first is sent before the
//! bell is rung, the others while the server receives, so that they are never more than the socket
//! holds. The library takes back what it cannot send, if the state is ASKED still; if it is TAKEN it
//! sends a message without descriptors, and the server ends the request.

use core::sync::atomic::Ordering::{Acquire, Release};

use crate::request::{AT_BELL, AT_SOCKET, RUNG};
use crate::word::Word;

/// The server, as far as it sleeps and takes requests.
pub trait Server {
    /// Takes the request, if there is one: its state is ASKED no more, and only the server ends it.
    fn takes(&mut self) -> bool;
    /// Sleeps while the bell is AT_BELL; whether its time there is over.
    fn sleep(&mut self) -> bool;
    /// Leaves the bell, before it goes to the socket.
    fn leave(&mut self);
    /// Waits for a message; `false`: nobody is left to send one.
    fn receive(&mut self) -> bool;
    /// Looks how the messages in hand fit the request that was taken.
    fn in_hand(&self) -> Hand;
    /// Drops the message in hand, if there is one.
    fn drop_message(&mut self);
    /// Ends a request that cannot be carried out.
    fn withdraw(&mut self);
}

/// Relation of the messages in hand to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// All that the request has.
    Its,
    /// A part of it; the next message brings more.
    Part,
    /// Nothing, or that of another request.
    Others,
    /// The request was taken back: its descriptors could not be sent.
    Withdrawn,
}

/// Waits for a request, and takes it; `false`: nobody is left to make one.
pub fn is_asked(bell: &impl Word, server: &mut impl Server) -> bool {
    loop {
        // Acquire, as below: partner is the library's release in `ring`.
        let mut now = bell.load(Acquire);
        if now == AT_BELL {
            if !server.sleep() {
                continue;
            }
            now = bell.swap(AT_SOCKET, Acquire);
        }
        if now != RUNG {
            server.leave();
            if !server.receive() {
                return false;
            }
        }
        // Before the request is looked at: the next one rings again.
        bell.swap(AT_BELL, Acquire);
        if server.takes() {
            loop {
                match server.in_hand() {
                    Hand::Its => return true,
                    Hand::Withdrawn => break server.withdraw(),
                    Hand::Part => {}
                    Hand::Others => {
                        server.drop_message();
                        // What was in hand may have been of one that was withdrawn in part, and this
                        // one needs no message: none will come.
                        if matches!(server.in_hand(), Hand::Its) {
                            return true;
                        }
                    }
                }
                if !server.receive() {
                    return false;
                }
            }
        }
        server.drop_message();
    }
}

/// Wakes the server for the request whose state was just made ASKED. `send`: a message to it, with
/// the descriptors if `true`; `wake`: who sleeps at the bell.
///
/// # Errors
/// Those of `send` and `wake`.
pub fn ring<E>(
    bell: &impl Word,
    has_message: bool,
    send: impl Fn(bool) -> Result<(), E>,
    wake: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    if has_message {
        send(true)?;
    }
    // Release: partner is the server's acquire, before it reads the state.
    match bell.swap(RUNG, Release) {
        AT_BELL => wake(),
        _ if has_message => Ok(()),
        // At the socket only a message wakes it.
        _ => send(false),
    }
}
