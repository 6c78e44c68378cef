//! A request's head, as strictly as what may stand between us and the client allows: what two
//! parsers could read in two ways is refused, and its connection closed.

use crate::authority::is_authority;
use crate::line::Line;
pub use crate::line::Method;
use crate::response::Status;
use crate::target::{self, Target};

/// The longest head, bytes.
pub const MOST_HEAD: usize = 16 * 1024;
/// The longest target.
const MOST_TARGET: usize = 8 * 1024;
/// The most header fields.
const MOST_FIELDS: usize = 64;

/// A request's head.
#[derive(Debug)]
pub struct Head<'a> {
    /// Its bytes, with the empty line.
    pub length: usize,
    /// Method.
    pub method: Method,
    /// The target as it came, for the log.
    pub raw_target: &'a str,
    /// Target as it is understood.
    pub target: Target,
    /// Minor version of HTTP/1: 0 or 1.
    pub minor: u8,
    /// True if the connection goes on after the answer, as far as the client is asked.
    pub keeps_alive: bool,
    /// The fields that an answer may depend on.
    pub fields: Fields<'a>,
}

/// Values of header fields; of one that came twice the first, but where its lines are a list.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "named as the fields of RFC 9110 are")]
pub struct Fields<'a> {
    pub range: Option<&'a [u8]>,
    pub if_range: Option<&'a [u8]>,
    pub if_match: Lines<'a>,
    pub if_none_match: Lines<'a>,
    pub if_modified_since: Option<&'a [u8]>,
    pub if_unmodified_since: Option<&'a [u8]>,
    pub accept_encoding: Lines<'a>,
    pub referer: Option<&'a [u8]>,
    pub user_agent: Option<&'a [u8]>,
}

/// Lines of one field, which count together (RFC 9110, section 5.3).
#[derive(Clone, Debug, Default)]
pub struct Lines<'a> {
    first: Option<&'a [u8]>,
    more: Vec<&'a [u8]>,
}

impl<'a> Lines<'a> {
    pub(crate) fn add(&mut self, line: &'a [u8]) {
        match self.first {
            None => self.first = Some(line),
            Some(_) => self.more.push(line),
        }
    }

    /// True if there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.first.into_iter().chain(self.more.iter().copied())
    }

    /// True if they are no list, but `*`.
    pub(crate) fn is_star(&self) -> bool {
        self.more.is_empty() && self.first.is_some_and(|line| line.trim_ascii() == b"*")
    }
}

/// Request or not: the first bytes of a connection's input.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "read at once, not kept")]
pub enum Parsed<'a> {
    /// The head is not there as a whole.
    Partial,
    /// A request to be answered so, and the connection closed: where the next request begins is not
    /// known.
    Refused(Status),
    /// A request.
    Head(Head<'a>),
}

/// True if what has come begins as a HEAD does: to that no answer has a body, whatever else it is
/// (RFC 9110, section 9.3.2).
pub(crate) fn is_of_head(input: &[u8]) -> bool {
    input.strip_prefix(b"\r\n").unwrap_or(input).starts_with(b"HEAD ")
}

/// Reads a head from the start of `input`.
pub fn parse(input: &[u8]) -> Parsed<'_> {
    match head(input) {
        Ok(None) if input.len() >= MOST_HEAD => {
            // The line may be what is too long.
            let in_line = !input.iter().take(MOST_TARGET).skip(2).any(|byte| *byte == b'\n');
            Parsed::Refused(if in_line { Status::URI_TOO_LONG } else { Status::FIELDS_TOO_LARGE })
        }
        Ok(None) => Parsed::Partial,
        Ok(Some(head)) => Parsed::Head(head),
        Err(status) => Parsed::Refused(status),
    }
}

