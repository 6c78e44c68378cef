//! Making calls that were placed by hand and stand in the line: by processing threads, and by
//! one thread that waits for them.

use std::sync::Arc;

use super::alert;
use super::hand::{Hand, mortally, see_to_others};
use crate::area::PLACED;
use crate::core::Core;
use crate::cost::PART;

/// Makes calls that were placed by hand, as long as there are some.
#[inline(never)]
pub(super) fn make_placed(core: &Arc<Core>, hand: &Hand<'_>) {
    let (line, claim) = (core.area.line(PLACED), hand.claim);
    let mut made = 0;
    claim.hold(PLACED);
    while let Some(chunk) = line.next(made, 1) {
        claim.advance(&chunk, chunk.start);
        claim.count_quick();
        see_to_others(core, hand);
        if hand.may_die(core) && !core.watch.is_alerted() {
            alert(core);
        }
        if made > 0 {
            core.placed.tell();
        }
        made = chunk.len();
        let calls = line.calls();
        // SAFETY: claimed just now, and stays until its result has been collected.
        let sysnum = unsafe { calls.request(chunk.start) }.sysnum;
        let measure = (chunk.start as u32) % PART == 0;
        let start = if measure { hand.ticks.now() } else { 0 };
        // SAFETY: as above; whoever has placed it vouches for the call.
        mortally(hand.signals, || unsafe { calls.make(chunk.clone(), |_| ()) });
        if measure {
            core.durations.record(sysnum, hand.ticks.now().wrapping_sub(start));
        }
    }
    claim.clear();
    if made > 0 {
        core.placed.tell();
    }
}

/// Makes calls that were placed by hand, as one who waits for them, unless another one does.
pub(crate) fn help(core: &Arc<Core>) {
    let helper = &core.helper;
    if core.area.line(PLACED).look().has_work() {
        if let Some(died) = helper.life.try_begin() {
            if died {
                core.answer(&helper.claim);
            }
            make_placed(core, &Hand::new(&helper.claim, None));
            helper.life.end();
        }
    }
}
