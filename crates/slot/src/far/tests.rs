//! A line between two sides of one process, and what a side that keeps to nothing can do to the other.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

type Memory = Arc<[AtomicU64]>;

fn memory(words: usize) -> Memory {
    (0..words).map(|_| AtomicU64::new(u64::MAX)).collect()
}

fn line(words: usize, first: u32) -> (Memory, Caller<Memory>, Server<Memory>) {
    let memory = memory(words);
    let caller = Caller::new(Arc::clone(&memory), first);
    (Arc::clone(&memory), caller, Server::new(memory, first))
}

proptest! {
    #[test]
    fn bytes_of_every_length_go_and_come(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..130), 1..20),
    ) {
        let (_, mut caller, mut server) = line(BYTES + 17, 1);
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        for (n, message) in messages.iter().enumerate() {
            prop_assert!(!server.asked(&mut request).unwrap());
            prop_assert!(!caller.ask(message));
            prop_assert_eq!(caller.answered(&mut reply), Ok(None));
            prop_assert!(server.has_news() && server.asked(&mut request).unwrap());
            prop_assert_eq!(&request, message);
            let turned: Vec<u8> = message.iter().rev().copied().collect();
            let answered = if n % 2 == 0 { Answered::Answer } else { Answered::Refusal };
            prop_assert!(!server.answer(answered, &turned));
            prop_assert!(!server.has_news());
            prop_assert_eq!(caller.answered(&mut reply), Ok(Some(answered)));
            prop_assert_eq!(&reply, &turned);
        }
    }

    #[test]
    fn whatever_the_other_side_writes_is_taken_as_it_may_be_or_breaks_the_line(
        word: u64, asked in 1..5_u32, state in 0..5_u64, length in 0..200_usize, near: bool,
    ) {
        let (memory, mut caller, mut server) = line(BYTES + 17, 1);
        let (room, mut bytes) = (caller.room(), Vec::new());
        for _ in 1..asked {
            let _ = caller.ask(b"a");
            prop_assert!(server.asked(&mut bytes).unwrap());
            let _ = server.answer(Answered::Answer, b"b");
        }
        // Near what may be, or anything.
        let word = if near { status(asked, state, length) } else { word };
        let number = (word >> 32) as u32;
        let is_fit = number == asked && (word >> 8 & 0xff_ffff) as usize <= room;
        memory[STATUS].store(word, Ordering::Relaxed);
        let is_own = word == server.own;
        match server.asked(&mut bytes) {
            Ok(true) => prop_assert!(is_fit && word & 0xff == REQUEST && bytes.len() <= room),
            Ok(false) => prop_assert!(is_own),
            Err(broken) => prop_assert!(
                broken.status == word && !(is_fit && word & 0xff == REQUEST)
            ),
        }
        let _ = caller.ask(b"a");
        memory[STATUS].store(word, Ordering::Relaxed);
        let is_answer = [ANSWER, REFUSAL].contains(&(word & 0xff));
        match caller.answered(&mut bytes) {
            Ok(Some(_)) => prop_assert!(is_fit && is_answer && bytes.len() <= room),
            Ok(None) => prop_assert!(word == caller.own),
            Err(_) => prop_assert!(!(is_fit && is_answer)),
        }
    }
}

#[test]
fn who_sleeps_is_to_be_woken() {
    let (_, mut caller, mut server) = line(BYTES + 1, 1);
    let mut bytes = Vec::new();
    server.sleeps(true);
    assert!(!server.has_news() && caller.ask(b"a"));
    server.sleeps(false);
    assert!(server.asked(&mut bytes).unwrap());
    caller.sleeps(true);
    assert!(server.answer(Answered::Answer, b""));
    caller.sleeps(false);
    assert_eq!(caller.answered(&mut bytes), Ok(Some(Answered::Answer)));
    assert!(!caller.ask(b"a"));
}

#[test]
fn numbers_go_round() {
    let (_, mut caller, mut server) = line(BYTES + 1, u32::MAX);
    let mut bytes = Vec::new();
    for _ in 0..3 {
        let _ = caller.ask(b"a");
        assert!(server.asked(&mut bytes).unwrap());
        let _ = server.answer(Answered::Answer, b"");
        assert_eq!(caller.answered(&mut bytes), Ok(Some(Answered::Answer)));
    }
    assert_eq!((caller.number, server.number), (1, 1));
}

#[test]
fn who_still_serves_what_was_there_before_takes_nothing() {
    let (memory, mut caller, mut old) = line(BYTES + 1, 7);
    let mut bytes = Vec::new();
    for _ in 0..3 {
        let _ = caller.ask(b"a");
        assert!(old.asked(&mut bytes).unwrap());
        let _ = old.answer(Answered::Answer, b"");
    }
    let mut caller = Caller::new(memory, 1 << 20);
    assert!(old.asked(&mut bytes).is_err(), "it is empty now");
    let _ = caller.ask(b"a");
    assert!(old.asked(&mut bytes).is_err());
}

#[test]
#[should_panic(expected = "a message of 9 bytes")]
fn nothing_longer_than_the_room_is_asked() {
    let (_, mut caller, _) = line(BYTES + 1, 1);
    let _ = caller.ask(&[0; 9]);
}
