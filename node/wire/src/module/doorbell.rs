//! Doorbells: rung and waited for, in the host and in a node.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::module::requests;

/// Rings the other side, from either.
pub fn ring(device: &File) -> Result<(), Errno> {
    requests::bell(device)
}

/// Sleeps until a doorbell rings, one of `others` is ready, or time is over.
/// What has rung since the last call counts, so that nothing is missed between
/// a look at the window and this.
pub fn wait(
    mut device: &File,
    others: &[(BorrowedFd<'_>, PollFlags)],
    limit: Duration,
) -> io::Result<()> {
    let bell = PollFd::new(device, PollFlags::IN);
    let others = others.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags));
    let mut fds: Vec<_> = [bell].into_iter().chain(others).collect();
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut fds, Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if fds[0].revents().contains(PollFlags::IN) {
        let mut count = [0; 8];
        device.read_exact(&mut count)?;
    }
    Ok(())
}
