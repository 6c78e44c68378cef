//! How far a call on a socket has come.

use std::io;

/// Outcome of a call on a socket that does not wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Bytes moved; 0 from a client that sends no more.
    Bytes(usize),
    /// None until the socket is ready for it.
    Later,
    /// The connection is lost.
    Lost,
}

/// Reads it from an error of the TLS library.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) fn lost_or_later(error: &io::Error) -> Moved {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Moved::Later,
        _ => Moved::Lost,
    }
}
