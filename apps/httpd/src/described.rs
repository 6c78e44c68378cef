//! A file as the head of its answer describes it: media type, encoding, length, tag, date.

use kumiki_parasc::op::Attributes;

use crate::conditions::Version;
use crate::encoding::Encoding;
use crate::site::Candidate;

/// Tag, date and type of a file, or of a variant of it.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) encoding: Option<Encoding>,
    pub(crate) version: Version,
    pub(crate) content_type: &'static str,
}

impl Described {
    /// Describes a file by its attributes, as far as they say something.
    pub(crate) fn of(attributes: &Attributes, candidate: &Candidate, says: bool) -> Self {
        let encoding = candidate.encoding;
        let version = if says { Version::of(attributes, encoding) } else { Version::none() };
        Described { encoding, version, content_type: content_type(candidate) }
    }
}

/// Content type by the name's ending, without that of a coding.
fn content_type(candidate: &Candidate) -> &'static str {
    let name = candidate.path.to_bytes();
    let suffix = candidate.encoding.map_or("", |encoding| encoding.suffix()).as_bytes();
    let name = name.strip_suffix(suffix).unwrap_or(name);
    let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let ending =
        name.rsplit(|byte| *byte == b'.').next().filter(|ending| ending.len() < name.len());
    let ending = ending.and_then(|ending| std::str::from_utf8(ending).ok()).unwrap_or_default();
    match mime_guess::from_ext(ending).first_raw() {
        Some("text/html") => "text/html; charset=utf-8",
        Some("text/plain") => "text/plain; charset=utf-8",
        known => known.unwrap_or("application/octet-stream"),
    }
}
