//! A stream of one connection carried on by another.

use std::os::fd::AsFd;

use rustix::event::PollFlags;

use super::MuxLink;
use crate::error::Result;
use crate::frame::Kind;
use crate::link::Link;

/// Carries frames between two streams until either is over. Credit goes from end to end, so that what
/// is under way here is less than a window.
///
/// # Errors
/// One of them ended without being closed; the other one is closed.
pub fn relay(near: &MuxLink, far: &MuxLink) -> Result<()> {
    loop {
        for (from, to) in [(near, far), (far, near)] {
            while let Some((kind, body)) = from.receive()? {
                to.send(kind, &body)?;
                if kind == Kind::Close {
                    return Ok(());
                }
            }
        }
        near.wait(&[(far.as_fd(), PollFlags::IN)], None)?;
        far.mailbox.listen();
    }
}
