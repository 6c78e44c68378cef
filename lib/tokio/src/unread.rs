//! What is no regular file, read to its end by threads that may sleep.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kumiki_parasc::op::{CWD, Errno, Openat, Poll, Read};
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl};

use crate::engine::hand_over;
use crate::memory;

/// Bytes at once.
const PIECE: usize = 64 * 1024;

/// Goes on with a file that was opened with `O_NONBLOCK`, so that its open waited for nobody.
///
/// A FIFO's writer was released by that open: closed, and opened anew, the FIFO has lost what was
/// written meanwhile, and its writer. One that nobody has open for writing reads as ended;
/// std's open waits for the first writer, which poll(2) does for a descriptor that is there: it
/// tells of a hang-up only after one has come.
pub(crate) async fn read_on(file: OwnedFd, kind: FileType) -> io::Result<Vec<u8>> {
    let file = Arc::new(file);
    // Where that is refused, what would wait is waited for below.
    if let Ok(flags) = fcntl_getfl(&file) {
        let _ = fcntl_setfl(&file, flags - OFlags::NONBLOCK);
    }
    if kind == FileType::Fifo {
        wait(&file).await?;
    }
    to_end(file).await
}

/// Opens it as std does, by a thread that may sleep, and reads it.
pub(crate) async fn read_sleeping(path: CString) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let opened = hand_over(Openat::new(CWD, path, flags, Mode::empty())).await?;
    to_end(Arc::new(opened.output?)).await
}

async fn to_end(file: Arc<OwnedFd>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        all.try_reserve(PIECE).map_err(|_| memory::lacking(PIECE))?;
        let read = hand_over(Read::new(Arc::clone(&file), all)).await?;
        let output = read.output;
        all = read.operation.into_buffer();
        match output {
            Ok(0) => return Ok(all),
            Ok(_) | Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => wait(&file).await?,
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits until there is something to read, or nothing will be.
async fn wait(file: &Arc<OwnedFd>) -> io::Result<()> {
    loop {
        let poll = Poll::new([(Arc::clone(file), PollFlags::IN)], -1);
        match hand_over(poll).await?.output {
            Err(Errno::INTR) => (),
            polled => return Ok(polled.map(drop)?),
        }
    }
}
