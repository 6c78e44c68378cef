//! Pages of section 3, made of the headers: what a header says stands in one place.
//!
//! A header has one page. Its first comment is the description; below that each declaration stands as it
//! is written, with the comment before it. A function's name leads to the page of its header.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::capi::put;
use crate::run::root;

/// Headers with a page, and what `apropos` shows of each.
const HEADERS: [(&str, &str, &str); 8] = [
    ("lib/capi", "error.h", "the sentence to the last error of the calling thread"),
    (
        "lib/capi",
        "files.h",
        "attributes, contents, directories and names of many files by one call",
    ),
    ("lib/capi", "kumiki.hpp", "libkumiki for C++17: owners that give back, and exceptions"),
    ("lib/capi", "parasc.h", "system calls made by other threads, one by one or in batches"),
    ("lib/capi", "resource.h", "resources of one core under names, called through their owner"),
    ("lib/capi", "shadow.h", "fork and join to a helper thread in one cache line's round trip"),
    (
        "lib/capi",
        "spawn.h",
        "posix_spawn whose cost does not grow with the caller, with more attributes",
    ),
    ("lib/capi-places", "places.h", "resources of other processes and machines, by their names"),
];

/// Name of a header's page: `kumiki_files` of `files.h`, `kumiki_hpp` of `kumiki.hpp`.
fn name_of(header: &str) -> String {
    match header.strip_suffix(".h") {
        Some(name) => format!("kumiki_{name}"),
        None => header.replace('.', "_"),
    }
}

/// Writes the pages into this folder.
pub(super) fn write(folder: &Path, version: &str) -> Result<()> {
    for (of, file, what) in HEADERS {
        let header = root().join(of).join("include/kumiki").join(file);
        let text = fs::read_to_string(&header);
        let mut text = text.with_context(|| format!("reading {}", header.display()))?;
        let is_cpp = file.ends_with(".hpp");
        if is_cpp {
            text = declared(&text);
        }
        let page = page(file, what, version, &text);
        let own = format!("{}.3", name_of(file));
        put(page.as_bytes(), &folder.join(&own))?;
        let functions = functions(&text);
        // In C++ they are methods, which have no page of their own.
        ensure!(is_cpp || !functions.is_empty(), "{} declares no function", header.display());
        for function in functions {
            let file = format!("{function}.3");
            if file != own {
                put(format!(".so man3/{own}\n").as_bytes(), &folder.join(file))?;
            }
        }
    }
    Ok(())
}

/// Declarations of a header of C++ for others: no bodies, no private parts, no details.
fn declared(header: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        let within = line.trim_start();
        let indent = &line[..line.len() - within.len()];
        if line == "namespace detail {" {
            lines.by_ref().find(|line| *line == "} // namespace detail");
        } else if within == "private:" {
            // To the end of the class, which `private:` stands as far in as.
            let end = format!("{indent}}};");
            lines.by_ref().find(|line| **line == end);
            while out.last().is_some_and(|line| line.trim().is_empty()) {
                out.pop();
            }
            out.push(end);
        } else if within == "{" {
            let end = format!("{indent}}}");
            lines.by_ref().find(|line| **line == end);
            // A member that it begins with may have ended its line as a body would.
            if let Some(last) = out.last_mut().filter(|last| !last.ends_with(';')) {
                last.push(';');
            }
        } else if within.starts_with(": ") {
            // What a constructor begins its members with.
        } else if let Some((declaration, rest)) = begins(line) {
            // The body is on this line, or on those that follow.
            let end = if rest.ends_with('}') { ";" } else { "" };
            out.push(format!("{declaration}{end}"));
        } else {
            out.push(line.to_owned());
        }
    }
    out.join("\n")
}

/// A declaration of a function, and what stands behind it on its line: members that a constructor begins with, a body.
fn begins(line: &str) -> Option<(&str, &str)> {
    let members = line.split_once(" : ").filter(|(before, _)| before.contains('('));
    members.or_else(|| line.split_once(" {").filter(|(_, rest)| rest.ends_with('}')))
}

/// A piece of a header.
#[derive(Debug, PartialEq)]
enum Piece {
    Comment(String),
    Code(String),
}

