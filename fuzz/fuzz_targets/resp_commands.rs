//! Any bytes where commands of Redis should be, in one piece and byte by byte.
#![no_main]

use kumiki_kv::command::plan;
use kumiki_kv::resp::{Limits, Reader};
use kumiki_kv::shard::{Op, Shard};

const LIMITS: Limits = Limits { word: 4096, command: 16 << 10 };

/// What a shard answers to these.
fn answers(pieces: &mut dyn Iterator<Item = &[u8]>) -> Vec<u8> {
    let (mut reader, mut shard, mut out) = (Reader::default(), Shard::new(1 << 20), Vec::new());
    for piece in pieces {
        reader.push(piece);
        loop {
            match reader.next(LIMITS) {
                Ok(true) => {
                    let mut ops: Vec<Op<&[u8]>> = Vec::new();
                    plan(reader.words(), 1000, |op| ops.push(op), &mut out);
                    ops.into_iter().for_each(|op| shard.run(op, 1000, &mut out));
                }
                Ok(false) => break,
                Err(wrong) => {
                    out.extend(wrong.to_string().into_bytes());
                    return out;
                }
            }
        }
        assert!(shard.bytes() <= 1 << 20);
    }
    out
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    assert_eq!(answers(&mut std::iter::once(bytes)), answers(&mut bytes.chunks(1)));
});
