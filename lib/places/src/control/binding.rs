//! A binding: one program part of one resource, checked once, and called often.

use std::fmt;
use std::sync::Arc;

use kumiki_resource::{Handle, Interface, Name};

use crate::control::Control;
use crate::control::home::{of_home, run};
use crate::control::line_road::goes_beside;
use crate::control::road::Road;
use crate::control::transport::Transport;
use crate::error::{Error, Result};
use crate::line::Line;
use crate::part::Part;
use crate::place::typed::{Typed, WholeCall};
use crate::reference::Reference;
use crate::wire::Why;

/// A program part bound to a resource: kind, part, version, rights and the place's life were checked, and a way to it is
/// held. One thread has it, as it has one call at a time; others have their own.
pub struct Binding<P: Part> {
    control: Control,
    on: Reference<P::Kind>,
    /// Its name, by which it is opened anew; none of one that was bound by a reference.
    name: Option<Name>,
    road: Arc<Road>,
    way: CallPath<P>,
}

/// The way that a call goes.
enum CallPath<P: Part> {
    /// The whole call as a function: of a part that does not block, by a control without a limit.
    Whole(Interface, Handle<P::Kind>, WholeCall<P>),
    /// The part's function.
    Home(Handle<P::Kind>, &'static Typed<P>),
    /// A line of its own.
    Line(Line),
    /// The road that there is: messages, or a part whose types are not known here.
    Road,
    /// Its place has had another life, or the way has ended: one call has said so.
    Lost,
}

impl<P: Part> Binding<P> {
    pub(super) fn new(
        control: Control,
        on: Reference<P::Kind>,
        name: Option<Name>,
    ) -> Result<Binding<P>> {
        let road = control.road(on.place())?;
        let way = way::<P>(&control, &road, &on)?;
        Ok(Binding { control, on, name, road, way })
    }

    /// The resource.
    pub fn on(&self) -> &Reference<P::Kind> {
        &self.on
    }

    /// Calls the part, as [`Control::call`].
    ///
    /// # Errors
    /// As there. [`Why::Stale`] and [`Error::Gone`] say that the place has another life, or none: the next call of a
    /// binding that was made [by name](Control::bind_name) opens that anew.
    #[inline]
    pub fn call(&mut self, input: P::In) -> Result<P::Out> {
        match &self.way {
            CallPath::Whole(interface, handle, call) => {
                call(interface, handle, input).map_err(|error| of_home(self.on.place(), *error))
            }
            _ => self.call_there(input),
        }
    }

    /// Apart, so that a part that is a function call has none of it in its way.
    #[inline(never)]
    fn call_there(&mut self, input: P::In) -> Result<P::Out> {
        match &mut self.way {
            CallPath::Home(handle, typed) => {
                let Road::Home(home) = &*self.road else { unreachable!("it was bound there") };
                run(&home.interface, typed, handle, self.on.place(), input, self.control.limit)
            }
            CallPath::Line(line) => match line.call::<P>(&self.on, &input) {
                Ok(output) => Ok(output),
                Err(error) => self.failed(error, input),
            },
            CallPath::Whole(..) => self.call(input),
            CallPath::Road | CallPath::Lost => self.by_road(input),
        }
    }

    #[cold]
    fn failed(&mut self, error: Error, input: P::In) -> Result<P::Out> {
        if let Road::Lines(lines) = &*self.road {
            if let Some(net) = &lines.beside {
                if goes_beside(&error) {
                    return net.call::<P>(&self.on, &input, self.control.limit);
                }
            }
        }
        self.heard(&error);
        Err(error)
    }

    #[inline(never)]
    fn by_road(&mut self, input: P::In) -> Result<P::Out> {
        if let CallPath::Lost = self.way {
            self.find()?;
            if !matches!(self.way, CallPath::Road) {
                return self.call(input);
            }
        }
        let mut outcome = self.road.call::<P>(&self.on, &input, self.control.limit);
        if let Err(Error::Gone { .. }) = &outcome {
            if let Some(road) = self.control.anew(self.on.place(), &self.road) {
                outcome = self.by_new(road, &input);
            }
        }
        if let Err(error) = &outcome {
            self.heard(error);
        }
        outcome
    }

    /// Calls by another way to the place, which has moved, and goes on by that.
    #[cold]
    fn by_new(&mut self, road: Arc<Road>, input: &P::In) -> Result<P::Out> {
        self.road = road;
        self.way = way::<P>(&self.control, &self.road, &self.on)?;
        self.road.call::<P>(&self.on, input, self.control.limit)
    }

    /// Binds it anew: by its name, if it has one.
    fn find(&mut self) -> Result<()> {
        if let Some(name) = &self.name {
            self.on = self.control.open::<P::Kind>(name)?;
        }
        self.road = self.control.road(self.on.place())?;
        self.way = way::<P>(&self.control, &self.road, &self.on)?;
        Ok(())
    }

    /// Hears whether the way is one no more.
    fn heard(&mut self, error: &Error) {
        let is_lost = match error {
            Error::Gone { .. }
            | Error::Unknown { .. }
            | Error::Unanswered { .. }
            | Error::NotSent { .. } => true,
            Error::Refused { why, .. } => matches!(why, Why::Stale | Why::OtherLife),
            _ => false,
        };
        if is_lost {
            self.way = CallPath::Lost;
        }
    }
}

/// Checks a part where its resource is, and gives what it is called by.
fn way<P: Part>(control: &Control, road: &Road, on: &Reference<P::Kind>) -> Result<CallPath<P>> {
    match road {
        Road::Home(home) => {
            let Some((handle, typed)) = home.bind::<P>(on)? else { return Ok(CallPath::Road) };
            Ok(match (typed.call, control.limit) {
                (Some(call), None) => CallPath::Whole(home.interface.clone(), handle, call),
                _ => CallPath::Home(handle, typed),
            })
        }
        Road::Lines(lines) => {
            let bound = lines.line(control.limit).and_then(|mut line| {
                line.check::<P>(on)?;
                Ok(line)
            });
            match (bound, &lines.beside) {
                (Ok(line), _) => Ok(CallPath::Line(line)),
                (Err(error), Some(net)) if goes_beside(&error) => {
                    net.check::<P>(on, control.limit).map(|()| CallPath::Road)
                }
                (Err(error), _) => Err(error),
            }
        }
        Road::Net(net) => net.check::<P>(on, control.limit).map(|()| CallPath::Road),
    }
}

impl<P: Part> fmt::Debug for Binding<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Binding").field("on", &self.on).field("part", &P::NAME).finish()
    }
}
