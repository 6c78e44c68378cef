//! The first line of a request (RFC 9112, section 3).

use crate::response::Status;

/// Methods that are known (RFC 9110, section 9.3; RFC 5789) and not served.
const KNOWN: [&[u8]; 7] = [b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Asks for the file.
    Get,
    /// Asks for the fields without the file.
    Head,
    /// A known method for something that no file can do.
    Known,
    /// A word that is not known here.
    Unknown,
}

/// A request's first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) method: Method,
    pub(crate) target: &'a str,
    /// 0, or 1 also for those that are later: they mean no less (RFC 9110, section 2.5).
    pub(crate) minor: u8,
}

impl<'a> Line<'a> {
    /// Reads it, without its end.
    ///
    /// # Errors
    /// 400: it is not three words with a space between; a word has what it must not. 505: it is of
    /// another version than HTTP/1.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, Status> {
        let mut words = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Status::BAD_REQUEST);
        };
        if method.is_empty() || target.is_empty() || !method.iter().all(is_of_token) {
            return Err(Status::BAD_REQUEST);
        }
        let [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] = version else {
            return Err(Status::BAD_REQUEST);
        };
        if !major.is_ascii_digit() || !minor.is_ascii_digit() || !target.iter().all(is_visible) {
            return Err(Status::BAD_REQUEST);
        }
        if *major != b'1' {
            return Err(Status::VERSION_NOT_SUPPORTED);
        }
        let target = std::str::from_utf8(target).map_err(|_| Status::BAD_REQUEST)?;
        let method = match method {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            known if KNOWN.contains(&known) => Method::Known,
            _ => Method::Unknown,
        };
        Ok(Line { method, target, minor: u8::from(*minor != b'0') })
    }

    /// True if such bytes may begin a line whose end has not come.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        bytes.iter().all(|byte| *byte == b' ' || is_visible(byte))
            && bytes
                .split(|byte| *byte == b' ')
                .next()
                .is_none_or(|word| word.iter().all(is_of_token))
    }
}

/// Letters of a token (RFC 9110, section 5.6.2).
fn is_of_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Letters that stand for themselves; those beyond ASCII, as clients do not escape them.
fn is_visible(byte: &u8) -> bool {
    byte.is_ascii_graphic() || *byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_three_words() {
        let line = Line::parse(b"GET /a?b HTTP/1.1").unwrap();
        assert_eq!(line, Line { method: Method::Get, target: "/a?b", minor: 1 });
        let minor = |line: &str| Line::parse(line.as_bytes()).map(|line| line.minor);
        assert_eq!(minor("HEAD / HTTP/1.0"), Ok(0));
        assert_eq!(minor("GET / HTTP/1.2"), Ok(1));
        assert_eq!(minor("GET / HTTP/1.9"), Ok(1));
        for method in ["POST", "PATCH", "CONNECT"] {
            let line = format!("{method} / HTTP/1.1");
            assert_eq!(Line::parse(line.as_bytes()).unwrap().method, Method::Known);
        }
        for method in ["get", "GETS", "X!"] {
            let line = format!("{method} / HTTP/1.1");
            assert_eq!(Line::parse(line.as_bytes()).unwrap().method, Method::Unknown);
        }
    }

    #[test]
    fn what_is_none_is_refused_also_before_its_end() {
        for line in [
            "",
            " ",
            "GET",
            "GET /",
            "GET / ",
            "GET  / HTTP/1.1",
            " GET / HTTP/1.1",
            "GET /a b HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET / http/1.1",
            "GET / HTTP/1.",
            "GET / HTTP/1.11",
            "GET / HTTP/1,1",
            "GET / HTTP/a.b",
            "G(T / HTTP/1.1",
            "GET /\ta HTTP/1.1",
            "GET /\0 HTTP/1.1",
            "GET /\r HTTP/1.1",
        ] {
            assert_eq!(Line::parse(line.as_bytes()), Err(Status::BAD_REQUEST), "{line:?}");
        }
        assert_eq!(Line::parse(b"GET /\xff HTTP/1.1"), Err(Status::BAD_REQUEST));
        for line in ["GET / HTTP/2.0", "PRI * HTTP/2.0", "GET / HTTP/0.9"] {
            assert_eq!(Line::parse(line.as_bytes()), Err(Status::VERSION_NOT_SUPPORTED));
        }
        for begun in ["", "G", "GET /ä", "GET / HTTP/1.1\r", "\r"] {
            assert!(Line::may_begin(begun.as_bytes()), "{begun:?}");
        }
        for begun in ["\x16\x03\x01", "\0", "G(", "GET /\t", "GET /\ra"] {
            assert!(!Line::may_begin(begun.as_bytes()), "{begun:?}");
        }
    }
}
