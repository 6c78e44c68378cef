//! What a handle allows.

use std::fmt;

bitflags::bitflags! {
    /// Rights to a resource by one handle. Two handles of one resource may
    /// have different ones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Rights: u8 {
        /// Run the kind's operations on it.
        const USE = 1;
        /// Make further handles with these rights or fewer.
        const SHARE = 2;
        /// Destroy it.
        const DESTROY = 4;
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        bitflags::parser::to_writer(&Rights::from_bits_truncate(self.bits()), &mut Lower(f))
    }
}

/// Flags are words in a sentence here.
struct Lower<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Lower<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&text.to_lowercase())
    }
}
