//! Things that the module holds: nodes and images, each with a name.

use crate::module::abi;
use crate::{Error, ErrorKind, Result, Subject};

/// Kind of a holder of memory: node or image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    Node,
    Image,
}

impl Holding {
    /// Subject of a refusal that is about the one of this name.
    pub fn subject(self, name: &str) -> Subject {
        match self {
            Holding::Node => Subject::Node(name.to_owned()),
            Holding::Image => Subject::Image(name.to_owned()),
        }
    }

    /// Number that the module gives it.
    pub fn number(self) -> u32 {
        match self {
            Holding::Node => abi::NODE,
            Holding::Image => abi::IMAGE,
        }
    }

    /// Noun for it in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Holding::Node => "node",
            Holding::Image => "image",
        }
    }
}

/// A name that the module takes, with zeros behind it.
pub fn padded(kind: Holding, name: &str) -> Result<[u8; abi::NAME_BYTES]> {
    let good =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let fits = (1..abi::NAME_BYTES).contains(&name.len());
    if !fits || name.starts_with('.') || !name.bytes().all(good) {
        return Err(Error::refused(
            ErrorKind::Invalid,
            kind.subject(name),
            format!(
                "{name:?} cannot name {}: 1 to 31 of a-z, 0-9, '.', '_' and '-', not beginning with '.'",
                if kind == Holding::Node { "a node" } else { "an image" }
            ),
        ));
    }
    let mut bytes = [0; abi::NAME_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_module_would_refuse_is_refused_with_the_rule() {
        assert_eq!(&padded(Holding::Node, "n1").unwrap()[..3], b"n1\0");
        assert!(padded(Holding::Image, &"x".repeat(31)).is_ok());
        for name in ["", "N1", ".n", "a/b", "a b", &"x".repeat(32)] {
            let error = padded(Holding::Node, name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let error = error.to_string();
            assert!(error.contains("1 to 31"), "{error}");
        }
    }
}
