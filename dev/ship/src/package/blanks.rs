//! What only a maintainer can fill in before the first release: names and addresses.

use std::fs;

use anyhow::{Context, Result};

use crate::run::{metadata, root};

/// Page with the line by which the action is taken, and what stands there where nobody has said from where.
pub const ACTION: (&str, &str) = ("docs/is-it-slower.md", "OWNER/kumiki/measure/ab@");

/// Files, what of them shows that nobody has filled them in, and what they need.
const BLANKS: [(&str, &str, &str); 4] = [
    ("debian/control", "@kumiki.invalid>", "Maintainer, a name and an address"),
    ("debian/changelog", "@kumiki.invalid>", "in its last line the same"),
    (ACTION.0, ACTION.1, "from where the action is taken"),
    ("SECURITY.md", "to the maintainers privately, not", "the address that faults are reported to"),
];

/// Lists what is not filled in, a line each.
pub fn blanks() -> Result<Vec<String>> {
    let mut left = Vec::new();
    if metadata()?.packages.iter().any(|package| package.repository.is_none()) {
        left.push("Cargo.toml: `repository`, the address that sources are cloned from".to_owned());
    }
    for (file, blank, needs) in BLANKS {
        let text =
            fs::read_to_string(root().join(file)).with_context(|| format!("reading {file}"))?;
        if text.contains(blank) {
            left.push(format!("{file}: {needs}"));
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that was only reworded would pass for one that is filled in.
    #[test]
    fn each_is_blank_or_has_an_address() {
        for (file, blank, _) in BLANKS {
            let text = fs::read_to_string(root().join(file)).unwrap();
            let address = text.contains('@') || text.contains("https://");
            assert!(text.contains(blank) || address, "{file}: neither {blank:?} nor an address");
        }
        let left = blanks().unwrap();
        assert!(left.len() <= 1 + BLANKS.len(), "{left:?}");
    }
}
