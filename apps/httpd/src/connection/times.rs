//! How long a client may take, and what it gets then.

use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::{Connection, Next, Phase, Surroundings};
use crate::args::Args;
use crate::request::is_of_head;
use crate::response::Status;

/// Time that a client has to close a connection that we have closed.
const LINGER: Duration = Duration::from_secs(2);
/// Time that a client which sends no more waits for a disk: mostly it has gone.
const LEFT: Duration = Duration::from_secs(5);

impl Connection {
    /// Returns true if its time is over, and whether that is to be said.
    pub(crate) fn is_overdue(&self, args: &Args, now: Instant) -> bool {
        let seconds = match self.phase {
            // The first head is to come soon after the connection.
            Phase::Head if self.is_idle() && !self.is_first => args.idle_time,
            Phase::Head => args.head_time,
            Phase::Sending => args.send_time,
            Phase::Lingering => LINGER.as_secs(),
            Phase::Waiting => args.disk_time,
        };
        let left = self.left.filter(|_| self.phase == Phase::Waiting);
        // Each call has that time: one who is there takes parts of a long answer meanwhile.
        let left = left.map(|since| since.max(self.since));
        if left.is_some_and(|since| now.saturating_duration_since(since) >= LEFT) {
            return true;
        }
        now.saturating_duration_since(self.since) >= Duration::from_secs(seconds)
    }

    /// The client sends no more, and mostly has gone.
    pub(crate) fn leaves(&mut self, now: Instant) {
        self.left.get_or_insert(now);
    }

    /// Events to be told of while a call is under way: not of what is not read, and once that the
    /// client sends no more.
    pub(crate) fn waits_for_work(&self) -> EventFlags {
        if self.left.is_some() { EventFlags::empty() } else { EventFlags::RDHUP }
    }

    /// Ends what has not come in time: by an answer, if a request has begun and no answer.
    pub(crate) fn expire(&mut self, around: &mut Surroundings<'_>) -> Next {
        if self.phase == Phase::Waiting {
            around.counts.disk_time.add(1);
            if self.is_amid_answer() {
                return self.cut(around);
            }
            self.keeps_alive = false;
            self.answer_shortly(Status::UNAVAILABLE, is_of_head(&self.input), around);
            return self.go(around);
        }
        if self.phase != Phase::Head || self.is_idle() {
            return self.cut(around);
        }
        self.head_length = self.input.len();
        self.keeps_alive = false;
        self.answer_shortly(Status::REQUEST_TIMEOUT, is_of_head(&self.input), around);
        self.go(around)
    }
}
