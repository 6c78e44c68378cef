//! Header fields.

use super::super::scene::Answer;
use super::{CONTENT, refused, server};

#[test]
fn a_host_must_be_there_once_and_be_one() {
    let server = server();
    for fields in [
        "",
        "Host: x\r\nHost: x\r\n",
        "Host:\r\n",
        "Host: a b\r\n",
        "Host: u@x\r\n",
        "Host: x:y\r\n",
        "Host: x/y\r\n",
    ] {
        assert_eq!(
            refused(&server, &format!("GET /a HTTP/1.1\r\n{fields}\r\n")),
            400,
            "{fields:?}"
        );
    }
    let old = server.send(b"GET /a HTTP/1.0\r\n\r\n");
    assert_eq!(Answer::parse(&old, false).0.body, CONTENT);
}

#[test]
fn no_space_before_a_colon() {
    assert_eq!(refused(&server(), "GET /a HTTP/1.1\r\nHost : x\r\n\r\n"), 400);
}

#[test]
fn no_space_before_the_first_field() {
    assert_eq!(refused(&server(), "GET /a HTTP/1.1\r\n Host: x\r\n\r\n"), 400);
}

#[test]
fn no_line_is_folded() {
    assert_eq!(refused(&server(), "GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n"), 400);
}

#[test]
fn no_zero_and_no_line_end_in_a_value() {
    let server = server();
    for value in ["a\0b", "a\rb", "a\nb"] {
        assert_eq!(
            refused(&server, &format!("GET /a HTTP/1.1\r\nHost: x\r\nA: {value}\r\n\r\n")),
            400
        );
    }
}

#[test]
fn fields_that_are_too_long_or_too_many_are_431() {
    let server = server();
    let long = "a".repeat(17_000);
    assert_eq!(refused(&server, &format!("GET /a HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n")), 431);
    let many = "A: b\r\n".repeat(100);
    assert_eq!(refused(&server, &format!("GET /a HTTP/1.1\r\nHost: x\r\n{many}\r\n")), 431);
}

#[test]
fn a_length_that_is_none_or_is_said_twice_is_400() {
    let server = server();
    for fields in
        ["-1", "+0", "0x0", "", "0, 0", "1 1", "0\r\nContent-Length: 0", "0\r\nContent-Length: 5"]
    {
        for method in ["GET", "POST"] {
            let head =
                format!("{method} /a HTTP/1.1\r\nHost: x\r\nContent-Length: {fields}\r\n\r\n");
            assert_eq!(refused(&server, &head), 400, "{head:?}");
        }
    }
}

#[test]
fn a_coded_body_ends_the_connection() {
    let server = server();
    let head = |fields: &str| format!("GET /a HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    assert_eq!(refused(&server, &head("Transfer-Encoding: chunked\r\n")), 400);
    assert_eq!(refused(&server, &head("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n")), 400);
    assert_eq!(refused(&server, "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    assert_eq!(
        refused(
            &server,
            "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        405
    );
}

#[test]
fn each_answer_has_a_date() {
    let server = server();
    for (method, target, fields, status) in [
        ("GET", "/a", "", 200),
        ("GET", "/a", "Range: bytes=0-1\r\n", 206),
        ("GET", "/folder", "", 301),
        ("GET", "/a", "If-None-Match: *\r\n", 304),
        ("GET", "/none", "", 404),
        ("POST", "/a", "", 405),
        ("GET", "/a", "If-Match: \"x\"\r\n", 412),
        ("GET", "/a", "Range: bytes=99-\r\n", 416),
    ] {
        let answer = server.ask(method, target, fields);
        assert_eq!(answer.status, status, "{method} {target}");
        let date = answer.field("Date").unwrap();
        let now = std::time::SystemTime::now();
        let date = httpdate::parse_http_date(date).unwrap();
        let apart = now.duration_since(date).unwrap_or_default();
        assert!(apart.as_secs() < 120, "{apart:?}");
    }
}

#[test]
fn dates_are_written_in_one_form_and_read_in_three() {
    let server = server();
    let last = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(server.get("/a", "").field("Last-Modified"), Some(last));
    for date in [last, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        let fields = format!("If-Modified-Since: {date}\r\n");
        assert_eq!(server.get("/a", &fields).status, 304, "{date}");
    }
}

#[test]
fn nothing_was_modified_later_than_it_is_answered() {
    let server = server();
    let file = std::fs::File::options().write(true).open(server.path("a")).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    file.set_modified(later).unwrap();
    let answer = server.get("/a", "");
    assert_eq!(answer.field("Last-Modified"), answer.field("Date"));
}

#[test]
fn a_coding_is_used_for_who_takes_it_and_named() {
    let server = server();
    for (accepted, coding) in [
        ("gzip", Some("gzip")),
        ("br\r\nAccept-Encoding: gzip;q=0.1", Some("gzip")),
        ("GZIP", Some("gzip")),
        ("gzip;q=0", None),
        ("identity", None),
        ("", None),
    ] {
        let answer = server.get("/a", &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!((answer.status, answer.field("Content-Encoding")), (200, coding), "{accepted}");
        assert_eq!(answer.body == CONTENT, coding.is_none());
    }
}

#[test]
fn what_an_answer_depends_on_is_said() {
    let server = server();
    for fields in ["", "Accept-Encoding: gzip\r\n", "If-None-Match: *\r\n", "Range: bytes=0-0\r\n"]
    {
        assert_eq!(server.get("/a", fields).field("Vary"), Some("Accept-Encoding"), "{fields}");
    }
}
