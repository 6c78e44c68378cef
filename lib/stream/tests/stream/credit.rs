//! Credit, against a model: what is under way is within the window, all that was sent arrives, and
//! neither end waits for the other for ever.

use kumiki_stream::{FRAME_COST, Kind, Message, Stream, pair};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends so many bytes, as far as there is room.
    Send(usize),
    /// Takes a frame, if one is there.
    Take,
    /// Passes on the oldest frame that was taken.
    PassOn,
    /// Sends a signal, which costs nothing.
    Signal(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20_000_usize).prop_map(Step::Send),
        2 => (0..3_usize).prop_map(Step::Send),
        4 => Just(Step::Take),
        3 => Just(Step::PassOn),
        1 => (1..65).prop_map(Step::Signal),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_sent_arrives_in_order_and_within_the_window(
        steps in prop::collection::vec(step(), 1..200), window in 200..50_000_usize,
    ) {
        let (near, far) = pair(window).unwrap();
        let (mut near, mut far) = (Stream::new(near), Stream::new(far));
        let (mut sent, mut arrived, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        let (mut signals, mut heard) = (Vec::new(), Vec::new());
        // Cost of what was sent and not passed on.
        let mut under_way = 0;
        let mut take = |far: &mut Stream<_>, taken: &mut Vec<usize>| match far.receive().unwrap() {
            Some(Message::Data(Kind::Input, bytes)) => {
                taken.insert(0, bytes.len());
                arrived.extend(bytes);
                true
            }
            Some(Message::Signal(number)) => {
                heard.push(number);
                true
            }
            Some(other) => panic!("{other:?}"),
            None => false,
        };
        for step in steps {
            match step {
                Step::Send(wanted) => {
                    // Credit is taken as it comes.
                    prop_assert_eq!(near.receive().unwrap(), None);
                    let bytes: Vec<u8> = (0..wanted.min(near.room())).map(|n| (n * 7) as u8).collect();
                    if near.room() > 0 {
                        near.send_data(Kind::Input, &bytes).unwrap();
                        under_way += bytes.len() + FRAME_COST;
                        sent.extend(bytes);
                    }
                }
                Step::Take => drop(take(&mut far, &mut taken)),
                Step::PassOn => {
                    if let Some(bytes) = taken.pop() {
                        far.passed_on(bytes).unwrap();
                        under_way -= bytes + FRAME_COST;
                    }
                }
                Step::Signal(number) => {
                    near.send(Kind::Signal, &number).unwrap();
                    signals.push(number);
                }
            }
            prop_assert!(under_way <= window, "{under_way} of {window}");
        }
        // All that is there is passed on: then there is room, whatever was before.
        while take(&mut far, &mut taken) {}
        for bytes in taken.drain(..).rev() {
            far.passed_on(bytes).unwrap();
        }
        prop_assert_eq!(near.receive().unwrap(), None);
        prop_assert!(near.room() > 0, "nobody may send, and nothing is under way");
        prop_assert_eq!(arrived, sent);
        prop_assert_eq!(heard, signals);
    }
}

#[test]
fn who_sends_more_than_its_credit_is_refused_by_it() {
    use kumiki_stream::Link;
    let (near, far) = pair(1000).unwrap();
    let mut far = Stream::new(far);
    near.send(Kind::Input, &[0; 900]).unwrap();
    near.send(Kind::Input, &[0; 900]).unwrap();
    assert!(matches!(far.receive(), Ok(Some(Message::Data(_, bytes))) if bytes.len() == 900));
    let error = far.receive().unwrap_err().to_string();
    assert_eq!(error, "the other end sent 900 bytes (Input) with a credit of 36");
    let (near, far) = pair(1000).unwrap();
    near.send(Kind::Credit, &[5]).unwrap();
    let error = Stream::new(far).receive().unwrap_err().to_string();
    assert_eq!(error, "the other end sent a credit of 5, which makes 1005 of 1000");
}

#[test]
fn what_nobody_takes_is_bounded_and_refused() {
    use kumiki_stream::Link;
    let (near, _far) = pair(1000).unwrap();
    let mut sent = 0;
    let error = loop {
        match near.send(Kind::Signal, &[2]) {
            Ok(()) => sent += 1,
            Err(error) => break error.to_string(),
        }
        assert!(sent < 10_000);
    };
    assert!(sent > 500 && error.contains("that nobody has taken; 1000 are agreed"), "{error}");
}
