//! Chains: what one program part gives is what the next one takes, wherever each one's resource is.
//!
//! ```text
//!   caller ── input ──▶ step 1 ── its answer ──▶ step 2 ── … ──▶ the last one's answer
//!                                                  │
//!                                                  ╰── its error, its number, and the answers before it
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kumiki_resource::Rights;
use kumiki_resource::kind::Kind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{decode, of_outcome, written};
use crate::control::Control;
use crate::control::road::Road;
use crate::error::{Error, Result};
use crate::part::Part;
use crate::reference::Reference;
use crate::wire::chain::{ChainReply, StepCall};
use crate::{FailedStep, wire};

/// A chain of program parts ([`Control::chain`]): it takes what the first one takes and gives what the last one gives. It
/// may be called often.
pub struct Chain<I, O> {
    control: Control,
    steps: Vec<Box<dyn ChainStep>>,
    types: PhantomData<fn(I) -> O>,
}

/// A program part on a resource, without its types.
trait ChainStep: Send + Sync {
    /// Place of the resource.
    fn place(&self) -> &Arc<str>;

    /// Kind and part, for a person.
    fn part(&self) -> String;

    /// Checks what can be checked before any step runs.
    fn check(&self) -> Result<()>;

    /// The step as a message has it.
    fn wire(&self) -> StepCall;

    /// Calls the part with what is written here.
    fn call(&self, control: &Control, input: &[u8]) -> Result<Bytes>;
}

/// A step with its types.
struct On<P: Part>(Reference<P::Kind>);

impl<P: Part> ChainStep for On<P> {
    fn place(&self) -> &Arc<str> {
        self.0.shared_place()
    }

    fn part(&self) -> String {
        format!("{}.{}", <P::Kind as Kind>::NAME, P::NAME)
    }

    fn check(&self) -> Result<()> {
        self.0.require(Rights::USE)
    }

    fn wire(&self) -> StepCall {
        StepCall {
            place: self.0.place().to_owned(),
            life: self.0.life(),
            id: self.0.id().to_u64(),
            kind: <P::Kind as Kind>::NAME.to_owned(),
            part: P::NAME.to_owned(),
            version: P::VERSION,
        }
    }

    fn call(&self, control: &Control, input: &[u8]) -> Result<Bytes> {
        let input = wire::read::<P::In>(input).map_err(|error| Error::Value {
            what: format!("what {} is to take, as it was given", self.part()),
            why: error.to_string(),
        })?;
        written(P::NAME, &control.call::<P>(&self.0, input)?)
    }
}

impl Control {
    /// Begins a chain: the part's output is the input of what comes [`then`](Chain::then), wherever the resources are.
    ///
    /// ```
    /// # use kumiki_places::standard::{Add, Counter, parts};
    /// # use kumiki_places::{Control, Error};
    /// # use kumiki_resource::Interface;
    /// # let interface = Interface::builder().kind::<Counter>().per_core()?;
    /// # let home = interface.place_name(interface.places()[0])?;
    /// # let control = Control::builder().home(&interface, parts()).build()?;
    /// let today = control.create::<Counter>(&home, Some("today"), 1)?;
    /// let ever = control.create::<Counter>(&home, Some("ever"), 100)?;
    /// assert_eq!(control.chain::<Add>(&today).then::<Add>(&ever).call(1)?, 102);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn chain<P: Part>(&self, on: &Reference<P::Kind>) -> Chain<P::In, P::Out> {
        Chain {
            control: self.clone(),
            steps: vec![Box::new(On::<P>(on.clone()))],
            types: PhantomData,
        }
    }
}

impl<I: Serialize, O: DeserializeOwned> Chain<I, O> {
    /// Adds a step, which takes what the one before gives.
    #[must_use]
    pub fn then<P: Part<In = O>>(mut self, on: &Reference<P::Kind>) -> Chain<I, P::Out> {
        self.steps.push(Box::new(On::<P>(on.clone())));
        Chain { control: self.control, steps: self.steps, types: PhantomData }
    }

