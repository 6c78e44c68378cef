//! Any bytes where commands of Redis should be, in one piece and byte by byte.
#![no_main]

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, LazyLock};

use kumiki_kv::dispatch::{Step, here, in_shard, step, watched_are_same};
use kumiki_kv::resp::{Limits, Out, Reader};
use kumiki_kv::session::{Asker, Session};
use kumiki_kv::shard::{Shard, Spec};
use kumiki_kv::shared::{Shared, StartSettings};
use kumiki_kv::store::Hash;
use kumiki_kv::transaction::{exec, may_watch, watch};

const MEMORY: usize = 1 << 20;
const NOW: u64 = 1_700_000_000_000;
/// Bytes of an answer, at most.
const MOST: usize = 64 << 10;

static HASH: LazyLock<Hash> = LazyLock::new(Hash::default);
static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let mut settings = StartSettings::default();
    (settings.workers, settings.memory) = (1, 8 * MEMORY);
    (settings.clients, settings.longest) = (10, 4096);
    Shared::new(settings).expect("it has no file to read")
});

/// What a server answers to these; `None` where time or chance have a say.
fn answers(pieces: &mut dyn Iterator<Item = &[u8]>) -> Option<Vec<u8>> {
    let limit = Arc::new(AtomicUsize::new(MEMORY));
    let spec = Spec { number: 0, of: 1, limit, longest: 4096, hash: HASH.clone() };
    let (mut reader, mut shard, mut out) = (Reader::default(), Shard::new(spec), Out::default());
    let (mut session, mut rest) = (Session::new(1, NOW, true), Vec::new());
    shard.random = 7;
    for piece in pieces {
        rest.extend_from_slice(piece);
        loop {
            let limits = Limits { word: 4096, command: 16 << 10, is_stranger: !session.is_known };
            match reader.next(&rest, limits) {
                Ok(true) => {}
                Ok(false) => break,
                Err(wrong) => {
                    out.error(&wrong.to_string());
                    return Some(out.bytes);
                }
            }
            let words = reader.words(&rest);
            let start = out.bytes.len();
            session.begins();
            match step(words, &mut session, &mut out, 1, |_| 0) {
                Step::Answered => {}
                Step::Shards(row) => {
                    let asker = Asker { id: 1, follows: false };
                    in_shard(row, words, &mut shard, asker, NOW, &mut out, MOST);
                }
                // What it follows is told by other clients' commands, of which there are none.
                Step::Track => return None,
                Step::Here(row, _) if ["info", "time", "config|set"].contains(&row.name) => return None,
                Step::Here(_, run) => here(run, words, &mut session, &SHARED, NOW, &mut out, MOST),
                Step::Unwatch(_, run) => {
                    let watched = session.take_watched();
                    watched_are_same(&watched, &mut shard, NOW);
                    here(run, words, &mut session, &SHARED, NOW, &mut out, MOST);
                }
                Step::Watch if !may_watch(words, &session, MEMORY, &mut out) => {}
                Step::Watch => watch(words, &mut session, &mut shard, NOW, &mut out),
                Step::Exec => _ = exec(&mut session, &mut shard, &SHARED, NOW, &mut out, MOST),
            }
            if !session.answers() {
                out.bytes.truncate(start);
            }
            assert!(shard.keys.bytes() <= MEMORY);
            assert!(out.bytes.len() - start <= 2 * MOST + (64 << 10));
            if session.ends || session.is_cut {
                return Some(out.bytes);
            }
        }
        let start = reader.rest();
        rest.drain(..start);
    }
    Some(out.bytes)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(whole) = answers(&mut std::iter::once(bytes)) {
        assert_eq!(Some(whole), answers(&mut bytes.chunks(1)));
    }
});
