//! No `let` in a chain (`if let Some(x) = y && z`) in crates that promise a Rust before 1.88.
//!
//! Newer compilers take it from any crate, whatever its `rust-version` is, and clippy says nothing: only the
//! old compiler of `cargo xtask test msrv` does, after half an hour.

use anyhow::{Context, Result, bail};
use cargo_metadata::semver::Version;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::first_lines::each_source;
use crate::run::metadata;

/// The Rust that brought them.
const SINCE: Version = Version::new(1, 88, 0);
/// Folders of a crate with sources; the old compiler builds the tests, too.
const FOLDERS: [&str; 4] = ["src", "tests", "examples", "benches"];

/// Checks every crate of the workspace that promises an older one.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    for package in metadata()?.workspace_packages() {
        if package.rust_version.as_ref().is_none_or(|version| *version >= SINCE) {
            continue;
        }
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        let folders = FOLDERS.map(|name| folder.join(name)).into_iter();
        for folder in folders.filter(|folder| folder.is_dir()) {
            each_source(folder.as_std_path(), &mut |file, text| {
                faults.extend(chains(text).into_iter().map(|chain| format!("{file}: {chain}")));
            })?;
        }
    }
    if !faults.is_empty() {
        bail!(
            "`let` in a chain needs Rust {}.{}, and these crates promise an older one: nest the \
             conditions, or filter the value\n  {}",
            SINCE.major,
            SINCE.minor,
            faults.join("\n  ")
        );
    }
    Ok(())
}

/// Beginnings of such chains in a source. A text that is no Rust has none: the compiler tells of it.
fn chains(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(tokens) = text.parse() {
        look(tokens, &mut found);
    }
    found
}

fn look(tokens: TokenStream, found: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            look(group.stream(), found);
        }
        if !is_word(token, "if") && !is_word(token, "while") {
            continue;
        }
        let end = (at + 1..tokens.len()).find(|end| is_end(&tokens[*end..]));
        let condition: Vec<_> = tokens[at + 1..end.unwrap_or(tokens.len())].iter().collect();
        let has_let = condition.iter().any(|token| is_word(token, "let"));
        if has_let && condition.windows(3).any(is_and) {
            let text = condition.into_iter().cloned().collect::<TokenStream>().to_string();
            found.push(format!("{token} {}", text.chars().take(60).collect::<String>()));
        }
    }
}

/// True where a condition ends: at its block, as no value in braces stands in it, or at an arm's `=>`.
fn is_end(rest: &[TokenTree]) -> bool {
    let is_sign =
        |token: &TokenTree, sign| matches!(token, TokenTree::Punct(one) if one.as_char() == sign);
    match rest {
        [TokenTree::Group(group), ..] => group.delimiter() == Delimiter::Brace,
        [one, other, ..] => is_sign(one, '=') && is_sign(other, '>'),
        _ => false,
    }
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// True for `&&` between two conditions, not for two borrows of a value.
fn is_and(tokens: &[&TokenTree]) -> bool {
    let [before, one, other] = tokens else { return false };
    let is_sign =
        |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == '&');
    // Behind `?` a value has ended.
    let ends_value = match before {
        TokenTree::Punct(sign) => sign.as_char() == '?',
        _ => !is_word(before, "let") && !is_word(before, "in"),
    };
    ends_value && is_sign(one) && is_sign(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_let_in_a_chain_is_found_wherever_it_stands() {
        for source in [
            "fn f() { if let Some(x) = y && x > 2 { g() } }",
            "fn f() { if a && let Some(x) = y { g() } }",
            "fn f() { h(|| while let Some(x) = next()? && x.is_some() {}) }",
            "mod m { fn f() { match z { 1 => if let A(b) = c.d() && b {} _ => {} } } }",
        ] {
            assert_eq!(chains(source).len(), 1, "{source}");
        }
    }

    #[test]
    fn a_let_alone_and_conditions_without_one_are_none() {
        for source in [
            "fn f() { if let Some(x) = y { if x > 2 && z { g() } } }",
            "fn f() { if let Some(x) = (a && b).then(c) { g() } }",
            "fn f() { if let Some(x) = &&y { g() } if a && b { let c = d && e; } }",
            "fn f() { let a = b && c; if let Some(d) = e {} else if f && g {} }",
            "fn f() { match a { B if c && d => {} _ => {} } }",
            "fn f() { match a { B if c && d => e, _ => if let F = g {} } }",
        ] {
            assert_eq!(chains(source), [""; 0], "{source}");
        }
    }
}
