//! Random operations of several callers, held against what each of them expects.

use std::collections::VecDeque;

use kumiki_resource::desk::{Answer, Error, LINES};
use proptest::prelude::*;

use super::{caller, desk};

#[derive(Clone, Debug)]
enum Step {
    Call,
    Panic,
    Submit,
    /// Joins the oldest, or the newest, answer.
    Join {
        oldest: bool,
    },
    /// Drops the oldest.
    Drop,
    /// Another caller in this one's place.
    Leave,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Call),
        1 => Just(Step::Panic),
        8 => Just(Step::Submit),
        6 => any::<bool>().prop_map(|oldest| Step::Join { oldest }),
        1 => Just(Step::Drop),
        1 => Just(Step::Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn every_answer_is_that_of_its_request(steps in prop::collection::vec((0..3_usize, step()), 1..400)) {
        let (door, server) = desk();
        let mut callers: Vec<_> = (0..3).map(|_| caller(&door)).collect();
        let mut open: [VecDeque<(u64, Answer<u64>)>; 3] = Default::default();
        for (sent, (at, step)) in (1_u64..).zip(steps) {
            let (this, answers) = (&mut callers[at], &mut open[at]);
            match step {
                Step::Call => match this.call(move || sent) {
                    Ok(got) => prop_assert_eq!(got, sent),
                    Err(Error::Full) => prop_assert!(!answers.is_empty()),
                    Err(error) => panic!("{error}"),
                },
                Step::Panic => match this.call(|| panic!("on purpose")) {
                    Ok(()) => panic!("it has panicked"),
                    Err(Error::Panicked(_)) => {}
                    Err(error) => prop_assert!(matches!(error, Error::Full), "{}", error),
                },
                Step::Submit => match this.submit(move || sent) {
                    Ok(answer) => answers.push_back((sent, answer)),
                    Err(error) => prop_assert!(matches!(error, Error::Full), "{}", error),
                },
                Step::Join { oldest } => {
                    let next = if oldest { answers.pop_front() } else { answers.pop_back() };
                    if let Some((sent, answer)) = next {
                        prop_assert_eq!(this.join(answer).unwrap(), sent);
                    }
                }
                Step::Drop => drop(answers.pop_front()),
                Step::Leave => {
                    // Its answers come all the same.
                    *this = caller(&door);
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    for (sent, answer) in answers.drain(..) {
                        prop_assert_eq!(runtime.block_on(answer).unwrap(), sent);
                    }
                }
            }
            prop_assert!(answers.len() <= LINES);
        }
        door.close();
        server.join().unwrap();
    }
}
