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
        messages in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..130)), 1..20),
    ) {
        let (_, mut caller, mut server) = line(BYTES + 17, 1);
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        for (n, (head, message)) in messages.iter().enumerate() {
            prop_assert_eq!(server.asked().unwrap(), None);
            prop_assert!(!caller.ask(*head, message));
            prop_assert_eq!(caller.answered(), Ok(None));
            prop_assert!(server.has_news());
            let asked = server.asked().unwrap().unwrap();
            server.read(&asked, &mut request);
            prop_assert_eq!((asked.head, &request), (*head, message));
            let turned: Vec<u8> = message.iter().rev().copied().collect();
            let answered = if n % 2 == 0 { Answered::Answer } else { Answered::Refusal };
            prop_assert!(!server.answer(answered, !head, &turned));
            prop_assert!(!server.has_news());
            let (what, its) = caller.answered().unwrap().unwrap();
            caller.read(&its, &mut reply);
            prop_assert_eq!((what, its.head, &reply), (answered, !head, &turned));
            prop_assert_eq!(its.is_word(), turned.len() == 8);
        }
    }

    #[test]
    fn a_word_is_eight_bytes(words in prop::collection::vec(any::<[u64; 2]>(), 1..20)) {
        let (_, mut caller, mut server) = line(LEAST, 1);
        let mut bytes = Vec::new();
        for [head, word] in words {
            prop_assert!(!caller.ask_word(head, word));
            let asked = server.asked().unwrap().unwrap();
            server.read(&asked, &mut bytes);
            prop_assert!(asked.is_word() && bytes == word.to_le_bytes());
            prop_assert_eq!((asked.head, asked.word), (head, word));
            prop_assert!(!server.answer_word(word, head));
            let (answered, its) = caller.answered().unwrap().unwrap();
            prop_assert_eq!((answered, its.head, its.word), (Answered::Answer, word, head));
            prop_assert!(its.is_word());
        }
    }

    #[test]
    fn whatever_the_other_side_writes_is_taken_as_it_may_be_or_breaks_the_line(
        word: u64, asked in 1..5_u32, state in 0..5_u64, length in 0..200_usize, near: bool,
    ) {
        let (memory, mut caller, mut server) = line(BYTES + 17, 1);
        let room = caller.room();
        for _ in 1..asked {
            let _ = caller.ask(0, b"a");
            prop_assert!(server.asked().unwrap().is_some());
            let _ = server.answer(Answered::Answer, 0, b"b");
        }
        // Near what may be, or anything.
        let word = if near { status(asked, state, length) } else { word };
        let number = (word >> 32) as u32;
        let is_fit = number == asked && (word >> 8 & 0xff_ffff) as usize <= room;
        memory[STATUS].store(word, Ordering::Relaxed);
        let is_own = word == server.own;
        match server.asked() {
            Ok(Some(message)) => {
                prop_assert!(is_fit && word & 0xff == REQUEST && message.length <= room);
            }
            Ok(None) => prop_assert!(is_own),
            Err(broken) => prop_assert!(
                broken.status == word && !(is_fit && word & 0xff == REQUEST)
            ),
        }
        let _ = caller.ask(0, b"a");
        memory[STATUS].store(word, Ordering::Relaxed);
        let is_answer = [ANSWER, REFUSAL].contains(&(word & 0xff));
        match caller.answered() {
            Ok(Some((_, message))) => prop_assert!(is_fit && is_answer && message.length <= room),
            Ok(None) => prop_assert!(word == caller.own),
            Err(_) => prop_assert!(!(is_fit && is_answer)),
        }
    }
}

#[test]
fn who_sleeps_is_to_be_woken() {
    let (_, mut caller, mut server) = line(LEAST, 1);
    server.sleeps(true);
    assert!(!server.has_news() && caller.ask(0, b"a"));
    server.sleeps(false);
    assert!(server.asked().unwrap().is_some());
    caller.sleeps(true);
    assert!(server.answer(Answered::Answer, 0, b""));
    caller.sleeps(false);
    assert!(caller.answered().unwrap().is_some());
    assert!(!caller.ask_word(0, 0));
    caller.sleeps(true);
    assert!(server.asked().unwrap().is_some() && server.answer_word(0, 0));
    server.sleeps(true);
    assert!(caller.answered().unwrap().is_some() && caller.ask_word(0, 0));
}

/// One request and its answer.
fn once(caller: &mut Caller<Memory>, server: &mut Server<Memory>) {
    let _ = caller.ask(0, b"a");
    assert!(server.asked().unwrap().is_some());
    let _ = server.answer(Answered::Answer, 0, b"");
    assert!(matches!(caller.answered(), Ok(Some((Answered::Answer, _)))));
}

#[test]
fn numbers_go_round() {
    let (_, mut caller, mut server) = line(LEAST, u32::MAX);
    (0..3).for_each(|_| once(&mut caller, &mut server));
    assert_eq!((caller.number, server.number), (1, 1));
}

#[test]
fn who_still_serves_what_was_there_before_takes_nothing() {
    let (memory, mut caller, mut old) = line(LEAST, 7);
    (0..3).for_each(|_| once(&mut caller, &mut old));
    let mut caller = Caller::new(memory, 1 << 20);
    assert!(old.asked().is_err(), "it is empty now");
    let _ = caller.ask(0, b"a");
    assert!(old.asked().is_err());
}

#[test]
#[should_panic(expected = "a message of 9 bytes")]
fn nothing_longer_than_the_room_is_asked() {
    let (_, mut caller, _) = line(LEAST, 1);
    let _ = caller.ask(0, &[0; 9]);
}
