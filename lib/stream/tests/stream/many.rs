//! Many streams over one pair of byte streams.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread;

use kumiki_stream::{Incoming, Kind, Link, Message, Mux, MuxLink, Side, Stream, relay};

fn side(side: Side, most: usize, stream: UnixStream) -> (Mux, Incoming) {
    let writer = stream.try_clone().unwrap();
    Mux::over(side, most, stream, writer).unwrap()
}

/// The two sides.
fn sides() -> ((Mux, Incoming), (Mux, Incoming)) {
    let (a, b) = UnixStream::pair().unwrap();
    (side(Side::Near, 1, a), side(Side::Far, 256, b))
}

fn next<L: Link>(stream: &mut Stream<L>) -> Result<Message, L::Error> {
    loop {
        match stream.receive()? {
            Some(message) => return Ok(message),
            None => stream.link().wait(&[], None)?,
        }
    }
}

/// Sends back what comes, until the stream is closed.
fn echo(link: MuxLink) {
    let mut stream = Stream::new(link);
    while let Ok(message) = next(&mut stream) {
        match message {
            Message::Data(_, bytes) => {
                while stream.room() < bytes.len() {
                    assert_eq!(stream.receive().unwrap(), None);
                    if stream.room() < bytes.len() {
                        stream.link().wait(&[], None).unwrap();
                    }
                }
                stream.send_data(Kind::Output, &bytes).unwrap();
                stream.passed_on(bytes.len()).unwrap();
            }
            Message::Close(_) => return,
            _ => {}
        }
    }
}

fn echoing(incoming: Incoming) {
    thread::spawn(move || {
        while let Some(link) = incoming.next() {
            thread::spawn(move || echo(link));
        }
    });
}

/// Sends `bytes` and reads as many.
fn round_trip(link: MuxLink, bytes: &[u8]) -> Vec<u8> {
    let mut stream = Stream::new(link);
    let (mut rest, mut seen) = (bytes, Vec::new());
    while seen.len() < bytes.len() {
        let room = stream.room().min(rest.len());
        if room > 0 {
            stream.send_data(Kind::Input, &rest[..room]).unwrap();
            rest = &rest[room..];
        }
        match stream.receive().unwrap() {
            Some(Message::Data(_, bytes)) => {
                seen.extend_from_slice(&bytes);
                stream.passed_on(bytes.len()).unwrap();
            }
            Some(_) => {}
            None if rest.is_empty() || stream.room() == 0 => stream.link().wait(&[], None).unwrap(),
            None => {}
        }
    }
    seen
}

#[test]
fn one_that_nobody_reads_holds_up_no_other() {
    let ((near, _none), (_far, incoming)) = sides();
    echoing(incoming);
    // Full in both directions, and never read.
    let mut held = Stream::new(near.open(&()).unwrap());
    while held.room() > 0 {
        held.send_data(Kind::Input, &vec![1; held.room()]).unwrap();
    }
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|n| (n * 7 + n / 251) as u8).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert!(round_trip(near.open(&()).unwrap(), &bytes) == bytes);
            });
        }
    });
    // It goes on where it was.
    let mut seen = 0;
    while seen < 200_000 {
        if let Message::Data(_, bytes) = next(&mut held).unwrap() {
            seen += bytes.len();
        }
    }
}

#[test]
fn a_stream_that_is_dropped_is_closed_and_a_dead_side_ends_all() {
    let (a, b) = UnixStream::pair().unwrap();
    let dead = a.try_clone().unwrap();
    let ((near, _none), (far, incoming)) = (side(Side::Near, 1, a), side(Side::Far, 256, b));
    let link = near.open(&7_u8).unwrap();
    let mut served = Stream::new(incoming.next().unwrap());
    assert_eq!(next(&mut served).unwrap(), Message::Open(vec![7]));
    drop(link);
    assert_eq!(next(&mut served).unwrap(), Message::Close(Vec::new()));
    assert!(next(&mut served).is_err(), "nothing comes behind its end");
    let mut waits = Stream::new(near.open(&()).unwrap());
    let mut served = Stream::new(incoming.next().unwrap());
    let (tell, told) = channel();
    thread::spawn(move || {
        let _ = tell.send(next(&mut waits).map_err(|error| error.to_string()));
    });
    dead.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(told.recv().unwrap(), Err("the other end is gone".to_owned()));
    assert_eq!(next(&mut served).unwrap(), Message::Open(Vec::new()));
    assert!(next(&mut served).is_err());
    assert!(incoming.next().is_none() && incoming.end().is_ok());
    assert!(far.is_over() && far.open(&()).is_err() && near.open(&()).is_err());
}

#[test]
fn what_breaks_the_protocol_ends_the_whole_by_its_name() {
    let header = |stream: u32, kind: u8, length: u32| {
        [&length.to_le_bytes()[..], &stream.to_le_bytes(), &[kind, 0, 0, 0]].concat()
    };
    let open = |number| header(number, 1, 0);
    let many: Vec<u8> = (0..257).flat_map(|n| open(2 * n + 1)).collect();
    let flood: Vec<u8> =
        (0..40).flat_map(|_| [header(1, 2, 16384), vec![0; 16384]].concat()).collect();
    for (bytes, says) in [
        (header(1, 77, 0), "a frame of the unknown kind 77"),
        (open(2), "a stream of the number 2 after 0"),
        ([open(3), open(3)].concat(), "a stream of the number 3 after 3"),
        (many, "one stream more than the 256 that may be open"),
        ([open(1), flood].concat(), "bytes that nobody has taken; 262144 are agreed"),
        (header(1, 2, 20000), "(Input) of 20000 bytes; 16384 are possible"),
        (open(1)[..5].to_vec(), "5 bytes of a header"),
    ] {
        let (mut a, b) = UnixStream::pair().unwrap();
        let (_far, incoming) = side(Side::Far, 256, b);
        // What reads may have ended before all is written.
        let _ = a.write_all(&bytes);
        if says.ends_with("a header") {
            a.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut links = Vec::new();
        while let Some(link) = incoming.next() {
            links.push(link);
        }
        let error = incoming.end().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        // The other side sees the end, too: what was written is lost, or there is no more.
        let _ = a.set_read_timeout(Some(std::time::Duration::from_secs(60)));
        while matches!(a.read(&mut [0; 4096]), Ok(1..)) {}
        assert!(a.write_all(&[0; 12]).is_err(), "{says}");
    }
}

#[test]
fn this_side_s_own_streams_are_bounded() {
    let ((near, _none), (_far, _incoming)) = sides();
    let links: Vec<_> = (0..kumiki_stream::MOST_STREAMS).map(|_| near.open(&()).unwrap()).collect();
    let error = near.open(&()).unwrap_err().to_string();
    assert!(error.contains("256 streams are open"), "{error}");
    drop(links);
    near.open(&()).unwrap();
}

#[test]
fn a_relay_carries_a_stream_on_and_its_end_both_ways() {
    let ((client, _none), (_keeper, asked)) = sides();
    let ((guest, _no), (_agent, incoming)) = sides();
    echoing(incoming);
    let carried = thread::spawn(move || {
        let near = asked.next().unwrap();
        let Some((Kind::Open, body)) = near.receive().unwrap() else { panic!("no opening") };
        relay(&near, &guest.open_with(&body).unwrap())
    });
    let bytes: Vec<u8> = (0..900_000_u32).map(|n| (n * 5) as u8).collect();
    assert!(round_trip(client.open(&()).unwrap(), &bytes) == bytes);
    carried.join().unwrap().unwrap();
}
