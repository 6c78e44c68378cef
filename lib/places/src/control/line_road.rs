//! Places by lines in memory that both sides see. What a line has no room for, and what may block, goes by messages
//! beside it, where there are any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kumiki_resource::kind::Kind;
use kumiki_resource::{Listed, Name};

use crate::control::net::Net;
use crate::control::transport::{Limit, Transport};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::line::lines::{Lines, PATIENCE};
use crate::part::{Part, Portable};
use crate::reference::Reference;
use crate::wire::Why;
use crate::wire::chain::{ChainReply, StepCall};

/// Lines to one place.
pub(crate) struct LineRoad {
    place: Arc<str>,
    lines: Arc<Lines>,
    /// Lines that nobody uses just now.
    idle: Mutex<Vec<Line>>,
    /// Messages to the same place.
    pub(crate) beside: Option<Net>,
}

impl LineRoad {
    pub(crate) fn new(place: &str, lines: Arc<Lines>, beside: Option<Net>) -> LineRoad {
        LineRoad { place: place.into(), lines, idle: Mutex::default(), beside }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Line>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line of the caller's own.
    pub(crate) fn line(&self, limit: Limit) -> Result<Line> {
        let idle = self.idle().pop().filter(|line| !line.is_over());
        let mut line = match idle {
            Some(line) => line,
            None => self.lines.line(&self.place)?,
        };
        line.set_timeout(limit.unwrap_or(PATIENCE));
        Ok(line)
    }

    /// Takes a line back that its caller needs no more.
    pub(crate) fn give(&self, line: Line) {
        if !line.is_over() {
            self.idle().push(line);
        }
    }

    /// Does it by a line, or, where that is no way, by messages.
    fn by<T>(
        &self,
        limit: Limit,
        line: impl FnOnce(&mut Line) -> Result<T>,
        messages: impl FnOnce(&Net) -> Result<T>,
    ) -> Result<T> {
        let outcome = match self.line(limit) {
            Ok(mut its) => {
                let outcome = line(&mut its);
                self.give(its);
                outcome
            }
            Err(error) => Err(error),
        };
        match (outcome, &self.beside) {
            (Err(error), Some(net)) if goes_beside(&error) => messages(net),
            (outcome, _) => outcome,
        }
    }
}

/// True if it has not run as a line is no way for it.
pub(crate) fn goes_beside(error: &Error) -> bool {
    match error {
        Error::TooLarge { .. } => true,
        // All lines are in use; or a part that blocks.
        Error::Refused { why, .. } => matches!(why, Why::Full | Why::Blocks),
        _ => false,
    }
}

impl LineRoad {
    /// Runs one step of a chain, for who has it without its types.
    pub(crate) fn run_step(
        &self,
        step: &StepCall,
        input: &Bytes,
        limit: Limit,
    ) -> Result<ChainReply> {
        let by_line = |line: &mut Line| {
            if line.life() != step.life {
                return Err(Error::Gone { place: step.place.clone() });
            }
            let answer = Bytes::copy_from_slice(line.raw(&step.call(input.clone()))?);
            Ok(ChainReply { answers: vec![answer], refusal: None })
        };
        self.by(limit, by_line, |net| net.run_steps(vec![step.clone()], input.clone(), limit))
    }
}

impl Transport for LineRoad {
    fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
        limit: Limit,
    ) -> Result<Reference<K>> {
        // A line takes what it writes by reference, so that it is still there for a message.
        let mut line = match self.line(limit) {
            Ok(line) => line,
            Err(error) => match &self.beside {
                Some(net) if goes_beside(&error) => return net.create(place, unique, spec, limit),
                _ => return Err(error),
            },
        };
        let made = line.create::<K>(unique, &spec);
        self.give(line);
        match (made, &self.beside) {
            (Err(Error::TooLarge { .. }), Some(net)) => net.create(place, unique, spec, limit),
            (made, _) => made,
        }
    }

    fn open<K: Kind>(&self, name: &Name, limit: Limit) -> Result<Reference<K>> {
        self.by(limit, |line| line.open::<K>(name), |net| net.open(name, limit))
    }

    fn call<P: Part>(
        &self,
        on: &Reference<P::Kind>,
        input: &P::In,
        limit: Limit,
    ) -> Result<P::Out> {
        let line = self.line(limit);
        let outcome = match line {
            Ok(mut line) => {
                let outcome = line.call::<P>(on, input);
                self.give(line);
                outcome
            }
            Err(error) => Err(error),
        };
        match (outcome, &self.beside) {
            (Err(error), Some(net)) if goes_beside(&error) => net.call::<P>(on, input, limit),
            (outcome, _) => outcome,
        }
    }

    fn destroy<K: Portable>(&self, what: &Reference<K>, limit: Limit) -> Result<()> {
        self.by(limit, |line| line.destroy(what.clone()), |net| net.destroy(what, limit))
    }

    fn list(&self, place: &str, pattern: &str, limit: Limit) -> Result<Vec<Listed>> {
        // A page of a line's length is few names.
        match &self.beside {
            Some(net) => net.list(place, pattern, limit),
            None => self.line(limit).and_then(|mut line| {
                let listed = line.ls(pattern);
                self.give(line);
                listed
            }),
        }
    }

    fn has_ended(&self) -> bool {
        !self.lines.has(&self.place)
    }
}
