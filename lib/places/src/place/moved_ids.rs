//! Ids of a place that has moved to another core: others have them with the number that they had at first.
//!
//! The two numbers are exchanged, so that an id of the core's own former place is none of this one's.

use bytes::{Bytes, BytesMut};
use kumiki_resource::Place;

use crate::durable::entry::OWN;
use crate::place::parts::answer;
use crate::place::site::Site;
use crate::wire::{self, CALL, Operation, Outcome, Request};

/// Offset of the id in a batch's call.
const ID: usize = 1;

/// An id, in which the numbers of two places are exchanged.
fn swapped(id: u64, (a, b): (u16, u16)) -> u64 {
    let place = match (id >> 48) as u16 {
        place if place == a => b,
        place if place == b => a,
        place => place,
    };
    u64::from(place) << 48 | id & OWN
}

impl Site {
    /// True if it is on another core than it was at first.
    pub(crate) fn has_moved(&self) -> bool {
        self.place != Place(self.number)
    }

    /// An own id as others have it, or the other way round.
    pub(crate) fn swapped(&self, id: u64) -> u64 {
        swapped(id, (self.place.0, self.number))
    }

    /// Answer with the id of a resource that was made, as others have it.
    pub(crate) fn others_id(&self, id: &Bytes) -> Outcome {
        match wire::read::<u64>(id) {
            Ok(id) => answer(&self.swapped(id)),
            Err(_) => Ok(id.clone()),
        }
    }

    /// A request with this core's ids.
    pub(crate) fn own_ids(&self, mut request: Request) -> Request {
        if !self.has_moved() {
            return request;
        }
        if request.lease != 0 {
            request.lease = self.swapped(request.lease);
        }
        for (_, operation) in &mut request.operations {
            match operation {
                Operation::Call { id, .. } | Operation::Destroy { id, .. } => {
                    *id = self.swapped(*id)
                }
                Operation::Chain { steps, .. } => {
                    let own = steps.iter_mut().filter(|step| step.place == self.name);
                    own.for_each(|step| step.id = self.swapped(step.id));
                }
                Operation::Each { calls, .. } => {
                    let mut own = BytesMut::from(&calls[..]);
                    for call in own.chunks_exact_mut(CALL) {
                        if let Some(id) = call.get_mut(ID..).and_then(<[u8]>::first_chunk_mut::<8>)
                        {
                            *id = self.swapped(u64::from_le_bytes(*id)).to_le_bytes();
                        }
                    }
                    *calls = own.freeze();
                }
                _ => {}
            }
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_other_and_none_of_a_third_place_changes() {
        let id = |place: u64| place << 48 | 7 << 40 | 5 << 20 | 9;
        for (before, after) in [(1, 3), (3, 1), (2, 2)] {
            assert_eq!(swapped(id(before), (1, 3)), id(after));
            assert_eq!(swapped(id(before), (3, 1)), id(after));
        }
        assert_eq!(swapped(id(4), (4, 4)), id(4));
    }
}
