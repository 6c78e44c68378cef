//! How much memory a node has to have for an image.

use kumiki_boot::{Kernel, Partition};

use crate::fault::Fault;

/// Memory that an image's kernel and initramfs need of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of its first piece: kernel and initramfs lie there.
    pub first_piece_bytes: u64,
    /// Bytes of all pieces together: with less the kernel panics, or leaves files out.
    pub all_bytes: u64,
}

impl Needs {
    /// Needs of a kernel in one of its forms.
    pub fn of(kernel: &Kernel, initramfs_bytes: u64, unpacked_bytes: u64) -> Self {
        Needs {
            first_piece_bytes: Partition::needs(kernel, initramfs_bytes),
            all_bytes: Partition::needs_in_all(kernel, initramfs_bytes, unpacked_bytes),
        }
    }

    /// Adds so much that its kernel takes for something else.
    pub fn beside(self, bytes: u64) -> Self {
        Needs { all_bytes: self.all_bytes.saturating_add(bytes), ..self }
    }

    /// Checks that pieces of these sizes are enough.
    pub fn check(&self, image: &str, memory_bytes: &[u64]) -> Result<(), Fault> {
        let (first, all) = (memory_bytes.first().copied().unwrap_or(0), sum(memory_bytes));
        if first < self.first_piece_bytes {
            return Err(Fault::new(
                "memory",
                format!(
                    "{first} bytes in the first piece, and image {image} alone needs {}: give that \
                     piece {}M at least",
                    self.first_piece_bytes,
                    mib(self.first_piece_bytes)
                ),
            ));
        }
        if all < self.all_bytes {
            return Err(Fault::new(
                "memory",
                format!(
                    "{all} bytes in all, and image {image} needs {}, for its kernel unpacks an \
                     initramfs into half of what is left beside it: give the node {}M at least",
                    self.all_bytes,
                    mib(self.all_bytes)
                ),
            ));
        }
        Ok(())
    }
}

/// The next size of a piece, in MiB.
fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(2 << 20) * 2
}

fn sum(memory_bytes: &[u64]) -> u64 {
    memory_bytes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_little_is_said_with_the_least_that_does() {
        const MIB: u64 = 1 << 20;
        let needs = Needs { first_piece_bytes: 100 * MIB, all_bytes: 171 * MIB };
        let refused = |memory: &[u64]| needs.check("deb", memory).unwrap_err().problem;
        assert_eq!(needs.check("deb", &[128 * MIB, 64 * MIB]), Ok(()));
        let said = refused(&[64 * MIB, 256 * MIB]);
        assert!(
            said.starts_with("67108864 bytes in the first piece, and image deb alone"),
            "{said}"
        );
        assert!(said.ends_with("give that piece 100M at least"), "{said}");
        let said = refused(&[128 * MIB]);
        assert!(said.contains("134217728 bytes in all, and image deb needs 179306496"), "{said}");
        assert!(said.ends_with("give the node 172M at least"), "{said}");
        assert_eq!(needs.check("deb", &[128 * MIB, u64::MAX]), Ok(()));
    }
}
