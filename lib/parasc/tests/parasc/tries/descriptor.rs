//! One descriptor for an event loop.

use std::io::Write;
use std::time::Duration;

use kumiki_parasc::op::{CWD, Openat, Read};
use kumiki_parasc::{Completions, Config, Engine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

use super::engine;

fn is_readable<F: Future>(completions: &Completions<F>, patience: Duration) -> bool {
    let timeout = Timespec::try_from(patience).unwrap();
    let mut asked = [PollFd::new(completions, PollFlags::IN)];
    poll(&mut asked, Some(&timeout)).unwrap() == 1
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_descriptor_is_readable_while_something_has_ended_and_not_else() {
    let engine = engine();
    let mut completions = Completions::new().unwrap();
    assert!(!is_readable(&completions, Duration::ZERO) && completions.is_empty());
    let mut pipes = Vec::new();
    for _ in 0..20 {
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let read = engine.attempt(Read::new(reader, vec![0; 8].into_boxed_slice()));
        pipes.push((completions.add(read), writer));
    }
    assert!(!is_readable(&completions, Duration::from_millis(20)));
    assert_eq!(completions.take().count(), 0);
    for (at, (key, mut writer)) in pipes.into_iter().enumerate() {
        writer.write_all(&[at as u8]).unwrap();
        let mut ended = Vec::new();
        while ended.is_empty() {
            assert!(is_readable(&completions, LONG));
            ended.extend(completions.take());
        }
        let (its, outcome) = ended.pop().unwrap();
        assert!(its == key && ended.is_empty());
        assert_eq!(outcome.unwrap().operation.filled(), [at as u8]);
        assert!(!is_readable(&completions, Duration::ZERO));
    }
    assert!(completions.is_empty());
}

/// Others end requests while the descriptor is read, its flag cleared, the list taken: with the wrong
/// order of these it stood still after 900 to 20,000 requests.
#[test]
fn the_descriptor_alone_tells_of_all_that_end_meanwhile() {
    const UNDER_WAY: usize = 16;
    const REQUESTS: usize = 60_000;
    let engine = engine();
    let open = || Openat::new(CWD, c"/etc/passwd".to_owned(), OFlags::RDONLY, Mode::empty());
    let mut completions = Completions::new().unwrap();
    let (mut added, mut ended) = (0, 0);
    while ended < REQUESTS {
        while completions.len() < UNDER_WAY && added < REQUESTS {
            completions.add(engine.submit(open()));
            added += 1;
        }
        assert!(
            is_readable(&completions, LONG),
            "{ended} have ended, and then none of {} for a minute; asked without the descriptor, \
             {} have",
            completions.len(),
            completions.take().count(),
        );
        for (_, outcome) in completions.take() {
            outcome.unwrap().output.unwrap();
            ended += 1;
        }
    }
    assert!(completions.is_empty() && !is_readable(&completions, Duration::ZERO));
}

#[test]
fn what_was_made_at_once_is_told_too_and_what_is_given_up_is_not() {
    let engine = engine();
    let mut completions = Completions::new().unwrap();
    let (reader, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
    writer.write_all(b"x").unwrap();
    let key = completions.add(engine.attempt(Read::new(reader, [0; 1])));
    assert!(is_readable(&completions, LONG));
    let mut ended: Vec<_> = Vec::new();
    while ended.is_empty() {
        is_readable(&completions, LONG);
        ended.extend(completions.take());
    }
    assert_eq!(ended[0].0, key);
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let key = completions.add(engine.attempt(Read::new(reader, [0; 1])));
    assert_eq!(completions.len(), 1);
    assert!(completions.give_up(key) && !completions.give_up(key));
    drop(writer);
    assert_eq!((completions.take().count(), completions.len()), (0, 0));
}

#[test]
fn an_engine_that_ends_tells_of_all_that_was_left() {
    let engine = Engine::new(&Config { threads: 1, ..Config::default() }).unwrap();
    let mut completions = Completions::new().unwrap();
    let pipes: Vec<_> = (0..8).map(|_| kumiki_sys::descriptors::pipe().unwrap()).collect();
    for (reader, _) in &pipes {
        let read = Read::new(reader.try_clone().unwrap(), vec![0; 1].into_boxed_slice());
        completions.add(engine.attempt(read));
    }
    engine.shut_down_timeout(Duration::ZERO);
    let (mut made, mut failed) = (0, 0);
    drop(pipes);
    while !completions.is_empty() {
        assert!(is_readable(&completions, LONG));
        for (_, outcome) in completions.take() {
            *(if outcome.is_ok() { &mut made } else { &mut failed }) += 1;
        }
    }
    assert_eq!(made + failed, 8);
}
