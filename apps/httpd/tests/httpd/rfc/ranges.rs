//! Parts of files.

use super::{CONTENT, server};

#[test]
fn a_part_is_206_with_where_it_is() {
    let server = server();
    let whole = server.get("/a", "");
    let answer = server.get("/a", "Range: bytes=2-4\r\n");
    assert_eq!((answer.status, &answer.body[..]), (206, &CONTENT[2..5]));
    assert_eq!(answer.field("Content-Range"), Some("bytes 2-4/10"));
    for name in ["ETag", "Vary"] {
        assert!(answer.field(name).is_some() && answer.field(name) == whole.field(name), "{name}");
    }
}

#[test]
fn a_part_ends_where_the_file_does() {
    let server = server();
    let beyond = "99999999999999999999";
    for (range, part) in [
        ("8-".to_owned(), 8..10),
        ("8-100".to_owned(), 8..10),
        (format!("8-{beyond}"), 8..10),
        ("-3".to_owned(), 7..10),
        ("-100".to_owned(), 0..10),
        (format!("-{beyond}"), 0..10),
    ] {
        let answer = server.get("/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!((answer.status, &answer.body[..]), (206, &CONTENT[part]), "{range}");
    }
}

#[test]
fn a_range_that_is_none_is_passed_over() {
    let server = server();
    for range in ["bytes=4-2", "bytes=a-b", "bytes=-", "bytes", "bytes=", "lines=0-1", "bytes=+1-2"]
    {
        let answer = server.get("/a", &format!("Range: {range}\r\n"));
        assert_eq!((answer.status, &answer.body[..]), (200, CONTENT), "{range}");
    }
}

#[test]
fn a_list_of_one_may_have_empty_elements() {
    let server = server();
    for range in ["0-1,", ",0-1", " , ,0-1 , "] {
        let answer = server.get("/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!((answer.status, &answer.body[..]), (206, &CONTENT[..2]), "{range}");
    }
}

#[test]
fn several_parts_are_answered_by_the_whole() {
    let answer = server().get("/a", "Range: bytes=0-1,4-5\r\n");
    assert_eq!((answer.status, &answer.body[..]), (200, CONTENT));
}

#[test]
fn what_the_file_has_none_of_is_416_with_its_length() {
    let server = server();
    for range in ["10-", "10-20", "-0", "99999999999999999999-"] {
        let answer = server.get("/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!(
            (answer.status, answer.field("Content-Range")),
            (416, Some("bytes */10")),
            "{range}"
        );
    }
    for range in ["0-", "0-0", "99999999999999999999-"] {
        assert_eq!(
            server.get("/empty", &format!("Range: bytes={range}\r\n")).status,
            416,
            "{range}"
        );
    }
}

#[test]
fn the_last_bytes_of_an_empty_file_are_all_of_it() {
    let answer = server().get("/empty", "Range: bytes=-5\r\n");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}

#[test]
fn a_range_means_nothing_to_head() {
    let server = server();
    for range in ["0-1", "99-"] {
        let answer = server.ask("HEAD", "/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!((answer.status, answer.field("Content-Length")), (200, Some("10")), "{range}");
        assert_eq!(answer.field("Content-Range"), None);
    }
}

#[test]
fn a_range_of_another_version_is_the_whole() {
    let server = server();
    let tag = server.get("/a", "").field("ETag").unwrap().to_owned();
    let part = |validator: &str, range: &str| {
        let fields = format!("Range: bytes={range}\r\nIf-Range: {validator}\r\n");
        server.get("/a", &fields).status
    };
    assert_eq!(part(&tag, "0-1"), 206);
    assert_eq!(part(&format!("W/{tag}"), "0-1"), 200);
    assert_eq!(part("\"x\"", "0-1"), 200);
    assert_eq!(part("\"x\"", "99-"), 200);
    // The file was given its date: another version may have it, too.
    assert_eq!(part("Sun, 06 Nov 1994 08:49:37 GMT", "0-1"), 200);
    // Without a range it means nothing.
    assert_eq!(server.get("/a", "If-Range: \"x\"\r\n").status, 200);
}
