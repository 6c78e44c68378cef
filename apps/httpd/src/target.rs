//! From a request's target to a path below the folder.

use std::ffi::CString;

use percent_encoding::percent_decode;

use crate::response::Status;

/// A path below the folder, relative to it; empty for the folder itself. It has no empty
/// part, no `.` and no `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Bytes as the file system has them, without a slash at either end.
    pub path: Vec<u8>,
    /// Whether the target ends in a slash, as that of a folder does.
    pub is_folder: bool,
}

/// The path that a request's target means.
///
/// # Errors
/// 400: it is no path, has a zero byte, a part `..` or an encoded slash, which others may have
/// read otherwise on its way here. 414: it is longer than the kernel takes.
pub fn parse(target: &[u8]) -> Result<Target, Status> {
    let path = origin_form(target).ok_or(Status::BAD_REQUEST)?;
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    if path.contains(&b'#') {
        return Err(Status::BAD_REQUEST);
    }
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

/// The path of `/path`, or of `http://host/path`.
fn origin_form(target: &[u8]) -> Option<&[u8]> {
    if target.starts_with(b"/") {
        return Some(target);
    }
    let scheme = |name: &[u8]| {
        let (start, rest) = target.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some(rest)
    };
    let rest = scheme(b"http://").or_else(|| scheme(b"https://"))?;
    match rest.iter().position(|byte| *byte == b'/') {
        Some(0) => None,
        Some(at) => Some(&rest[at..]),
        None if rest.is_empty() => None,
        None => Some(b"/"),
    }
}

fn decode(part: &[u8]) -> Result<Vec<u8>, Status> {
    let mut rest = part;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3).filter(|two| two.iter().all(u8::is_ascii_hexdigit));
        if digits.is_none() {
            return Err(Status::BAD_REQUEST);
        }
        rest = &rest[at + 3..];
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

    /// The last part.
    pub(crate) fn name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
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
        ] {
            assert_eq!(path(target), Err(400), "{target}");
        }
        assert_eq!(path(&format!("/{}", "a".repeat(4000))), Err(414));
    }

    proptest! {
        /// Whatever it is, the path stays below the folder.
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
