//! A child that is being made, as a future.

use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::child::Child;
use crate::command::Command;
use crate::ends::{forget, watch};
use crate::servers::SpawnServer;

/// Future of [`Command::spawn_async`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct SpawnAsync<'a> {
    command: &'a mut Command,
    server: &'a mut SpawnServer,
    /// The caller's ends of pipes, once it has begun.
    begun: Option<[Option<File>; 3]>,
}

impl Command {
    /// Starts it by a server that is the caller's own, without blocking while that works.
    /// Where that has to be started first, or the command is none, it is as
    /// [`Command::spawn_by`]. Dropping the future leaves the child, as dropping [`Child`] does.
    ///
    /// ```
    /// # async fn example() -> std::io::Result<()> {
    /// use kumiki_spawn::{Command, SpawnServer};
    ///
    /// let mut server = SpawnServer::new();
    /// let mut child = Command::new("true").spawn_async(&mut server).await?;
    /// assert!(child.wait_async().await?.success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn spawn_async<'a>(&'a mut self, server: &'a mut SpawnServer) -> SpawnAsync<'a> {
        SpawnAsync { command: self, server, begun: None }
    }
}

impl Future for SpawnAsync<'_> {
    /// Result as [`Command::spawn`] has it.
    type Output = io::Result<Child>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.begun.is_none() {
            this.begun = this.command.begin(this.server);
        }
        if let (Some(_), Some(server)) = (&this.begun, this.server.in_flight()) {
            if !server.has_answered() && watch(server.socket(), context.waker()).is_ok() {
                return Poll::Pending;
            }
        }
        // Else what is left to wait for is short.
        let made = this.begun.take().and_then(|pipes| {
            if let Some(server) = this.server.in_flight() {
                forget(server.socket());
            }
            let made = this.server.end()?;
            Some(made.map(|pid| Child::new(pid, pipes)))
        });
        Poll::Ready(match made {
            Some(made) => this.command.made(made),
            None => this.command.spawn_by(this.server),
        })
    }
}

impl Drop for SpawnAsync<'_> {
    fn drop(&mut self) {
        if self.begun.is_some() {
            if let Some(server) = self.server.in_flight() {
                forget(server.socket());
            }
            // It is there, or has been waited for.
            let _ = self.server.end();
        }
    }
}
