//! Validators and conditional requests.

use super::{CONTENT, server};
use crate::scene::Server;

const BEFORE: &str = "Sat, 05 Nov 1994 08:49:37 GMT";
const LAST: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

fn tag(server: &Server) -> String {
    server.get("/a", "").field("ETag").unwrap().to_owned()
}

fn status(server: &Server, fields: &str) -> u16 {
    let get = server.get("/a", fields);
    assert_eq!(server.ask("HEAD", "/a", fields).status, get.status, "{fields}");
    assert_eq!(get.body == CONTENT, get.status == 200, "{fields}");
    get.status
}

/// Also where size and time of modification stay as they were, as of a package's files.
#[test]
fn a_tag_changes_with_the_content() {
    let server = server();
    let first = tag(&server);
    assert!(first.starts_with('"') && first.ends_with('"'), "{first}");
    let old = std::fs::metadata(server.path("a")).unwrap().modified().unwrap();
    let new = server.path("new");
    std::fs::write(&new, b"9876543210").unwrap();
    std::fs::File::options().write(true).open(&new).unwrap().set_modified(old).unwrap();
    std::fs::rename(&new, server.path("a")).unwrap();
    let answer = server.get("/a", &format!("If-None-Match: {first}\r\n"));
    assert_eq!((answer.status, &answer.body[..]), (200, &b"9876543210"[..]));
    assert_eq!(answer.field("Last-Modified"), Some(LAST));
    let mixed = server.get("/a", &format!("Range: bytes=5-\r\nIf-Range: {first}\r\n"));
    assert_eq!(mixed.status, 200);
}

#[test]
fn variants_have_tags_of_their_own() {
    let server = server();
    // One file by two names: all that is known of them is the same.
    std::fs::hard_link(server.path("a.gz"), server.path("a.br")).unwrap();
    let of = |accepted: &str| {
        let answer = server.get("/a", &format!("Accept-Encoding: {accepted}\r\n"));
        answer.field("ETag").unwrap().to_owned()
    };
    let (plain, gzip, brotli) = (of("identity"), of("gzip"), of("br"));
    assert!(plain != gzip && gzip != brotli && plain != brotli, "{plain} {gzip} {brotli}");
    let answer = server.get("/a", &format!("Accept-Encoding: br\r\nIf-None-Match: {gzip}\r\n"));
    assert_eq!(answer.status, 200);
}

#[test]
fn if_match_is_strong_and_fails_by_412() {
    let server = server();
    let tag = tag(&server);
    assert_eq!(status(&server, &format!("If-Match: {tag}\r\n")), 200);
    assert_eq!(status(&server, "If-Match: *\r\n"), 200);
    assert_eq!(status(&server, &format!("If-Match: W/{tag}\r\n")), 412);
    assert_eq!(status(&server, "If-Match: \"x\"\r\n"), 412);
    assert_eq!(server.get("/none", "If-Match: *\r\n").status, 404);
}

#[test]
fn if_none_match_is_weak_and_answered_by_304() {
    let server = server();
    let tag = tag(&server);
    for tags in [tag.clone(), format!("W/{tag}"), "*".to_owned(), format!("\"x\" , {tag}")] {
        assert_eq!(status(&server, &format!("If-None-Match: {tags}\r\n")), 304, "{tags}");
    }
    for tags in ["\"x\"", "\"x,*,y\""] {
        assert_eq!(status(&server, &format!("If-None-Match: {tags}\r\n")), 200, "{tags}");
    }
}

#[test]
fn lines_of_a_list_count_together() {
    let server = server();
    let tag = tag(&server);
    for (name, status_then) in [("If-None-Match", 304), ("If-Match", 200)] {
        for lines in [
            format!("{name}: \"x\"\r\n{name}: {tag}\r\n"),
            format!("{name}: {tag}\r\n{name}: \"x\"\r\n"),
        ] {
            assert_eq!(status(&server, &lines), status_then, "{lines}");
        }
    }
}

#[test]
fn if_modified_since_counts_without_tags_and_as_a_date() {
    let server = server();
    assert_eq!(status(&server, &format!("If-Modified-Since: {LAST}\r\n")), 304);
    assert_eq!(status(&server, &format!("If-Modified-Since: {BEFORE}\r\n")), 200);
    assert_eq!(status(&server, "If-Modified-Since: yesterday\r\n"), 200);
    assert_eq!(
        status(&server, &format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {LAST}\r\n")),
        200
    );
}

#[test]
fn if_unmodified_since_counts_without_tags_and_as_a_date() {
    let server = server();
    assert_eq!(status(&server, &format!("If-Unmodified-Since: {LAST}\r\n")), 200);
    assert_eq!(status(&server, &format!("If-Unmodified-Since: {BEFORE}\r\n")), 412);
    assert_eq!(status(&server, "If-Unmodified-Since: yesterday\r\n"), 200);
    let tag = tag(&server);
    assert_eq!(
        status(&server, &format!("If-Match: {tag}\r\nIf-Unmodified-Since: {BEFORE}\r\n")),
        200
    );
}

#[test]
fn a_date_that_says_nothing_is_none() {
    let server = server();
    let file = std::fs::File::options().write(true).open(server.path("a")).unwrap();
    // As a package manager has it that wants all trees alike.
    let first = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
    file.set_modified(first).unwrap();
    let answer = server.get("/a", "");
    assert!(answer.field("Last-Modified").is_none() && answer.field("ETag").is_some());
    assert_eq!(status(&server, "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n"), 200);
    assert_eq!(status(&server, "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n"), 200);
}

#[test]
fn conditions_are_judged_in_their_order() {
    let server = server();
    let tag = tag(&server);
    assert_eq!(status(&server, &format!("If-Match: \"x\"\r\nIf-None-Match: {tag}\r\n")), 412);
    assert_eq!(status(&server, &format!("If-Match: {tag}\r\nIf-None-Match: {tag}\r\n")), 304);
    assert_eq!(
        status(&server, &format!("If-Unmodified-Since: {BEFORE}\r\nIf-None-Match: {tag}\r\n")),
        412
    );
    let answer = server.get("/a", &format!("If-None-Match: {tag}\r\nRange: bytes=99-\r\n"));
    assert_eq!(answer.status, 304);
    // A request that would fail without them is answered as it would be.
    assert_eq!(server.get("/none", "If-None-Match: *\r\n").status, 404);
}

#[test]
fn a_304_has_what_a_cache_needs_and_no_body() {
    let server = server();
    let whole = server.get("/a", "");
    let answer = server.get("/a", "If-None-Match: *\r\n");
    for name in ["ETag", "Vary"] {
        assert!(answer.field(name).is_some() && answer.field(name) == whole.field(name), "{name}");
    }
    for name in ["Content-Length", "Content-Type", "Last-Modified", "Transfer-Encoding"] {
        assert_eq!(answer.field(name), None, "{name}");
    }
    let bytes =
        server.send(b"GET /a HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\nConnection: close\r\n\r\n");
    assert!(bytes.ends_with(b"\r\n\r\n"));
}