fn head(input: &[u8]) -> Result<Option<Head<'_>>, Status> {
    // One empty line that an old client has sent after its last request (RFC 9112, section 2.2).
    let start = if input.starts_with(b"\r\n") { 2 } else { 0 };
    let request = input.get(start..).unwrap_or_default();
    let Some(end) = request.iter().position(|byte| *byte == b'\n') else {
        return if Line::may_begin(request) { Ok(None) } else { Err(Status::BAD_REQUEST) };
    };
    let (line, rest) = request.split_at(end);
    let line = Line::parse(line.strip_suffix(b"\r").ok_or(Status::BAD_REQUEST)?)?;
    let rest = rest.get(1..).unwrap_or_default();
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let (of_fields, headers) = match httparse::parse_headers(rest, &mut room) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(found)) => found,
        Err(httparse::Error::TooManyHeaders) => return Err(Status::FIELDS_TOO_LARGE),
        Err(_) => return Err(Status::BAD_REQUEST),
    };
    // The library takes a line that ends in a line feed alone.
    let mut before = b'\n';
    for byte in rest.iter().take(of_fields) {
        if *byte == b'\n' && before != b'\r' {
            return Err(Status::BAD_REQUEST);
        }
        before = *byte;
    }
    let length = start + end + 1 + of_fields;
    if length > MOST_HEAD {
        return Err(Status::FIELDS_TOO_LARGE);
    }
    if line.target.len() > MOST_TARGET {
        return Err(Status::URI_TOO_LONG);
    }
    let (fields, connection) = read_fields(headers, &line)?;
    match line.method {
        Method::Get | Method::Head => (),
        Method::Known => return Err(Status::METHOD_NOT_ALLOWED),
        Method::Unknown => return Err(Status::NOT_IMPLEMENTED),
    }
    let keeps_alive = match (line.minor, connection) {
        (_, ConnectionWords { close: true, .. }) => false,
        (0, ConnectionWords { keep_alive, .. }) => keep_alive,
        _ => true,
    };
    let (raw_target, method, minor) = (line.target, line.method, line.minor);
    let target = target::parse(raw_target.as_bytes())?;
    Ok(Some(Head { length, method, raw_target, target, minor, keeps_alive, fields }))
}

/// Words of `ConnectionWords`.
#[derive(Default)]
struct ConnectionWords {
    close: bool,
    keep_alive: bool,
}

