//! What clients are told beside their answers: that keys have changed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Worker;
use crate::connection::Wants;
use crate::desk::Shards;
use crate::jobs::{Job, ShardTerms};
use crate::store::{How, Invalidation, redirection_is_broken};

impl Worker {
    /// Tells clients of this core, and has other cores tell theirs.
    pub(super) fn tell(&mut self, now: u64) {
        let told = self.ours.with(|shard| {
            let mut told = std::mem::take(&mut shard.clients.told);
            told.append(&mut shard.keys.take_untold());
            told
        });
        if told.is_empty() {
            return;
        }
        let (own, shards) = (self.ours.own, self.ours.shards.len());
        let mut others: Vec<Vec<Invalidation>> = vec![Vec::new(); shards];
        let (mut left, mut reached) = (VecDeque::from(told), Vec::new());
        while let Some(told) = left.pop_front() {
            let mut theirs = vec![Vec::new(); shards];
            for id in &told.to {
                // A number says whose it is.
                match id.saturating_sub(1) as usize % shards {
                    shard if shard == own => {
                        let (at, more) = self.tell_one(*id, &told, now);
                        reached.extend(at);
                        // Before what was to be told behind this.
                        more.into_iter().for_each(|more| left.push_front(more));
                    }
                    shard => theirs[shard].push(*id),
                }
            }
            for (to, others) in theirs.into_iter().zip(&mut others) {
                if !to.is_empty() {
                    others.push(Invalidation { to, ..told.clone() });
                }
            }
        }
        reached.sort_unstable();
        reached.dedup();
        reached.into_iter().for_each(|at| self.send(at));
        if others.iter().any(|told| !told.is_empty()) {
            let job = |told: Vec<Invalidation>| match told.is_empty() {
                true => Vec::new(),
                false => vec![Job::Tell(told)],
            };
            let _ =
                self.ours.ask(ShardTerms::of_nobody(now), others.into_iter().map(job).collect());
        }
    }

    /// Tells a client, if it is to know; its place, and what another one is to be told.
    fn tell_one(
        &mut self,
        id: u64,
        told: &Invalidation,
        now: u64,
    ) -> (Option<usize>, Option<Invalidation>) {
        let Some(&at) = self.places.get(&id) else {
            // Who has had it sent here is to know.
            let is_redirected = told.how == How::Redirected;
            let bytes = || Arc::from(redirection_is_broken(id));
            let broken =
                || Invalidation { to: vec![told.by], by: 0, how: How::Broken, bytes: bytes() };
            return (None, is_redirected.then(broken));
        };
        let Some(client) = self.clients.get_mut(at).and_then(Option::as_mut) else {
            return (None, None);
        };
        let session = &mut client.connection.session;
        match (told.how, &mut session.tracking) {
            (How::Redirected, _) => {}
            (_, None) => return (None, None),
            (How::Broken, Some(tracking)) => {
                tracking.is_broken = true;
                session.is_new = true;
                self.ours.with(|shard| session.show(&mut shard.clients, at, now));
            }
            (how, Some(tracking)) => {
                let is_own = tracking.skips_own && told.by == id;
                let is_meant = match how {
                    How::Followed => !tracking.is_broadcast && !is_own,
                    How::Listened => tracking.is_broadcast,
                    _ => true,
                };
                if !is_meant {
                    return (None, None);
                }
                if let Some(to) = tracking.redirect {
                    let bytes = Arc::clone(&told.bytes);
                    let there = Invalidation { to: vec![to], by: id, how: How::Redirected, bytes };
                    return (None, Some(there));
                }
            }
        }
        if !session.is_three {
            return (None, None);
        }
        client.connection.tell(&told.bytes);
        self.weigh(at);
        (Some(at), None)
    }

    /// Sends a client what it has been told, as far as it takes it now.
    fn send(&mut self, at: usize) {
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
