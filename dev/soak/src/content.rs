//! Files whose bytes say which file they are of, which version of it, and where they stand.

/// Bytes of a block: number of the file, version, number of the block.
const BLOCK: usize = 16;

/// A file of the site: what its versions contain follows from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) number: u32,
    /// Bytes of it, at most; another size each version.
    pub(crate) most: usize,
}

impl File {
    /// Bytes of a version.
    pub(crate) fn size(&self, version: u32) -> usize {
        let seed = u64::from(self.number) << 32 | u64::from(version);
        fastrand::Rng::with_seed(seed).usize(..=self.most)
    }

    /// The bytes of a version from `start` on, `length` of them.
    pub(crate) fn bytes(&self, version: u32, start: usize, length: usize) -> Vec<u8> {
        let first = start / BLOCK;
        let mut bytes = Vec::with_capacity(length + 2 * BLOCK);
        for block in first.. {
            if bytes.len() >= length + BLOCK {
                break;
            }
            bytes.extend_from_slice(&self.number.to_le_bytes());
            bytes.extend_from_slice(&version.to_le_bytes());
            bytes.extend_from_slice(&(block as u64).to_le_bytes());
        }
        bytes.drain(..start % BLOCK);
        bytes.truncate(length);
        bytes
    }

    /// All of a version.
    pub(crate) fn whole(&self, version: u32) -> Vec<u8> {
        self.bytes(version, 0, self.size(version))
    }

    /// Says what is wrong with bytes that were read from `start` on: of any of these versions, the
    /// size of which is one that `fits`.
    pub(crate) fn check(
        &self,
        versions: std::ops::RangeInclusive<u32>,
        start: usize,
        bytes: &[u8],
        fits: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let is = |version: &u32| {
            fits(self.size(*version)) && bytes == self.bytes(*version, start, bytes.len())
        };
        if versions.clone().any(|version| is(&version)) {
            return Ok(());
        }
        let expected = self.bytes(*versions.start(), start, bytes.len());
        let differs = bytes.iter().zip(&expected).position(|(a, b)| a != b);
        let at = differs.unwrap_or(bytes.len());
        let there = &bytes[at.saturating_sub(at % BLOCK).min(bytes.len())..];
        Err(format!(
            "file {} of versions {versions:?}, of {} bytes the first: {} from {start} on differ from that one \
             at {at} of them; there: {:?}",
            self.number,
            self.size(*versions.start()),
            bytes.len(),
            &there[..there.len().min(2 * BLOCK)],
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_that_of_the_whole_and_nothing_else_passes() {
        let file = File { number: 7, most: 1000 };
        let whole = file.whole(3);
        assert_eq!(whole.len(), file.size(3));
        for start in [0, 1, 15, 16, 17, whole.len() / 2] {
            let part = &whole[start..];
            assert_eq!(file.bytes(3, start, part.len()), part);
            assert!(file.check(2..=3, start, part, |size| size == whole.len()).is_ok());
            assert!(file.check(4..=5, start, part, |_| true).is_err());
            assert!(file.check(2..=3, start + 16, part, |_| true).is_err());
        }
        let mut bad = whole.clone();
        *bad.last_mut().unwrap() ^= 1;
        assert!(file.check(3..=3, 0, &bad, |_| true).is_err());
        assert!(file.check(3..=3, 0, &whole, |size| size != whole.len()).is_err());
    }
}