fn read_fields<'a>(
    headers: &[httparse::Header<'a>],
    line: &Line<'_>,
) -> Result<(Fields<'a>, ConnectionWords), Status> {
    let (mut fields, mut connection) = (Fields::default(), ConnectionWords::default());
    let (mut hosts, mut lengths) = (0, 0);
    let has_body = !matches!(line.method, Method::Get | Method::Head);
    for httparse::Header { name, value } in headers {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let place = match name.len() {
            4 if is("host") => {
                hosts += 1;
                if !is_authority(value) {
                    return Err(Status::BAD_REQUEST);
                }
                continue;
            }
            5 if is("range") => &mut fields.range,
            7 if is("referer") => &mut fields.referer,
            8 if is("if-range") => &mut fields.if_range,
            8 if is("if-match") => {
                fields.if_match.add(value);
                continue;
            }
            10 if is("user-agent") => &mut fields.user_agent,
            10 if is("connection") => {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    connection.close |= word.eq_ignore_ascii_case(b"close");
                    connection.keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
                }
                continue;
            }
            13 if is("if-none-match") => {
                fields.if_none_match.add(value);
                continue;
            }
            15 if is("accept-encoding") => {
                fields.accept_encoding.add(value);
                continue;
            }
            17 if is("if-modified-since") => &mut fields.if_modified_since,
            19 if is("if-unmodified-since") => &mut fields.if_unmodified_since,
            // A body means nothing to GET, and where it ends two may see differently.
            14 if is("content-length") => {
                lengths += 1;
                let is_length = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                if *value == b"0" || is_length && has_body {
                    continue;
                }
                return Err(Status::BAD_REQUEST);
            }
            // Of a method that is not served nothing is read behind the head, and the connection ends.
            17 if is("transfer-encoding") && has_body && line.minor > 0 => {
                lengths += 1;
                continue;
            }
            17 if is("transfer-encoding") => return Err(Status::BAD_REQUEST),
            _ => continue,
        };
        place.get_or_insert(value);
    }
    // RFC 9112, section 3.2: exactly one, and in HTTP/1.0 none. Section 6.3: one length.
    if hosts > 1 || hosts == 0 && line.minor > 0 || lengths > 1 {
        return Err(Status::BAD_REQUEST);
    }
    Ok((fields, connection))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(input: &str) -> u16 {
        match parse(input.as_bytes()) {
            Parsed::Refused(status) => status.code(),
            Parsed::Partial => 0,
            Parsed::Head(_) => 200,
        }
    }

    #[test]
    fn a_head_is_read_as_far_as_it_goes() {
        let input = b"GET /a%20b?q HTTP/1.1\r\nHost: x\r\nrange: bytes=0-\r\nRange: bytes=1-\r\n\
                      Connection: x, Close\r\n\r\nGET /next";
        let Parsed::Head(head) = parse(input) else { panic!() };
        assert_eq!(&input[head.length..], b"GET /next");
        assert_eq!((head.method, head.minor, head.keeps_alive), (Method::Get, 1, false));
        assert_eq!(head.target.path, b"a b");
        assert_eq!(head.fields.range, Some(&b"bytes=0-"[..]));
        for end in 0..head.length {
            assert!(matches!(parse(&input[..end]), Parsed::Partial), "{end}");
        }
    }

    #[test]
    fn connections_go_on_as_the_version_says() {
        let keeps = |line: &str, more: &str| {
            let input = format!("HEAD / {line}\r\nHost: x\r\n{more}\r\n");
            match parse(input.as_bytes()) {
                Parsed::Head(head) => head.keeps_alive,
                other => panic!("{other:?}"),
            }
        };
        assert!(keeps("HTTP/1.1", "") && !keeps("HTTP/1.0", ""));
        assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
        assert!(!keeps("HTTP/1.1", "Connection: keep-alive, close\r\n"));
    }

    #[test]
    fn what_two_could_read_in_two_ways_is_refused() {
        let get = "GET / HTTP/1.1\r\nHost: x\r\n";
        for rest in [
            // Bodies, and disagreement about their end.
            "Content-Length: 5\r\n\r\n",
            "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
            "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
            "Content-Length: +0\r\n\r\n",
            "Content-Length: 0, 0\r\n\r\n",
            "Content-Length:\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n",
            "Transfer-Encoding: identity\r\n\r\n",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            // Names and lines.
            "Transfer-Encoding : chunked\r\n\r\n",
            " Content-Length: 5\r\n\r\n",
            "\tfolded\r\n\r\n",
            "A: b\r\n folded: c\r\n\r\n",
            "A: b\n\r\n",
            "A: b\r\n\n",
            "A\r\n\r\n",
            ": b\r\n\r\n",
            "A: b\rC: d\r\n\r\n",
            "A: \0\r\n\r\n",
            "A\0: b\r\n\r\n",
            // Whose it is.
            "Host: y\r\n\r\n",
            "host: x\r\n\r\n",
        ] {
            assert_eq!(refused(&format!("{get}{rest}")), 400, "{rest:?}");
        }
        for input in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: \r\n\r\n",
            "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\nHost: x\r\n\r\n",
            "GET /\r\n\r\n",
            "GET\r\n\r\n",
            "\0\r\n\r\n",
            "GET /../x HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET host:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            assert_eq!(refused(input), 400, "{input:?}");
        }
        assert_eq!(refused("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
        assert_eq!(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
        for method in ["POST", "DELETE", "OPTIONS", "TRACE"] {
            for body in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
                assert_eq!(refused(&format!("{method} / HTTP/1.1\r\nHost: x\r\n{body}\r\n")), 405);
            }
        }
        assert_eq!(refused("get / HTTP/1.1\r\nHost: x\r\n\r\n"), 501);
        assert_eq!(refused("GET / HTTP/1.2\r\nHost: x\r\n\r\n"), 200);
        assert_eq!(refused("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
    }

    #[test]
    fn overlong_heads_are_refused_before_they_end() {
        let long = "a".repeat(MOST_HEAD);
        assert_eq!(refused(&format!("GET /{long}")), 414);
        assert_eq!(refused(&format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", &long[..9000])), 414);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nA: {long}")), 431);
        let many = "A: b\r\n".repeat(MOST_FIELDS);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n")), 431);
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: x\r\n{}", &many[..60])), 0);
    }

    proptest! {
        /// A head that is taken is the same one whatever comes after it, and not before its end.
        #[test]
        fn where_a_head_ends_does_not_depend_on_what_follows(
            middle in "[ -~\r\n\t:]{0,60}", after in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let input = format!("GET / HTTP/1.1\r\nHost: x\r\n{middle}\r\n\r\n").into_bytes();
            if let Parsed::Head(head) = parse(&input) {
                let length = head.length;
                prop_assert!(input[..length].ends_with(b"\r\n\r\n"));
                let longer = [&input[..], &after].concat();
                let Parsed::Head(again) = parse(&longer) else { panic!("not taken") };
                prop_assert_eq!(again.length, length);
                let before = matches!(parse(&input[..length - 1]), Parsed::Partial);
                prop_assert!(before);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(input in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&input);
        }
    }
}
