//! Writes the heads of all answers, with the fields that each has, and small answers whole.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::date;

/// A status of RFC 9110, and its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u16, &'static str);

#[allow(missing_docs, reason = "named as in RFC 9110")]
impl Status {
    pub const OK: Status = Status(200, "OK");
    pub const PARTIAL: Status = Status(206, "Partial Content");
    pub const MOVED: Status = Status(301, "Moved Permanently");
    pub const NOT_MODIFIED: Status = Status(304, "Not Modified");
    pub const BAD_REQUEST: Status = Status(400, "Bad Request");
    pub const FORBIDDEN: Status = Status(403, "Forbidden");
    pub const NOT_FOUND: Status = Status(404, "Not Found");
    pub const METHOD_NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
    pub const REQUEST_TIMEOUT: Status = Status(408, "Request Timeout");
    pub const PRECONDITION_FAILED: Status = Status(412, "Precondition Failed");
    pub const URI_TOO_LONG: Status = Status(414, "URI Too Long");
    pub const RANGE_NOT_SATISFIABLE: Status = Status(416, "Range Not Satisfiable");
    pub const FIELDS_TOO_LARGE: Status = Status(431, "Request Header Fields Too Large");
    pub const INTERNAL: Status = Status(500, "Internal Server Error");
    pub const NOT_IMPLEMENTED: Status = Status(501, "Not Implemented");
    pub const UNAVAILABLE: Status = Status(503, "Service Unavailable");
    pub const VERSION_NOT_SUPPORTED: Status = Status(505, "HTTP Version Not Supported");

    /// The number.
    pub fn code(self) -> u16 {
        self.0
    }
}

/// The date of answers, made anew each second.
#[derive(Debug)]
pub(crate) struct Clock {
    second: i64,
    date: String,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Clock { second: i64::MIN, date: String::new() }
    }

    /// The second of the last date.
    pub(crate) fn second(&self) -> i64 {
        self.second
    }

    /// Now, as `Date` says it.
    pub(crate) fn date(&mut self) -> &str {
        let second = date::now();
        if second != self.second {
            (self.second, self.date) = (second, date::http_date(second));
        }
        &self.date
    }
}

/// A head that is being written to `out`.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Begins with the lines that each answer has.
    pub(crate) fn new(
        out: &'a mut Vec<u8>,
        Status(code, words): Status,
        keeps_alive: bool,
        clock: &mut Clock,
    ) -> Self {
        out.extend_from_slice(b"HTTP/1.1 ");
        let mut writer = Writer { out };
        writer.number(code.into());
        writer.text(" ");
        writer.text(words);
        writer.text("\r\nServer: kumiki-httpd\r\nDate: ");
        writer.text(clock.date());
        // To HTTP/1.0, too, which would close else.
        writer.text(if keeps_alive {
            "\r\nConnection: keep-alive\r\n"
        } else {
            "\r\nConnection: close\r\n"
        });
        writer
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, number: u64) {
        // To a vector it cannot fail.
        let _ = write!(self.out, "{number}");
    }

    pub(crate) fn field(&mut self, name: &str, value: &str) -> &mut Self {
        for part in [name, ": ", value, "\r\n"] {
            self.text(part);
        }
        self
    }

    pub(crate) fn length(&mut self, bytes: u64) -> &mut Self {
        self.text("Content-Length: ");
        self.number(bytes);
        self.text("\r\n");
        self
    }

    /// The field, where there is something to be said.
    pub(crate) fn field_if(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        if let Some(value) = value {
            self.field(name, value);
        }
        self
    }

    pub(crate) fn end(&mut self) {
        self.text("\r\n");
    }
}

/// A whole answer that says no more than its status.
pub(crate) fn short(
    out: &mut Vec<u8>,
    status: Status,
    keeps_alive: bool,
    is_head: bool,
    clock: &mut Clock,
) -> u64 {
    let Status(code, words) = status;
    let mut page = String::new();
    let _ = writeln!(page, "<!doctype html><title>{code} {words}</title><h1>{code} {words}</h1>");
    let mut writer = Writer::new(out, status, keeps_alive, clock);
    if status == Status::METHOD_NOT_ALLOWED {
        writer.field("Allow", "GET, HEAD");
    }
    if status == Status::UNAVAILABLE {
        writer.field("Retry-After", "1");
    }
    writer.field("Content-Type", "text/html; charset=utf-8").length(page.len() as u64).end();
    if is_head {
        return 0;
    }
    out.extend_from_slice(page.as_bytes());
    page.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_answer_is_whole() {
        let (mut out, mut clock) = (Vec::new(), Clock::new());
        let sent = short(&mut out, Status::METHOD_NOT_ALLOWED, false, false, &mut clock);
        let text = String::from_utf8(out).unwrap();
        let (head, page) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{head}");
        assert!(head.contains("\r\nAllow: GET, HEAD\r\n") && head.contains("Connection: close"));
        assert!(head.ends_with(&format!("Content-Length: {}", page.len())));
        assert_eq!(sent, page.len() as u64);
        let mut out = Vec::new();
        assert_eq!(short(&mut out, Status::NOT_FOUND, true, true, &mut clock), 0);
        assert!(out.ends_with(b"\r\n\r\n"));
    }
}
