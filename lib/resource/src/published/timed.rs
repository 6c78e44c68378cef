//! A stream that is read or written until a moment, however slowly the other side goes.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A time limit of a socket holds for one call each: a peer that sends a byte before each
/// ends would be read for ever.
pub(super) struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Timed<'_> {
    /// Limits the stream to so long from now on.
    pub(super) fn new(stream: &UnixStream, span: Duration) -> Timed<'_> {
        Timed { stream, until: Instant::now() + span }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_peer_that_trickles_is_given_up() {
        let (own, mut peer) = UnixStream::pair().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) && peer.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            });
            // A byte is always there before the limit of one call.
            let mut stream = Timed::new(&own, Duration::from_millis(200));
            let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
            is_over.store(true, Ordering::Relaxed);
            assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock));
        });
    }

    #[test]
    fn a_peer_that_reads_nothing_is_given_up() {
        let (own, _peer) = UnixStream::pair().unwrap();
        let mut stream = Timed::new(&own, Duration::from_millis(50));
        let error = stream.write_all(&vec![0; 64 << 20]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock));
    }
}
