//! What a machine may send instead of frames: for the fuzzer and its twin among the
//! tests. Its first process is ours; whoever has become root there writes to the port, too.

use crate::frame::Frame;

/// Reads frames until they are none.
///
/// # Panics
///
/// If one is read that cannot be written as the same.
pub fn frames(mut bytes: &[u8]) {
    while let Ok(Some(frame)) = Frame::read(&mut bytes) {
        let mut written = Vec::new();
        frame.write(&mut written).expect("what was read is within the limit");
        let again = Frame::read(written.as_slice()).expect("what was written is a frame");
        assert_eq!(again, Some(frame));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{Exit, Message, Start};

    fn sent(text: &[u8]) -> Vec<u8> {
        let start = Start { words: vec![text.to_vec()], ..Start::default() };
        let messages = [
            Message::Start(start),
            Message::Output(text.to_vec()),
            Message::Failed(1, String::from_utf8_lossy(text).into_owned()),
            Message::Ended(Exit::Code(0)),
        ];
        let mut bytes = Vec::new();
        for (stream, message) in (0..).zip(messages) {
            Frame { stream, message }.write(&mut bytes).unwrap();
        }
        bytes
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_refused(bytes in any::<Vec<u8>>()) {
            frames(&bytes);
        }

        #[test]
        fn any_damage_is_read_or_refused(
            text in any::<Vec<u8>>(), at in any::<prop::sample::Index>(),
            with in any::<Vec<u8>>(), cut in 0..9_usize,
        ) {
            let mut bytes = sent(&text);
            let at = at.index(bytes.len());
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, with);
            frames(&bytes);
        }
    }
}
