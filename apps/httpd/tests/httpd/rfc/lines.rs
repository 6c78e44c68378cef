//! First lines and targets.

use super::{CONTENT, answers, refused, server};

#[test]
fn a_later_minor_version_is_answered_as_1_1() {
    let answers = answers(
        &server(),
        b"GET /a HTTP/1.2\r\nHost: x\r\n\r\nGET /a HTTP/1.9\r\nHost: x\r\nConnection: close\r\n\r\n",
    );
    assert!(answers.len() == 2 && answers.iter().all(|answer| answer.body == CONTENT));
}

#[test]
fn another_major_version_is_505() {
    let server = server();
    assert_eq!(refused(&server, "GET /a HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
    assert_eq!(refused(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn one_empty_line_before_a_request_is_passed_over() {
    let server = server();
    let two = b"\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(answers(&server, two).len(), 2);
    assert_eq!(refused(&server, "\r\n\r\n"), 400);
}

#[test]
fn a_line_that_is_none_is_400() {
    let server = server();
    for line in [
        "GET",
        "GET /a",
        "GET /a b HTTP/1.1",
        "GET  /a HTTP/1.1",
        "GET /a HTTP/1.1 ",
        "GET /a http/1.1",
    ] {
        assert_eq!(refused(&server, &format!("{line}\r\nHost: x\r\n\r\n")), 400, "{line}");
    }
}

#[test]
fn a_carriage_return_alone_ends_nothing() {
    let server = server();
    assert_eq!(refused(&server, "GET /a\rHTTP/1.1\r\nHost: x\r\n\r\n"), 400);
    assert_eq!(refused(&server, "GET /a HTTP/1.1\rHost: x\r\n\r\n"), 400);
    assert_eq!(refused(&server, "GET /a HTTP/1.1\r\nHost: x\rA: b\r\n\r\n"), 400);
}

#[test]
fn a_long_target_is_414() {
    let target = "a".repeat(9000);
    assert_eq!(refused(&server(), &format!("GET /{target} HTTP/1.1\r\nHost: x\r\n\r\n")), 414);
}

#[test]
fn an_unknown_method_is_501_and_one_not_for_files_405() {
    let server = server();
    for method in ["BREW", "get", "GETS"] {
        assert_eq!(refused(&server, &format!("{method} /a HTTP/1.1\r\nHost: x\r\n\r\n")), 501);
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"] {
        assert_eq!(refused(&server, &format!("{method} /a HTTP/1.1\r\nHost: x\r\n\r\n")), 405);
    }
}

#[test]
fn a_405_says_what_is_allowed() {
    let answer = server().ask("POST", "/a", "Content-Length: 2\r\n\r\nhi");
    assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD")));
}

#[test]
fn a_head_has_the_fields_of_a_get_and_no_body() {
    let server = server();
    for (target, fields) in [
        ("/a", ""),
        ("/a", "Accept-Encoding: gzip\r\n"),
        ("/empty", ""),
        ("/none", ""),
        ("/folder", ""),
        ("/folder/", ""),
    ] {
        let (get, head) = (server.get(target, fields), server.ask("HEAD", target, fields));
        assert!(head.body.is_empty() && head.status == get.status, "{target}");
        for name in [
            "Content-Length",
            "Content-Type",
            "Content-Encoding",
            "ETag",
            "Last-Modified",
            "Vary",
            "Location",
        ] {
            assert_eq!(head.field(name), get.field(name), "{target} {name}");
        }
        let bytes = server.send(
            format!("HEAD {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        assert!(bytes.ends_with(b"\r\n\r\n"), "{target}");
    }
}

#[test]
fn a_whole_uri_is_a_target_too_and_its_host_counts() {
    let server = server();
    for target in ["http://y/a", "HTTP://y:80/a", "https://[::1]/a?b"] {
        assert_eq!(server.get(target, "").body, CONTENT, "{target}");
    }
}

#[test]
fn an_authority_ends_at_a_query_and_a_target_has_no_fragment() {
    let server = server();
    // The folder, not the file behind the slash of the query.
    assert_eq!(
        server.get("http://x?b/a", "").field("Content-Type"),
        Some("text/html; charset=utf-8")
    );
    for target in ["http://x#/a", "/a#b", "/a?b#c"] {
        assert_eq!(server.get(target, "").status, 400, "{target}");
    }
}

#[test]
fn a_uri_without_a_host_or_with_a_user_is_400() {
    let server = server();
    for target in ["http:///a", "http://", "http://:80/a", "http://user@x/a", "http://u:p@x/a"] {
        assert_eq!(server.get(target, "").status, 400, "{target}");
    }
}

#[test]
fn a_folders_redirect_keeps_the_query() {
    let answer = server().get("/folder?q=1&r=%20", "");
    assert_eq!((answer.status, answer.field("Location")), (301, Some("/folder/?q=1&r=%20")));
}
