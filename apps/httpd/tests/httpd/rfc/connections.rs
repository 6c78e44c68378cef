//! How connections go on, and end.

use super::{CONTENT, answers, server};

#[test]
fn a_connection_goes_on_as_version_and_client_say() {
    let server = server();
    let count = |first: &str| {
        let second = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        answers(&server, format!("{first}{second}").as_bytes()).len()
    };
    assert_eq!(count("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), 2);
    assert_eq!(count("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 2);
    assert_eq!(count("GET /a HTTP/1.0\r\n\r\n"), 1);
    assert_eq!(count("GET /a HTTP/1.1\r\nHost: x\r\nConnection: x, CLOSE\r\n\r\n"), 1);
    assert_eq!(
        count("GET /a HTTP/1.1\r\nHost: x\r\nConnection: x\r\nConnection: close\r\n\r\n"),
        1
    );
}

#[test]
fn a_last_answer_says_so_and_what_follows_is_not_done() {
    let closing = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /empty HTTP/1.1\r\nHost: x\r\n\r\n";
    let answers = answers(&server(), closing);
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].field("Connection"), &answers[0].body[..]), (Some("close"), CONTENT));
}

#[test]
fn requests_in_a_row_are_answered_in_theirs() {
    let mut requests = String::new();
    for at in 0..30 {
        let target = ["/a", "/empty", "/none"][at % 3];
        let last = if at == 29 { "Connection: close\r\n" } else { "" };
        requests += &format!("GET {target} HTTP/1.1\r\nHost: x\r\n{last}\r\n");
    }
    let answers = answers(&server(), requests.as_bytes());
    assert_eq!(answers.len(), 30);
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, [200, 200, 404][at % 3], "{at}");
        assert_eq!(answer.body == CONTENT, at % 3 == 0, "{at}");
    }
}

#[test]
fn a_body_that_is_not_read_ends_the_connection() {
    let server = server();
    let hidden = "GET /empty HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = hidden.len();
    for method in ["GET", "HEAD", "POST", "BREW"] {
        let head = format!("{method} /a HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        let bytes = server.send(format!("{head}{hidden}").as_bytes());
        let count = bytes.windows(9).filter(|nine| *nine == b"HTTP/1.1 ").count();
        assert_eq!(count, 1, "{method}");
    }
}

#[test]
fn what_does_not_come_in_time_is_408_and_the_end() {
    let server = crate::scene::Server::start(&["--head-time", "1"]);
    let mut stream = server.connect();
    std::io::Write::write_all(&mut stream, b"GET /a HTTP/1.1\r\nHos").unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
    let (answer, rest) = crate::scene::Answer::parse(&bytes, false);
    assert_eq!((answer.status, answer.field("Connection")), (408, Some("close")));
    assert!(rest.is_empty());
}
