//! How long the states of a durable place's resources are: what an operation's record will have is known by that before it
//! runs, as far as it can be.

use std::collections::HashMap;

use crate::durable::entry::{Entry, OWN};
use crate::durable::image::Image;
use crate::wire::{Operation, batch};

/// Bytes of a state up to which it is not noted, and counts as so many.
const SHORT: u64 = 256;
/// Bytes of a record beside states, names and what was asked, about: its answer's head and its lease's.
const BESIDE: u64 = 512;

/// Bytes of the states that are longer than [`SHORT`], by the resources' own ids.
#[derive(Debug, Default)]
pub struct StateSizes(HashMap<u64, u64>);

impl StateSizes {
    /// Sizes of an image's states.
    pub fn of(image: &Image) -> StateSizes {
        let mut sizes = StateSizes::default();
        for (kind, table) in &image.tables {
            for (slot, index) in table.slots.iter().zip(0_u64..) {
                let id = u64::from(*kind) << 40 | u64::from(slot.uses) << 20 | index;
                if let Some(resource) = &slot.resource {
                    sizes.set(id, resource.state.len());
                }
            }
        }
        sizes
    }

    fn set(&mut self, id: u64, bytes: usize) {
        match bytes as u64 {
            ..=SHORT => _ = self.0.remove(&id),
            bytes => _ = self.0.insert(id, bytes),
        }
    }

    /// Notes the states of a record.
    pub fn note(&mut self, record: &[Entry]) {
        for entry in record {
            match entry {
                Entry::Made { id, state, .. } | Entry::Changed { id, state, .. } => {
                    self.set(*id, state.len());
                }
                Entry::Gone { id } => _ = self.0.remove(id),
                Entry::Answers { .. } | Entry::Used { .. } => {}
            }
        }
    }

    /// Bytes that an operation's record is known to have: states as they are, and what comes in.
    pub fn of_operation(&self, operation: &Operation) -> u64 {
        let of = |id: u64| self.0.get(&(id & OWN)).copied().unwrap_or(SHORT);
        let bytes = match operation {
            Operation::Create { unique, spec, .. } => {
                spec.len() as u64 + unique.as_ref().map_or(0, |unique| unique.len() as u64)
            }
            Operation::Call { id, input, .. } => of(*id) + input.len() as u64,
            Operation::Chain { steps, input } => {
                let mut ids: Vec<u64> = steps.iter().map(|step| step.id).collect();
                ids.sort_unstable();
                ids.dedup();
                ids.into_iter().map(of).sum::<u64>() + input.len() as u64
            }
            Operation::Each { calls, .. } => {
                let mut ids: Vec<u64> = batch::calls(calls).flatten().map(|(id, _)| id).collect();
                ids.sort_unstable();
                ids.dedup();
                ids.into_iter().map(of).sum::<u64>() + calls.len() as u64
            }
            _ => 0,
        };
        bytes + BESIDE
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_a_record_will_have_is_known_by_states_and_input() {
        let mut sizes = StateSizes::default();
        let state = |bytes: usize| Bytes::from(vec![7; bytes]);
        let made = |id, bytes| Entry::Made { id, name: None, form: 1, state: state(bytes) };
        sizes.note(&[made(1, 1 << 20), made(2, 10), made(3, 2 << 20)]);
        let call = |id, input| Operation::Call {
            id: 9_u64 << 48 | id,
            kind: String::new(),
            part: String::new(),
            version: 1,
            input: state(input),
        };
        assert_eq!(sizes.of_operation(&call(1, 500)), (1 << 20) + 500 + BESIDE);
        assert_eq!(sizes.of_operation(&call(2, 0)), SHORT + BESIDE);
        sizes.note(&[Entry::Changed { id: 1, form: 1, state: state(9) }, Entry::Gone { id: 3 }]);
        assert!(sizes.0.is_empty(), "{sizes:?}");
    }
}