/// Comments at a line's beginning, and what stands between them. What compilers of C++ and guards
/// need is left out.
fn pieces(header: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut lines = header.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#if") && line.contains("__cplusplus") {
            lines.by_ref().find(|line| line.starts_with("#endif"));
        } else if let Some(first) = line.strip_prefix("/*") {
            let mut comment = vec![first];
            while !comment.last().is_some_and(|last| last.contains("*/")) {
                let Some(next) = lines.next() else { break };
                comment.push(next);
            }
            let text = comment.iter().map(|line| {
                let line = line.split("*/").next().unwrap_or(line);
                // One blank after the star is the form, more are the writer's.
                let line = line.strip_prefix(" *").unwrap_or(line);
                line.strip_prefix(' ').unwrap_or(line).trim_end()
            });
            pieces.push(Piece::Comment(
                text.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned(),
            ));
        } else if !is_guard(line) {
            match pieces.last_mut() {
                Some(Piece::Code(code)) => *code += &format!("\n{line}"),
                _ => pieces.push(Piece::Code(line.to_owned())),
            }
        }
    }
    for piece in &mut pieces {
        if let Piece::Code(code) = piece {
            *code = code.trim_matches('\n').to_owned();
        }
    }
    pieces.retain(|piece| !matches!(piece, Piece::Code(code) if code.is_empty()));
    pieces
}

/// Returns true for a line that the preprocessor alone needs.
fn is_guard(line: &str) -> bool {
    let begins = |word: &&str| line.starts_with(word);
    ["#include", "#ifndef", "#endif"].iter().any(begins)
        || line.starts_with("#define") && (line.ends_with("_H") || line.ends_with("_HPP"))
}

