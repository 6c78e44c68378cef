//! A result's label: a name that a person gives, beside those that it has anyway.

use kumiki_sys::visible::is_shown;

/// True if a word names a result whatever its label: a number, `latest`, `latest~1`, `@NAME` of a
/// reference, a path. As a label it would name another one.
pub fn is_name(word: &str) -> bool {
    let latest = word.strip_prefix("latest").is_some_and(|rest| {
        rest.is_empty() || rest.strip_prefix('~').is_some_and(|back| back.parse::<usize>().is_ok())
    });
    let number = word.parse::<i64>().is_ok();
    latest || number || word.starts_with('@') || word.ends_with(".json") || word.contains('/')
}

/// Says why a label names nothing, or another result than its own.
///
/// # Errors
///
/// The reason, to be put after the label.
pub fn check(label: &str) -> Result<(), String> {
    if label.trim().is_empty() {
        return Err("is empty; leave it away".to_owned());
    }
    if is_name(label) {
        return Err("names a result by its number, as latest, a reference or a file; choose \
                    another"
            .to_owned());
    }
    match label.chars().find(|character| !is_shown(*character)) {
        Some(hidden) => Err(format!("holds {hidden:?}, which cannot be seen; choose another")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_its_own_result_only() {
        for good in ["reference", "before the patch", "v1.2", "latest-kernel", "café"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, says) in [
            ("1", "number"),
            ("-3", "number"),
            ("latest", "latest"),
            ("latest~2", "latest"),
            ("@mine", "reference"),
            ("run.json", "file"),
            ("a/b", "file"),
            ("", "empty"),
            ("  ", "empty"),
            ("a\nb", r"'\n'"),
            ("\u{202e}x", r"'\u{202e}'"),
        ] {
            let why = check(bad).expect_err(bad);
            assert!(why.contains(says), "{bad:?}: {why}");
        }
    }
}
