//! A folder's entries as a page.

use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Characters that are not escaped in a path.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The most entries that are shown.
pub(crate) const MOST: usize = 10_000;

/// One name of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Folders first.
    pub(crate) is_file: bool,
    pub(crate) name: Vec<u8>,
}

/// The page of the folder at `path`, with a note if there are more entries than these.
pub(crate) fn page(path: &[u8], mut entries: Vec<Entry>, are_all: bool) -> String {
    entries.sort();
    let title = escaped(&[b"/", path].concat());
    let mut page = format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n"
    );
    if !path.is_empty() {
        page.push_str("<li><a href=\"../\">../</a>\n");
    }
    for Entry { is_file, name } in entries {
        let slash = if is_file { "" } else { "/" };
        // Before it `./`: a name with a colon is no scheme.
        let link = percent_encode(&name, IN_PATH);
        let _ = writeln!(page, "<li><a href=\"./{link}{slash}\">{}{slash}</a>", escaped(&name));
    }
    page.push_str("</ul>\n");
    if !are_all {
        let _ = writeln!(page, "<p>The first {MOST} entries; there are more.");
    }
    page
}

/// Characters that are not escaped in a query: one that was sent is escaped already.
const IN_QUERY: &AsciiSet = &IN_PATH
    .remove(b'%')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/')
    .remove(b'?');

/// Address of a folder that was asked for without its slash: from the root of the server on, never
/// another host.
pub(crate) fn folder_of(path: &[u8], query: Option<&[u8]>) -> String {
    let mut location = String::new();
    for part in path.split(|byte| *byte == b'/') {
        let _ = write!(location, "/{}", percent_encode(part, IN_PATH));
    }
    location.push('/');
    if let Some(query) = query {
        let _ = write!(location, "?{}", percent_encode(query, IN_QUERY));
    }
    location
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(bytes).chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_are_links_and_text() {
        let entry = |is_file, name: &[u8]| Entry { is_file, name: name.to_vec() };
        let entries = vec![
            entry(true, b"<script>\"'&"),
            entry(true, b"javascript:alert(1)"),
            entry(true, b"\xff ?#%"),
            entry(false, b"folder"),
        ];
        let page = page(b"a<b", entries, true);
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;&quot;&#39;&amp;"));
        assert!(page.contains("href=\"./javascript%3Aalert%281%29\""));
        assert!(page.contains("href=\"./%FF%20%3F%23%25\"") && page.contains("/a&lt;b"));
        let place = |text| page.find(text).unwrap();
        assert!(place("folder/") < place("javascript"), "folders first");
    }

    #[test]
    fn a_redirect_stays_on_this_server() {
        assert_eq!(folder_of(b"a b/c\r\nX: y", None), "/a%20b/c%0D%0AX%3A%20y/");
        assert_eq!(folder_of(b"\\\\evil", None), "/%5C%5Cevil/");
        assert_eq!(folder_of(b"a", Some(b"q=1&r=%20/?\r\nX: y")), "/a/?q=1&r=%20/?%0D%0AX:%20y");
        assert_eq!(folder_of(b"a", Some(b"")), "/a/?");
    }
}
