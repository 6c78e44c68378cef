//! From a request's target to a path below the folder.

use std::ffi::CString;

use percent_encoding::percent_decode;

use crate::authority::is_authority;
use crate::response::Status;

/// A path below the folder, relative to it; empty for the folder itself. It has no empty
/// part, no `.` and no `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Bytes as the file system has them, without a slash at either end.
    pub path: Vec<u8>,
    /// True if the target ends in a slash, as that of a folder does.
    pub is_folder: bool,
}

/// The path that a request's target means.
///
/// # Errors
/// 400: it is no path, has a zero byte, a part `..` or an encoded slash, which others may have
/// read otherwise on its way here. 414: it is longer than the kernel takes.
pub fn parse(target: &[u8]) -> Result<Target, Status> {
    // A fragment is the client's alone (RFC 9112, section 3.2).
    if target.contains(&b'#') {
        return Err(Status::BAD_REQUEST);
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = origin_form(path).ok_or(Status::BAD_REQUEST)?;
    let is_folder = path.ends_with(b"/") || path.ends_with(b"/.");
    let mut parts = Vec::with_capacity(path.len());
    for part in path.split(|byte| *byte == b'/') {
        let part: Vec<u8> = decode(part)?;
        match &part[..] {
            b"" | b"." => continue,
            b".." => return Err(Status::BAD_REQUEST),
            _ => (),
        }
        if !parts.is_empty() {
            parts.push(b'/');
        }
        parts.extend_from_slice(&part);
    }
    // PATH_MAX, with room for the index's name.
    if parts.len() > 3500 {
        return Err(Status::URI_TOO_LONG);
    }
    Ok(Target { path: parts, is_folder })
}

/// Everything behind the first question mark.
pub fn query(target: &[u8]) -> Option<&[u8]> {
    let at = target.iter().position(|byte| *byte == b'?')?;
    target.get(at + 1..)
}

/// The path of `/path`, or of `http://host/path`, both without a query: an authority ends at that,
/// too (RFC 3986, section 3.2).
fn origin_form(target: &[u8]) -> Option<&[u8]> {
    if target.starts_with(b"/") {
        return Some(target);
    }
    let scheme = |name: &[u8]| {
        let (start, rest) = target.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some(rest)
    };
    let rest = scheme(b"http://").or_else(|| scheme(b"https://"))?;
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    match path {
        _ if !is_authority(authority) => None,
        b"" => Some(b"/"),
        path => Some(path),
    }
}

fn decode(part: &[u8]) -> Result<Vec<u8>, Status> {
    let mut rest = part;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        if digits.is_none() {
            return Err(Status::BAD_REQUEST);
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    let part: Vec<u8> = percent_decode(part).collect();
    if part.contains(&0) || part.contains(&b'/') { Err(Status::BAD_REQUEST) } else { Ok(part) }
}

impl Target {
    /// The path with `name` behind it; `.` for the folder itself.
    pub(crate) fn joined(&self, name: &str) -> CString {
        let mut path = self.path.clone();
        if !path.is_empty() && !name.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        c_string(path)
    }

    /// The path with `suffix` right behind it.
    pub(crate) fn with_suffix(&self, suffix: &str) -> CString {
        c_string([&self.path[..], suffix.as_bytes()].concat())
    }

    /// True if a part of it begins with a dot, but that which is there for all (RFC 8615).
    pub(crate) fn is_hidden(&self) -> bool {
        let path = self.path.strip_prefix(b".well-known").unwrap_or(&self.path);
        let path = if path.first().is_none_or(|byte| *byte == b'/') { path } else { &self.path };
        path.split(|byte| *byte == b'/').any(|part| part.starts_with(b"."))
    }
}

fn c_string(path: Vec<u8>) -> CString {
    // No zero byte is in it: `parse` refuses them, and names of ours have none.
    CString::new(if path.is_empty() { b".".to_vec() } else { path }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(target: &str) -> Result<(String, bool), u16> {
        let found = parse(target.as_bytes()).map_err(|status| status.code())?;
        Ok((String::from_utf8(found.path).unwrap(), found.is_folder))
    }

    #[test]
    fn targets_mean_paths_below_the_folder() {
        let known = [
            ("/", "", true),
            ("/a", "a", false),
            ("/a/b/", "a/b", true),
            ("//a//b", "a/b", false),
            ("/./a/./b/.", "a/b", true),
            ("/a%20b?c=d/../e", "a b", false),
            ("/%C3%A4", "ä", false),
            ("/...", "...", false),
            ("/..a/b..", "..a/b..", false),
            ("http://host/a", "a", false),
            ("HTTPS://host:81", "", true),
            ("http://host?a/secret", "", true),
            ("http://host/?a/secret", "", true),
            ("http://[::1]:80/a?b", "a", false),
        ];
        for (target, expected, is_folder) in known {
            assert_eq!(path(target), Ok((expected.to_owned(), is_folder)), "{target}");
        }
    }

    #[test]
    fn targets_that_lead_out_or_mean_two_things_are_refused() {
        for target in [
            "/..",
            "/../etc/passwd",
            "/a/../b",
            "/a/..",
            "/%2e%2e/etc",
            "/.%2E/",
            "/a%2f..%2fb",
            "/a%00",
            "/%",
            "/%2",
            "/%zz",
            "/a#b",
            "",
            "*",
            "a",
            "http://",
            "http:///a",
            "ftp://a/b",
            "http://host#/secret",
            "http://host?a#/secret",
            "/a?b#c",
            "http://user@host/a",
            "http://:80/a",
            "http://host:x/a",
        ] {
            assert_eq!(path(target), Err(400), "{target}");
        }
        assert_eq!(path(&format!("/{}", "a".repeat(4000))), Err(414));
    }

    #[test]
    fn names_with_a_dot_are_hidden_but_what_is_there_for_all() {
        for (target, hidden) in [
            ("/.git/config", true),
            ("/a/.env", true),
            ("/.well-known/acme", false),
            ("/.well-known", false),
            ("/.well-knownx", true),
            ("/.well-known/.git", true),
            ("/a/.well-known", true),
            ("/a.b/c", false),
        ] {
            assert_eq!(parse(target.as_bytes()).unwrap().is_hidden(), hidden, "{target}");
        }
    }

    proptest! {
        /// Checks that, whatever it is, the path stays below the folder.
        #[test]
        fn no_target_leads_out(target in prop::collection::vec(
            prop::sample::select(b"/.%2eEfF0a\\?#:".to_vec()), 0..40,
        )) {
            if let Ok(found) = parse(&[b"/", &target[..]].concat()) {
                prop_assert!(!found.path.contains(&0) && !found.path.starts_with(b"/"));
                let parts = found.path.split(|byte| *byte == b'/');
                for part in parts {
                    prop_assert!(part != b".." && part != b".");
                    prop_assert!(!part.is_empty() || found.path.is_empty());
                }
            }
        }
    }
}
