//! Hashes as people compare them.

use sha2::{Digest, Sha256};

/// Digits of a hash, two a byte.
pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
