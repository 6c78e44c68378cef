//! A text that is secret: it is shown nowhere, and wiped from memory when it goes.

use std::fmt;

use zeroize::Zeroizing;

/// A password or token. Neither `Debug` nor an error shows it, and its memory is overwritten when it is dropped. What
/// a library was given of it, as that of NATS, is that library's.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text.
    pub fn exposed(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
