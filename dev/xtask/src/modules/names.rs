//! Paths that a piece of code names.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Every path of two segments at least, as `["crate", "a", "B"]`; a group in braces
/// counts as so many paths.
pub(super) fn paths(tokens: TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    walk(tokens, &[], &mut found);
    found
}

/// Adds the paths of `tokens`, which stand behind `prefix` if that is not empty.
fn walk(tokens: TokenStream, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            // The name that a use gives what it brings.
            TokenTree::Ident(name) if !prefix.is_empty() && name == "as" => at += 2,
            TokenTree::Ident(_) if !is_member(&tokens, at) => at = path(&tokens, at, prefix, found),
            TokenTree::Group(group) => {
                walk(group.stream(), &[], found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Whether a name follows a dot or is the rest of a path that began with no name.
fn is_member(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && is_punct(&tokens[at - 1], '.') || at > 1 && is_separator(tokens, at - 2)
}

/// Adds the path that begins at `at`; where it ends.
fn path(
    tokens: &[TokenTree],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        path.push(name.to_string().trim_start_matches("r#").to_owned());
        at += 1;
        if !is_separator(tokens, at) {
            break;
        }
        at += 2;
    }
    if let Some(TokenTree::Group(group)) = tokens.get(at)
        && group.delimiter() == Delimiter::Brace
        && is_separator(tokens, at.wrapping_sub(2))
    {
        walk(group.stream(), &path, found);
        return at + 1;
    }
    if path.len() > 1 {
        found.push(path);
    }
    at
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| tokens.get(at).is_some_and(|token| is_punct(token, ':'));
    colon(at) && at.checked_add(1).is_some_and(colon)
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        paths(code.parse().unwrap()).into_iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_code_in_uses_and_in_macros() {
        assert_eq!(
            found("use crate::a::{B as E, c::D, self};"),
            ["crate::a::B", "crate::a::c::D", "crate::a::self"]
        );
        assert_eq!(
            found("fn f(x: crate::a::B) { super::g(c::H::new()) }"),
            ["crate::a::B", "super::g", "c::H::new"]
        );
        assert_eq!(found("assert_eq!(x.y(), crate::z::W)"), ["crate::z::W"]);
        assert_eq!(found("Vec::<crate::a::B>::new()"), ["crate::a::B"]);
        assert_eq!(found("$crate::op::typed(x)"), ["crate::op::typed"]);
    }

    #[test]
    fn a_lone_name_a_field_and_a_type_are_no_paths() {
        assert!(found("let x: Y = z.w; struct A { b: c }").is_empty());
        assert!(found("#[doc = \"crate::a::B\"] fn f() {}").is_empty());
    }
}
