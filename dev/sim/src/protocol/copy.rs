//! A copy that two threads share.

use kumiki_copy::simulated;
use kumiki_shadow::Shadow;

use crate::place::Place;
use crate::report::Report;

/// Parts of a MiB.
const PARTS: usize = 16;

pub(super) fn split(place: &Place) -> Report {
    place.run(|stage| {
        let mut shadow = Shadow::create().expect("a second cpu");
        let (from, mut to) = (vec![0_u8; PARTS << 20], vec![0_u8; PARTS << 20]);
        stage.measured(4, 20, || simulated::split(&mut shadow, &mut to, &from))
    })
}
