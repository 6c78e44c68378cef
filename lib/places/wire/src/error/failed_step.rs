//! A step of a chain of calls that has failed, and the answers of those before it.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// A step of a chain that has failed. Those before it have run, and their answers are here; none behind it has begun, apart
/// from those up to [`last`](Self::last).
#[derive(thiserror::Error)]
pub struct FailedStep {
    number: usize,
    last: usize,
    count: usize,
    part: String,
    place: String,
    answers: Vec<Bytes>,
    #[source]
    error: Error,
}

kumiki_sys::debug_is_display!(FailedStep);

impl FailedStep {
    /// The step of this number, and those up to the last that went along with it, of so many, where those before it that
    /// have run have given these answers.
    #[doc(hidden)]
    #[cold]
    pub fn new(
        (number, last, count): (usize, usize, usize),
        part: String,
        place: &str,
        answers: Vec<Bytes>,
        error: Error,
    ) -> FailedStep {
        FailedStep { number, last, count, part, place: place.to_owned(), answers, error }
    }

    /// Number of the step, from 1 on.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of the last step that may have run: the same, unless it is unknown what has become of several that their
    /// places were asked for together.
    pub fn last(&self) -> usize {
        self.last
    }

    /// The number of steps that have run for certain: all before it, or none where the chain was not begun. Whether it
    /// has run itself its error says.
    pub fn has_run(&self) -> usize {
        self.answers.len()
    }

    /// The step's own error, which is that of the same call alone.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The step's own error alone.
    pub fn into_error(self) -> Error {
        self.error
    }

    /// Reads what the step of this number, from 1 on, has given.
    ///
    /// # Errors
    /// [`Error::Value`]: it is none of those that have run, or gives something else.
    pub fn answer<T: DeserializeOwned>(&self, number: usize) -> Result<T> {
        let what = || format!("what step {number} of a chain has given");
        let answer = number.checked_sub(1).and_then(|index| self.answers.get(index));
        let answer = answer.ok_or_else(|| {
            let why = format!("steps 1 to {} have run, and no other", self.answers.len());
            Error::Value { what: what(), why }
        })?;
        rmp_serde::from_slice(answer)
            .map_err(|error| Error::Value { what: what(), why: error.to_string() })
    }
}

impl fmt::Display for FailedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedStep { number, last, count, part, place, .. } = self;
        write!(f, "step {number} of {count} of a chain, {part} at {place}: {}", self.error)?;
        if last > number {
            write!(f, "; steps up to {last} went along, and may have run, too")?;
        }
        match self.has_run() {
            0 => f.write_str("; no step has run before it"),
            1 => f.write_str("; step 1 has run"),
            run => write!(f, "; steps 1 to {run} have run"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_has_run_and_has_its_answers() {
        fn written<T: serde::Serialize + ?Sized>(value: &T) -> Bytes {
            rmp_serde::to_vec_named(value).unwrap().into()
        }
        let answers = vec![written(&7_i64), written("seven")];
        let gone = || Error::Gone { place: "b.core0".to_owned() };
        let failed =
            FailedStep::new((3, 3, 3), "counter.add".to_owned(), "b.core0", answers, gone());
        assert_eq!((failed.number(), failed.has_run()), (3, 2));
        assert_eq!(failed.answer::<i64>(1).unwrap(), 7);
        assert_eq!(failed.answer::<String>(2).unwrap(), "seven");
        for (none, why) in [(0, "1 to 2"), (3, "1 to 2")] {
            let error = failed.answer::<i64>(none).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        failed.answer::<i64>(2).unwrap_err();
        let said = failed.to_string();
        assert!(
            said.starts_with("step 3 of 3 of a chain, counter.add at b.core0: nobody"),
            "{said}"
        );
        assert!(said.ends_with("; steps 1 to 2 have run"), "{said}");
        let first =
            FailedStep::new((1, 2, 3), "counter.add".to_owned(), "b.core0", Vec::new(), gone());
        let said = first.to_string();
        assert!(said.contains("; steps up to 2 went along"), "{said}");
        assert!(Error::Step(Box::new(first)).is_passed_over());
        assert!(!Error::Step(Box::new(failed)).is_passed_over(), "two steps have run");
    }
}