/// Names of the functions that a header declares.
fn functions(header: &str) -> Vec<String> {
    let mut names = Vec::new();
    for piece in pieces(header) {
        let Piece::Code(code) = piece else { continue };
        // Of a declaration at a line's beginning: an argument that is a function stands further in.
        for line in code.lines().filter(|line| !line.starts_with([' ', '\t', '#', '}'])) {
            let Some((before, _)) = line.split_once('(') else { continue };
            let name = before.rsplit([' ', '*']).next().unwrap_or_default();
            if name.starts_with("kumiki_") {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// The page, in man(7)'s words.
fn page(file: &str, what: &str, version: &str, header: &str) -> String {
    let library = if file == "places.h" { "kumiki-places" } else { "kumiki" };
    let name = name_of(file);
    let mut page = format!(
        ".TH {name} 3 \"\" \"Kumiki {version}\"\n.SH NAME\n{name} \\- {what}\n\
         .SH LIBRARY\nlib{library}, found by\n.B pkg-config {library}\n\
         .SH SYNOPSIS\n.nf\n.B #include <kumiki/{file}>\n.fi\n.SH DESCRIPTION\n"
    );
    let mut described = false;
    for piece in pieces(header) {
        match piece {
            Piece::Comment(text) if text.starts_with("----") => {
                let title = text.trim_matches(['-', ' ', '\n']).to_uppercase();
                let _ = writeln!(page, ".SH \"{}\"", escaped(&title));
                described = true;
            }
            Piece::Comment(text) => page += &prose(&text),
            Piece::Code(code) => {
                if !described {
                    page += ".SH DECLARATIONS\n";
                    described = true;
                }
                page += &shown(&code);
            }
        }
    }
    page + ".SH SEE ALSO\n.BR kumiki (3)\n"
}

/// Paragraphs are filled; lines that stand further in are shown as they are.
fn prose(text: &str) -> String {
    let mut out = String::from(".PP\n");
    let mut as_it_is = false;
    for line in text.lines() {
        let further = line.starts_with([' ', '\t']) || (as_it_is && line.is_empty());
        if further != as_it_is {
            out += if further { ".RS 2\n.nf\n" } else { ".fi\n.RE\n.PP\n" };
            as_it_is = further;
        }
        match line.trim_end() {
            "" if !as_it_is => out += ".PP\n",
            line => out += &format!("{}\n", escaped(line)),
        }
    }
    out + if as_it_is { ".fi\n.RE\n" } else { "" }
}

fn shown(code: &str) -> String {
    let lines = code.lines().map(|line| format!("{}\n", escaped(line)));
    format!(".PP\n.nf\n\\fB{}\\fP\n.fi\n", lines.collect::<String>().trim_end())
}

/// Escapes text for roff: a backslash, a hyphen that is one in C, a line that would be a command.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\t', "        ");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/*\n * What it is.\n *\n *     example();\n *\n * RULES. Two\n * lines.\n */\n\
        #ifndef KUMIKI_X_H\n#define KUMIKI_X_H\n\n#include <stddef.h>\n\n#ifdef __cplusplus\n\
        extern \"C\" {\n#endif\n\n/* A thing. */\nstruct kumiki_x;\n\n/*\n * Makes one.\n *\n\
        \x20*     -EINVAL  none\n */\nint kumiki_x_make(struct kumiki_x **x,\n\
        \x20                 void (*each)(int kumiki_no));\n\n#define KUMIKI_X 1\n#endif\n";

    #[test]
    fn a_header_is_taken_apart_and_functions_are_found() {
        let pieces = pieces(HEADER);
        assert_eq!(pieces.len(), 5, "{pieces:?}");
        assert_eq!(pieces[1], Piece::Comment("A thing.".to_owned()));
        assert_eq!(pieces[2], Piece::Code("struct kumiki_x;".to_owned()));
        assert_eq!(functions(HEADER), ["kumiki_x_make"]);
    }

    #[test]
    fn a_header_of_cpp_is_read_without_bodies_and_private_parts() {
        let header = "namespace detail {\nint hidden;\n} // namespace detail\n\n/* A thing. */\nclass thing {\n\
            public:\n\texplicit thing(int x) : x_{ x }\n\t{\n\t\tmake();\n\t}\n\tthing(thing &&o) noexcept : x_(o.x_) {}\n\
            \tint x() const { return x_; }\n\n\t/* Waits. */\n\tint wait(int a,\n\t         int b)\n\t\t: c(a)\n\
            \t{\n\t\tif (a) {\n\t\t}\n\t}\n\nprivate:\n\tint x_;\n};\n";
        let said = "\n/* A thing. */\nclass thing {\npublic:\n\texplicit thing(int x);\n\tthing(thing &&o) noexcept;\n\
            \tint x() const;\n\n\t/* Waits. */\n\tint wait(int a,\n\t         int b);\n};";
        assert_eq!(declared(header), said);
    }

    #[test]
    fn a_page_fills_paragraphs_and_shows_code() {
        let page = page("x.h", "things", "1.2.3", HEADER);
        assert!(page.contains("kumiki_x \\- things\n"), "{page}");
        assert!(page.contains(".nf\n    example();\n"), "{page}");
        assert!(page.contains("RULES. Two\nlines.\n"), "{page}");
        assert!(page.contains("\\-EINVAL  none"), "{page}");
        assert!(!page.contains("__cplusplus") && !page.contains("stddef"), "{page}");
    }

    #[test]
    fn each_header_has_a_page_and_each_function_of_the_library_a_name() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "0").unwrap();
        let mut exported = 0;
        for file in crate::capi::files_in(&root().join("lib/capi/src")).unwrap() {
            let Ok(source) = fs::read_to_string(file) else { continue };
            for rest in source.split("extern \"C\" fn kumiki_").skip(1) {
                let name = rest.split(['(', '<']).next().unwrap();
                let page = folder.path().join(format!("kumiki_{name}.3"));
                assert!(page.exists(), "kumiki_{name} has no page");
                exported += 1;
            }
        }
        assert!(exported > 30, "{exported}");
        let mut paged =
            HEADERS.map(|(of, file, _)| root().join(of).join("include/kumiki").join(file)).to_vec();
        for (_, file, _) in HEADERS {
            let page = folder.path().join(format!("{}.3", name_of(file)));
            let page = fs::read_to_string(page).unwrap();
            let least = if file == "error.h" { 20 } else { 60 };
            assert!(page.lines().count() > least, "{file}: {page}");
        }
        // Names of version 0.1 are for who was linked with it.
        paged.push(root().join("lib/capi/include/kumiki/old_names.h"));
        for of in ["lib/capi", "lib/capi-places"] {
            for header in crate::capi::files_in(&root().join(of).join("include/kumiki")).unwrap() {
                assert!(paged.contains(&header), "{} has no page", header.display());
            }
        }
        let cpp = fs::read_to_string(folder.path().join("kumiki_hpp.3")).unwrap();
        for part in [
            "class shadow {",
            "result join();",
            "limit(int which, rlim_t most);",
            "int code() const noexcept;",
        ] {
            assert!(cpp.contains(part), "{part}: {cpp}");
        }
        for no in ["private", "detail::spawned", "shadow_(shadow)", "_HPP"] {
            assert!(!cpp.contains(no), "{no}: {cpp}");
        }
        assert!(folder.path().join("kumiki_spawnattr_setuid.3").exists());
    }
}
