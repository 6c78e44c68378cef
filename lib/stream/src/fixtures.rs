//! What the other end may send instead of frames: for the fuzzer and its twin among the tests. In a
//! machine of the lab, and in a node, the other end is whoever has become root there.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::exec::{Ending, Program};
use crate::frame::{Header, Kind, decode};
use crate::link::{Link, Other};
use crate::mux::{Mux, Side};
use crate::stream::{Message, Stream};

/// Window of the link that is drawn from.
const WINDOW: usize = 17 << 10;
/// Streams that the other side may open.
const MOST: usize = 3;

/// Reads frames as all do that read some: by themselves, as those of one stream, and as those of many.
///
/// # Panics
/// If more is taken than credit was given for, or what was read is written in another way.
pub fn frames(bytes: &[u8]) {
    by_themselves(bytes);
    let mut stream = Stream::new(Drawn(RefCell::new(bytes.to_vec())));
    let mut under_way = 0;
    while let Ok(Some(message)) = stream.receive() {
        match message {
            Message::Data(_, bytes) => {
                under_way += bytes.len();
                assert!(under_way <= WINDOW, "{under_way} bytes with a credit of {WINDOW}");
                // Who reads is slow for some.
                if bytes.first().is_none_or(|byte| byte % 2 == 1) {
                    stream.passed_on(bytes.len()).expect("what takes everything takes this");
                    under_way -= bytes.len();
                }
            }
            Message::Open(body) => drop(decode::<Program>(Kind::Open, &body)),
            Message::Close(body) => drop(Ending::of_body(&body)),
            Message::End | Message::Signal(_) | Message::Resize(_) => {}
        }
        assert!(stream.room() <= WINDOW);
    }
    let reader = io::Cursor::new(bytes.to_vec());
    let Ok((_mux, incoming)) = Mux::over(Side::Near, MOST, reader, io::sink()) else { return };
    let mut links = Vec::new();
    while let Some(link) = incoming.next() {
        links.push(link);
    }
    for link in links {
        while let Ok(Some((kind, body))) = link.receive() {
            assert!(body.len() <= kind.most_bytes());
        }
    }
    let _ = incoming.end();
}

fn by_themselves(mut bytes: &[u8]) {
    while let Ok(Some((header, body))) = Header::read(&mut bytes) {
        assert_eq!(body.len(), header.length);
        let again = Header::of(header.stream, header.kind, body.len());
        assert_eq!(again.expect("what was read is within the limit"), header);
        assert_eq!(Header::decode(header.encode()).expect("it was one"), header);
    }
}

/// A link that gives what was drawn and takes everything.
#[derive(Debug)]
struct Drawn(RefCell<Vec<u8>>);

impl Link for Drawn {
    type Error = Error;

    fn window(&self) -> usize {
        WINDOW
    }

    fn send(&self, _: Kind, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn receive(&self) -> Result<Option<(Kind, Vec<u8>)>> {
        let mut bytes = self.0.borrow_mut();
        let mut rest = bytes.as_slice();
        let frame = Header::read(&mut rest)?;
        let taken = bytes.len() - rest.len();
        drop(bytes.drain(..taken));
        Ok(frame.map(|(header, body)| (header.kind, body)))
    }

    fn wait(&self, _: &[Other<'_>], _: Option<Duration>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{KINDS, encode};

    /// A frame of few streams, with a body that mostly says something.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let data = prop::sample::select(vec![Kind::Input, Kind::Output, Kind::Errors]);
        let data = (data, (0..4_u8).prop_map(|many| vec![many; usize::from(many) * 5000]));
        let credit = (0..50_000_u32).prop_map(|number| (Kind::Credit, encode(&number).unwrap()));
        let signal = any::<i32>().prop_map(|number| (Kind::Signal, encode(&number).unwrap()));
        let size = any::<(u16, u16)>().prop_map(|size| (Kind::Resize, encode(&size).unwrap()));
        let other =
            (prop::sample::select(KINDS.to_vec()), prop::collection::vec(any::<u8>(), 0..16));
        let frame = prop_oneof![8 => data, 1 => credit, 1 => signal, 1 => size, 2 => other];
        (0..5_u32, frame).prop_map(|(stream, (kind, body))| {
            let body = &body[..body.len().min(kind.most_bytes())];
            [&Header::of(stream, kind, body.len()).unwrap().encode()[..], body].concat()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_bytes_are_frames_or_refused(bytes in any::<Vec<u8>>()) {
            frames(&bytes);
        }

        #[test]
        fn any_frames_are_taken_or_refused(
            parts in prop::collection::vec(frame(), 0..24), at in any::<prop::sample::Index>(),
            with in prop::option::of(any::<Vec<u8>>()), cut in 0..9_usize,
        ) {
            let mut bytes = parts.concat();
            if let Some(with) = with { if !bytes.is_empty() {
                let at = at.index(bytes.len());
                let end = (at + cut).min(bytes.len());
                bytes.splice(at..end, with);
            } }
            frames(&bytes);
        }
    }
}
