//! Paths of the repository.

use std::collections::BTreeSet;

/// How files of ours end.
const ENDS: [&str; 8] = ["rs", "c", "h", "md", "py", "toml", "sh", "html"];

/// Files and folders, each by its path and by every end of it.
pub(super) struct Paths {
    known: BTreeSet<String>,
    top: BTreeSet<String>,
}

impl Paths {
    /// Of these files, named from the root.
    pub(super) fn of(files: &[String]) -> Paths {
        let (mut known, mut top) = (BTreeSet::new(), BTreeSet::new());
        for file in files {
            let parts: Vec<_> = file.split('/').collect();
            if parts.len() > 1 {
                top.insert(parts[0].to_owned());
            }
            for end in 1..=parts.len() {
                known.extend((0..end).map(|begin| parts[begin..end].join("/")));
            }
        }
        Paths { known, top }
    }

    /// Says which path is shown and not there.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        if !self.is_path(text) {
            return Ok(());
        }
        for path in alternatives(text) {
            let path = path.split('#').next().unwrap_or_default();
            // `cargo`'s and the reader's folders have a place of their own.
            let parts = path.split('/').filter(|part| !["", ".", ".."].contains(part));
            let path = parts.collect::<Vec<_>>().join("/");
            if !self.known.contains(&path) {
                return Err(format!("there is no {path}"));
            }
        }
        Ok(())
    }

    /// Whether a text is meant as a path of ours.
    fn is_path(&self, text: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/{},#".contains(c);
        let Some((first, _)) = text.split_once('/') else { return false };
        let stands_for = |part: &str| {
            let part = part.split('.').next().unwrap_or_default();
            part.chars().any(|c| c.is_ascii_uppercase())
                && part.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        };
        // Other projects' sources, named as the kernel has them.
        if !text.chars().all(plain) || ["", "linux", "Documentation"].contains(&first) {
            return false;
        }
        let in_folder = self.top.contains(first) && text.trim_end_matches('/').contains('/');
        let ends = text.rsplit_once('.').is_some_and(|(_, end)| ENDS.contains(&end));
        (in_folder || ends) && !text.split('/').any(stands_for)
    }
}

/// `src/{lint,loom}.rs` as `src/lint.rs` and `src/loom.rs`.
fn alternatives(text: &str) -> Vec<String> {
    let braces = text.split_once('{').and_then(|(before, rest)| {
        rest.split_once('}').map(|(among, after)| (before, among, after))
    });
    match braces {
        None => vec![text.to_owned()],
        Some((before, among, after)) => among
            .split(',')
            .flat_map(|one| alternatives(&format!("{before}{one}{after}")))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_not_there_is_found_and_nothing_else_is_a_path() {
        let files = ["lib/copy/src/share.rs", "lib/copy/src/share/sizes.rs", "docs/design/copy.md"];
        let paths = Paths::of(&files.map(str::to_owned));
        for there in [
            "lib/copy/src/share.rs",
            "lib/copy/src/{share,share/sizes}.rs",
            "src/share.rs",
            "lib/copy/",
            "docs/design/copy.md#measured",
            "../design/copy.md",
            // No paths of ours.
            "place/kind/unique",
            "kumiki/memcpy",
            "lib/X/tests/X/main.rs",
            "/proc/self/status",
            "Documentation/locking/robust-futexes.rst",
            "linux/kernel/configs.c",
            "tests/capi/NAME.c",
            "a / b",
        ] {
            assert_eq!(paths.check(there), Ok(()), "{there}");
        }
        for (gone, which) in [
            ("copy/share.rs", "copy/share.rs"),
            ("lib/copy/tests/allocations.rs", "lib/copy/tests/allocations.rs"),
            ("lib/copy/src/{share,gone}.rs", "lib/copy/src/gone.rs"),
            ("docs/nowhere", "docs/nowhere"),
        ] {
            assert_eq!(paths.check(gone), Err(format!("there is no {which}")));
        }
    }
}
