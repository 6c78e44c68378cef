//! Does a file system keep what was read of a file until somebody opens it again? A FUSE file system is asked at each
//! opening, and where it does not say so the kernel forgets the contents; others keep none at all (9p). There reading ahead
//! is reading twice. So one file of each such file system is read, and read again after another opening: what sleeps
//! then was forgotten.

/// File systems of which it is known.
const PLACES: usize = 8;

/// Knowledge of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Unknown,
    /// A file is being tried.
    Tried,
    Kept,
    Forgotten,
}

/// Reads until two in a row have said the same.
const READS: u32 = 4;

impl Finding {
    /// The finding by reads of a file that was read before, each after another opening, which say whether they slept; none if one
    /// fails.
    ///
    /// One read alone says little: the program, which comes to the same file, may have the page for a moment, so that ours sleeps
    /// although it was kept; or have fetched it between our opening and our read, so that ours does not sleep although it was forgotten.
    pub(crate) fn of_reads(mut has_slept: impl FnMut() -> Option<bool>) -> Option<Self> {
        let mut last = None;
        for _ in 0..READS {
            let slept = has_slept()?;
            if last == Some(slept) {
                return Some(if slept { Finding::Forgotten } else { Finding::Kept });
            }
            last = Some(slept);
        }
        Some(Finding::Forgotten)
    }
}

/// File systems by their devices. One for which there is no room is taken for one that forgets.
#[derive(Debug)]
pub(crate) struct Kept {
    known: [Option<(u64, Finding)>; PLACES],
}

impl Kept {
    pub(crate) const fn new() -> Self {
        Kept { known: [None; PLACES] }
    }

    pub(crate) fn of(&self, device: u64) -> Finding {
        let found = self.known.iter().flatten().find(|(of, _)| *of == device);
        match found {
            Some((_, finding)) => *finding,
            None if self.known.iter().all(Option::is_some) => Finding::Forgotten,
            None => Finding::Unknown,
        }
    }

    pub(crate) fn set(&mut self, device: u64, finding: Finding) {
        let of_it = |place: &&mut Option<(u64, Finding)>| place.is_some_and(|(of, _)| of == device);
        let place = match self.known.iter_mut().find(of_it) {
            Some(place) => Some(place),
            None => self.known.iter_mut().find(|place| place.is_none()),
        };
        if let Some(place) = place {
            *place = (finding != Finding::Unknown).then_some((device, finding));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_beside_the_programs_own_does_not_decide() {
        let found = |slept: &[bool]| {
            let mut slept = slept.iter().copied();
            let found = Finding::of_reads(|| slept.next());
            assert_eq!(slept.next(), None, "all of them were needed");
            found
        };
        assert_eq!(found(&[false, false]), Some(Finding::Kept));
        assert_eq!(found(&[true, true]), Some(Finding::Forgotten));
        // The program has fetched it; or was fetching it.
        assert_eq!(found(&[false, true, true]), Some(Finding::Forgotten));
        assert_eq!(found(&[true, false, false]), Some(Finding::Kept));
        assert_eq!(found(&[true, false, true, false]), Some(Finding::Forgotten));
        assert_eq!(found(&[false]), None);
    }

    #[test]
    fn each_device_has_its_own_finding_and_those_beyond_forget() {
        let mut kept = Kept::new();
        for device in 1..=PLACES as u64 {
            assert_eq!(kept.of(device), Finding::Unknown);
            kept.set(device, Finding::Tried);
            assert_eq!(kept.of(device), Finding::Tried);
        }
        assert_eq!(kept.of(99), Finding::Forgotten);
        kept.set(99, Finding::Kept);
        assert_eq!(kept.of(99), Finding::Forgotten);
        kept.set(2, Finding::Kept);
        // It could not be tried: the next file is.
        kept.set(1, Finding::Unknown);
        assert_eq!((kept.of(1), kept.of(2)), (Finding::Unknown, Finding::Kept));
        kept.set(99, Finding::Forgotten);
        assert_eq!(kept.of(99), Finding::Forgotten);
    }
}