    /// Calls the parts one after the other, each as [`Control::call`] does. What goes from one to the next is written as
    /// MessagePack, also in this process. A limit of the control's ([`Control::with_timeout`]) is the whole chain's.
    ///
    /// Other callers' calls may come between two steps. Nothing is undone when a step fails.
    ///
    /// # Errors
    /// [`Error::Step`]: the step's number and error, which is as [`Control::call`]'s, and what the steps before it, which
    /// have run, have given. Where the step is not known to have run, its error is [`Error::Unknown`]. If a reference lacks
    /// a right, no step has run.
    pub fn call(&self, input: I) -> Result<O> {
        let begin = Instant::now();
        let mut answers = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            step.check().map_err(|error| self.failed((index, index), Vec::new(), error))?;
        }
        let input = written("a chain", &input);
        let input = input.map_err(|error| self.failed((0, 0), Vec::new(), error))?;
        while let Some(step) = self.steps.get(answers.len()) {
            let control = match self.left(begin, step.place()) {
                Ok(control) => control,
                Err(error) => {
                    return Err(self.failed((answers.len(), answers.len()), answers, error));
                }
            };
            let input = answers.last().unwrap_or(&input).clone();
            if let Err((went, error)) = self.advance(&control, input, &mut answers) {
                return Err(self.failed((answers.len(), went), answers, error));
            }
        }
        let last = answers.last().map_or(&[][..], |answer| answer);
        let index = self.steps.len() - 1;
        decode(&self.steps[index].part(), last)
            .map_err(|error| self.failed((index, index), answers, error))
    }

    /// Runs the next step, and with it those behind it that go by messages, as far as their places run them together. An
    /// error comes with the index of the last step that may have run.
    fn advance(
        &self,
        control: &Control,
        input: Bytes,
        answers: &mut Vec<Bytes>,
    ) -> Result<(), (usize, Error)> {
        let first = answers.len();
        let steps = &self.steps[first..];
        if let Some((road, count)) = by_messages(control, steps) {
            let last = |answers: &[Bytes], error: &Error| match error {
                Error::Unknown { .. } => first + count - 1,
                _ => answers.len(),
            };
            let Road::Net(net) = &*road else { unreachable!("it goes by messages") };
            let calls = steps[..count].iter().map(|step| step.wire()).collect();
            match net.run_steps(calls, input.clone(), control.limit) {
                Ok(ChainReply { answers: more, refusal }) => {
                    answers.extend(more);
                    let Some(refusal) = refusal else { return Ok(()) };
                    let place = self.steps[answers.len()].place();
                    let said = of_outcome(place, Err(refusal));
                    return said.map(drop).map_err(|error| (last(answers, &error), error));
                }
                // Nothing was done, and it may have moved: it is sought as for a call.
                Err(Error::Gone { .. }) => {}
                Err(error) => return Err((last(answers, &error), error)),
            }
        }
        answers.push(steps[0].call(control, &input).map_err(|error| (first, error))?);
        Ok(())
    }

    /// The control, with what is left of its limit.
    fn left(&self, begin: Instant, place: &str) -> Result<Control> {
        let Some(limit) = self.control.limit else { return Ok(self.control.clone()) };
        match limit.checked_sub(begin.elapsed()) {
            Some(left) if !left.is_zero() => Ok(self.control.with_timeout(left)),
            _ => {
                let why = format!("the chain's limit, {limit:?}, was over before this step");
                Err(Error::NotSent { place: place.to_owned(), why })
            }
        }
    }

    #[cold]
    fn failed(&self, (index, last): (usize, usize), answers: Vec<Bytes>, error: Error) -> Error {
        let (of, step) = ((index + 1, last + 1, self.steps.len()), &self.steps[index]);
        Error::Step(Box::new(FailedStep::new(of, step.part(), step.place(), answers, error)))
    }
}

/// The way to the first of these steps' places if it is by messages, and the number of those that are called so from there
/// on; none where it is by itself.
fn by_messages(control: &Control, steps: &[Box<dyn ChainStep>]) -> Option<(Arc<Road>, usize)> {
    let road = |step: &dyn ChainStep| {
        control.road(step.place()).ok().filter(|road| matches!(**road, Road::Net(_)))
    };
    let first = road(&**steps.first()?)?;
    let count = 1 + steps[1..].iter().take_while(|step| road(&***step).is_some()).count();
    (count > 1).then_some((first, count))
}

impl<I, O> fmt::Debug for Chain<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.iter().map(|step| format!("{} at {}", step.part(), step.place()));
        f.debug_list().entries(steps).finish()
    }
}
