//! A second pass: a program that makes its list first, and opens files some folders or a thousand names behind it.

use super::known::Step;
use super::{Job, Number, Task, Walk};
use crate::demand::Kind;
use crate::shared::Shared;

impl Walk {
    /// Contents of the folder that was listed first, where the program opens files in a second pass.
    pub(super) fn first_of_second_pass(&mut self, shared: &Shared) -> Option<Task> {
        loop {
            let rest = self.known.iter().enumerate().filter_map(|(at, known)| {
                let known = known.as_ref().filter(|known| !known.is_through(Kind::Contents))?;
                Some((known.since, Number { folder: at as u16, turn: known.turn }))
            });
            let (_, number) = rest.min_by_key(|(since, _)| *since)?;
            match self.step(shared, Job::Ask(number, Kind::Contents)) {
                Step::Task(task) => return Some(task),
                // All of its names were looked through, and there is the next one.
                Step::Done if self.of(number)?.is_through(Kind::Contents) => {}
                Step::Done | Step::NoRoom | Step::NotYet => return None,
            }
        }
    }
}
