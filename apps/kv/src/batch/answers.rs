//! Answers of shards, put in the order of their commands.

use std::mem;

use super::Batch;
use crate::commands::Merge;
use crate::desk::{Desk, Shards, Terms};
use crate::jobs::ShardTerms;
use crate::merge::{interleaved, merged};
use crate::session::Session;

impl Batch {
    /// Asks each shard for what is its; `false` if one is gone.
    pub(super) fn ask(&mut self, session: &Session, desk: &Desk<'_, impl Shards>) -> bool {
        if self.jobs.iter().all(Vec::is_empty) {
            return true;
        }
        let jobs = self.jobs.iter_mut().map(mem::take).collect();
        let Some(answers) = desk.shards.ask(asked(session, desk), jobs) else { return false };
        for (shard, its) in answers.into_iter().enumerate() {
            let (base, mut from) = (self.text.len(), 0);
            if base == 0 {
                self.text = its.bytes;
            } else {
                self.text.reserve_exact(its.bytes.len());
                self.text.extend_from_slice(&its.bytes);
            }
            for (number, end) in self.numbers[shard].iter().zip(&its.ends) {
                self.parts[*number] = Some(base + from..base + end);
                from = *end;
            }
            self.numbers[shard].drain(..its.ends.len());
            self.jobs[shard] = its.left;
        }
        true
    }

    /// Writes the answers that are there, in their order.
    pub(super) fn emit(&mut self, desk: &mut Desk<'_, impl Shards>) {
        while let Some(slot) = self.slots.front() {
            let parts = &self.parts[slot.parts.clone()];
            if parts.iter().any(Option::is_none) {
                return self.forget_sent();
            }
            let mut its = parts.iter().flatten().map(|part| &self.text[part.clone()]);
            let merge = slot.merge.filter(|_| slot.is_wanted);
            let begin = if merge == Some(Merge::Any) { drawn(desk) } else { 0 };
            let out = &mut *desk.out;
            match merge {
                Some(_) if !slot.order.is_empty() => interleaved(&slot.order, its.collect(), out),
                Some(merge) => merged(merge, begin, &mut its, out),
                None if slot.is_wanted => {
                    its.for_each(|part| out.bytes.extend_from_slice(part));
                }
                None => {}
            }
            self.slots.pop_front();
        }
        self.parts.clear();
        self.text = Vec::new();
        self.bytes = 0;
    }

    /// Keeps no more of the answers than has not been written, while others are waited for.
    fn forget_sent(&mut self) {
        let first = self.slots.front().map_or(0, |slot| slot.parts.start);
        let left = &mut self.parts[first..];
        let bytes = left.iter().flatten().map(|part| part.len()).sum();
        let mut text = Vec::with_capacity(bytes);
        for part in left.iter_mut().flatten() {
            let from = text.len();
            text.extend_from_slice(&self.text[part.clone()]);
            *part = from..text.len();
        }
        self.text = text;
    }
}

/// Draws a shard, each as likely as it has keys: each key of all shards is as likely then. Shards count
/// their keys between commands of their own clients, so that these may be those of just before.
fn drawn(desk: &Desk<'_, impl Shards>) -> usize {
    let draw = desk.shards.with(|shard| shard.draw());
    let keys = desk.terms.shared.counters.iter().map(|counters| counters.keys.get());
    weighed(draw, keys)
}

/// The one of these weights to which a number leads.
fn weighed(draw: u64, weights: impl ExactSizeIterator<Item = u64> + Clone) -> usize {
    let (count, sum) = (weights.len(), weights.clone().sum::<u64>());
    if sum == 0 {
        return (draw % count.max(1) as u64) as usize;
    }
    let mut left = draw % sum;
    for (at, weight) in weights.enumerate() {
        if left < weight {
            return at;
        }
        left -= weight;
    }
    0
}

pub(super) fn asked(session: &Session, desk: &Desk<'_, impl Shards>) -> ShardTerms {
    let Terms { now, most, .. } = desk.terms;
    ShardTerms { now, is_three: session.is_three, most }
}

#[cfg(test)]
mod tests {
    use super::weighed;

    #[test]
    fn each_is_drawn_as_often_as_it_weighs() {
        let mut seen = [0; 4];
        (0..600).for_each(|draw| seen[weighed(draw, [1, 0, 2, 3].into_iter())] += 1);
        assert_eq!(seen, [100, 0, 200, 300]);
        assert_eq!([7, 8, 9].map(|draw| weighed(draw, [0, 0].into_iter())), [1, 0, 1]);
    }
}
