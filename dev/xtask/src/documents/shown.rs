//! Code in texts: between backticks, and typed at a prompt.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// Code and the line where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) line: usize,
    pub(super) text: String,
}

/// True if a file of this name may show something; those of the past, where things had other names, do not.
pub(super) fn may_show(file: &str) -> bool {
    !file.starts_with("docs/results/") && (file.ends_with(".md") || file.ends_with(".rs"))
}

/// Commands and paths that a file of this text shows.
pub(super) fn of_file(file: &str, text: &str) -> Vec<Shown> {
    match may_show(file) {
        false => Vec::new(),
        true if file.ends_with(".md") => of_markdown(text),
        true => of_rust(text),
    }
}

/// What a Markdown text shows.
fn of_markdown(text: &str) -> Vec<Shown> {
    of_text(text, 1)
}

/// What the doc comments of a Rust source show.
fn of_rust(source: &str) -> Vec<Shown> {
    let mut shown = Vec::new();
    let (mut comment, mut begin) = (String::new(), 0);
    for (number, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let doc = ["///", "//!"].iter().find_map(|mark| line.strip_prefix(mark));
        match doc.filter(|_| !line.starts_with("////")) {
            Some(rest) => {
                begin = if comment.is_empty() { number + 1 } else { begin };
                comment += rest.strip_prefix(' ').unwrap_or(rest);
                comment.push('\n');
            }
            None => shown.extend(of_text(&std::mem::take(&mut comment), begin)),
        }
    }
    shown.extend(of_text(&comment, begin));
    shown
}

/// What a text shows that begins at line `begin`.
fn of_text(text: &str, begin: usize) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut is_console = false;
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = begin + text[..range.start].matches('\n').count();
        match event {
            Event::Code(code) => shown.push(Shown { line, text: code.replace('\n', " ") }),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                is_console = &*language == "console";
            }
            Event::End(TagEnd::CodeBlock) => is_console = false,
            Event::Text(block) if is_console => {
                let typed = block.lines().enumerate();
                shown.extend(typed.filter_map(|(n, typed)| {
                    let text = typed.strip_prefix("$ ").or_else(|| typed.strip_prefix("# "))?;
                    Some(Shown { line: line + n, text: text.to_owned() })
                }));
            }
            _ => {}
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_what_is_typed_are_found_with_their_lines() {
        let markdown = "a `b/c.rs`\n\n```console\n$ kumiki doctor\nout `x`\n# kumiki node ls\n```\n\
                        ```rust\nlet a = `y`;\n```\nsee `cargo\nxtask lint`\n";
        let found: Vec<_> =
            of_markdown(markdown).into_iter().map(|Shown { line, text }| (line, text)).collect();
        let expected =
            [(1, "b/c.rs"), (4, "kumiki doctor"), (6, "kumiki node ls"), (11, "cargo xtask lint")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn of_a_source_only_doc_comments_count() {
        let source = "//! See `a/b.rs` and\n//! `cargo xtask\n//! lint`.\n\nlet x = \"`no`\"; // `no`\n\
                      ///// `no`\n    /// `kumiki doctor`\nfn f() {}\n";
        let found: Vec<_> =
            of_rust(source).into_iter().map(|Shown { line, text }| (line, text)).collect();
        let expected = [(1, "a/b.rs"), (2, "cargo xtask lint"), (7, "kumiki doctor")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
