//! Every interleaving of the protocol, as far as the checker goes: in each call each
//! range goes to one member, once, whoever comes.

use std::mem;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::{Counters, Shares};

/// A cell for each index that only its owner may touch: the calls it was in.
struct Data(Vec<UnsafeCell<u32>>);

// SAFETY: an index is touched by whom it was given to; the checker reports where that is
// not so.
unsafe impl Sync for Data {}
// SAFETY: as above.
unsafe impl Send for Data {}

impl Data {
    fn take(&self, shares: Shares<'_>, member: usize) {
        for at in shares.of(member).flatten() {
            // SAFETY: live data; that nobody else is there is what is checked.
            self.0[at].with_mut(|calls| unsafe { *calls += 1 });
        }
    }
}

/// Divides `0..n` into ranges of one, in so many calls; of `members` the first ones come.
fn check(calls: u32, n: usize, members: usize, come: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound.get_or_insert(3);
    model.check(move || {
        let data = Arc::new(Data((0..n).map(|_| UnsafeCell::new(0)).collect()));
        let mut counters = Counters::new(members);
        for call in 1..=calls {
            let shares = counters.divide(n, 1).unwrap();
            // SAFETY: who has it is joined below, before the counters change or go.
            let shares = unsafe { mem::transmute::<Shares<'_>, Shares<'static>>(shares) };
            let others: Vec<_> = (1..come)
                .map(|member| {
                    let data = Arc::clone(&data);
                    thread::spawn(move || data.take(shares, member))
                })
                .collect();
            data.take(shares, 0);
            for other in others {
                other.join().unwrap();
            }
            for (at, calls) in data.0.iter().enumerate() {
                // SAFETY: live data; see above.
                assert_eq!(calls.with(|calls| unsafe { *calls }), call, "range {at}");
            }
        }
    });
}

#[test]
fn each_range_goes_to_one_of_two() {
    check(1, 3, 2, 2);
}

#[test]
fn a_call_after_another_hands_out_all_again() {
    check(2, 3, 2, 2);
}

#[test]
fn the_share_of_one_who_does_not_come_is_taken_once() {
    check(1, 4, 3, 2);
}

#[test]
fn each_range_goes_to_one_of_three() {
    check(1, 4, 3, 3);
}
