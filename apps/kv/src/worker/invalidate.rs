//! Invalidations to clients, sent beside their answers.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Worker;
use crate::connection::Wants;
use crate::desk::Shards;
use crate::jobs::{Job, ShardTerms};
use crate::store::{How, Invalidation, redirection_is_broken};

impl Worker {
    /// Sends invalidations to clients of this core, and hands those of other cores' clients to them.
    pub(super) fn invalidate(&mut self, now: u64) {
        let messages = self.ours.with(|shard| {
            let mut messages = std::mem::take(&mut shard.clients.invalidations);
            messages.append(&mut shard.keys.take_unsent());
            messages
        });
        if messages.is_empty() {
            return;
        }
        let (own, shards) = (self.ours.own, self.ours.shards.len());
        let mut others: Vec<Vec<Invalidation>> = vec![Vec::new(); shards];
        let (mut left, mut reached) = (VecDeque::from(messages), Vec::new());
        while let Some(message) = left.pop_front() {
            let mut theirs = vec![Vec::new(); shards];
            for id in &message.to {
                // A number says whose it is.
                match id.saturating_sub(1) as usize % shards {
                    shard if shard == own => {
                        let (at, more) = self.invalidate_one(*id, &message, now);
                        reached.extend(at);
                        // Before the messages behind this one.
                        more.into_iter().for_each(|more| left.push_front(more));
                    }
                    shard => theirs[shard].push(*id),
                }
            }
            for (to, others) in theirs.into_iter().zip(&mut others) {
                if !to.is_empty() {
                    others.push(Invalidation { to, ..message.clone() });
                }
            }
        }
        reached.sort_unstable();
        reached.dedup();
        reached.into_iter().for_each(|at| self.send(at));
        if others.iter().any(|messages| !messages.is_empty()) {
            let job = |messages: Vec<Invalidation>| match messages.is_empty() {
                true => Vec::new(),
                false => vec![Job::Invalidate(messages)],
            };
            let _ =
                self.ours.ask(ShardTerms::of_nobody(now), others.into_iter().map(job).collect());
        }
    }

    /// Sends an invalidation to a client, if it is meant for it; its place, and a message to another client.
    fn invalidate_one(
        &mut self,
        id: u64,
        message: &Invalidation,
        now: u64,
    ) -> (Option<usize>, Option<Invalidation>) {
        let Some(&at) = self.places.get(&id) else {
            // The client that redirected it here has to know.
            let is_redirected = message.how == How::Redirected;
            let bytes = || Arc::from(redirection_is_broken(id));
            let broken =
                || Invalidation { to: vec![message.by], by: 0, how: How::Broken, bytes: bytes() };
            return (None, is_redirected.then(broken));
        };
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else {
            return (None, None);
        };
        let session = &mut client.connection.session;
        match (message.how, &mut session.tracking) {
            (How::Redirected, _) => {}
            (_, None) => return (None, None),
            (How::Broken, Some(tracking)) => {
                tracking.is_broken = true;
                session.is_new = true;
                self.ours.with(|shard| session.show(&mut shard.clients, at, now));
            }
            (how, Some(tracking)) => {
                let is_own = tracking.skips_own && message.by == id;
                let is_meant = match how {
                    How::Followed => !tracking.is_broadcast && !is_own,
                    How::Listened => tracking.is_broadcast,
                    _ => true,
                };
                if !is_meant {
                    return (None, None);
                }
                if let Some(to) = tracking.redirect {
                    let bytes = Arc::clone(&message.bytes);
                    let there = Invalidation { to: vec![to], by: id, how: How::Redirected, bytes };
                    return (None, Some(there));
                }
            }
        }
        if !session.is_three {
            return (None, None);
        }
        client.connection.send_beside(&message.bytes);
        self.weigh(at);
        (Some(at), None)
    }

    /// Sends a client its messages, as far as it takes them now.
    pub(super) fn send(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else { return };
        if !client.connection.flush() {
            return self.close(at);
        }
        // Who waits for room, or for a turn, has the rest sent then.
        if client.connection.is_full() && client.wants == Wants::Read {
            self.wants(at, Wants::Write);
        }
        self.weigh(at);
    }
}
