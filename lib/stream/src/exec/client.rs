//! The near side of a program that runs elsewhere: its streams, and what somebody here asks of it.

use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::{Ending, Size};
use crate::error::Error;
use crate::frame::Kind;
use crate::link::{Link, Other};
use crate::stream::{Message, Stream};

/// Frames that are passed on between two looks at what somebody here asks.
const TURN: usize = 8;

/// Time that a program has to end when its time is over and it was killed.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Order to a program beside its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A signal for it and all it has started.
    Signal(i32),
    /// Its terminal has another size.
    Resize(Size),
}

/// Source of orders.
pub trait Orders {
    /// Readable as soon as there is one.
    fn ready(&self) -> BorrowedFd<'_>;

    /// The next one. Called again only once the program has been told it.
    ///
    /// # Errors
    /// It cannot be had.
    fn next(&mut self) -> io::Result<Option<Order>>;
}

/// A program's streams, and orders for it.
pub struct Client<'a> {
    /// Its standard input; without one it reads an end at once.
    pub input: Option<BorrowedFd<'a>>,
    /// Receiver of its output.
    pub out: &'a mut dyn Write,
    /// Receiver of its errors; a terminal's come with the output.
    pub err: &'a mut dyn Write,
    /// Its orders.
    pub orders: Option<&'a mut dyn Orders>,
}

/// Wishes beside a program's streams, as far as somebody has them.
#[derive(Default)]
pub struct Beside<'a> {
    /// A key in the input that leaves the program.
    pub leave: Option<u8>,
    /// Time after which the program is killed.
    pub limit: Option<Duration>,
    /// Writes what is shown between the program's output.
    pub shows: Option<&'a mut Show<'a>>,
    /// Interval at which it is called.
    pub look: Option<Duration>,
}

/// Writer of something that is shown.
pub type Show<'a> = dyn FnMut(&mut dyn Write) -> io::Result<()> + 'a;

/// End of what a client does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program has ended, or was not begun.
    Ended(Ending),
    /// Somebody has left it.
    Left,
    /// Time is over, and the program was killed.
    TimedOut,
}

impl std::fmt::Debug for Client<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("input", &self.input).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Beside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Client<'_> {
    /// Attends a program that was asked for, until it ends. What was sent of its input when it ends is lost.
    ///
    /// # Errors
    /// As of the link; and what keeps a stream from being passed on.
    pub fn attend<L: Link>(
        &mut self,
        stream: &mut Stream<L>,
        beside: &mut Beside<'_>,
    ) -> Result<Outcome, L::Error> {
        let mut input = Input::new(self.input, beside.leave);
        let begin = Instant::now();
        let mut killed = false;
        loop {
            if let Some(show) = &mut beside.shows {
                show(self.out).map_err(passing("what is shown beside the program"))?;
            }
            let (ending, more) = self.listen(stream)?;
            match ending {
                Some(_) if killed => return Ok(Outcome::TimedOut),
                Some(ending) => return Ok(Outcome::Ended(ending)),
                None => {}
            }
            self.tell(stream)?;
            let passed = input.pass_on(stream)?;
            if input.has_left() {
                return Ok(Outcome::Left);
            }
            let left = beside.limit.map(|limit| {
                let limit = if killed { limit + KILL_LIMIT } else { limit };
                limit.saturating_sub(begin.elapsed())
            });
            match left {
                Some(Duration::ZERO) if killed => return Ok(Outcome::TimedOut),
                Some(Duration::ZERO) => {
                    stream.send(Kind::Signal, &Signal::KILL.as_raw())?;
                    killed = true;
                }
                _ if more || passed => {}
                left => {
                    let orders = self.orders.as_deref().map(Orders::ready);
                    let others = input.wanted(stream.room()).into_iter().chain(orders);
                    let others: Vec<Other<'_>> = others.map(|fd| (fd, PollFlags::IN)).collect();
                    stream.link().wait(&others, left.into_iter().chain(beside.look).min())?;
                }
            }
        }
    }

    /// Passes on what has come; how the program has ended, if it has, and whether more may be there.
    fn listen<L: Link>(
        &mut self,
        stream: &mut Stream<L>,
    ) -> Result<(Option<Ending>, bool), L::Error> {
        for _ in 0..TURN {
            match stream.receive()? {
                None => return Ok((None, false)),
                Some(Message::Data(kind, bytes)) => {
                    let (to, what) = match kind {
                        Kind::Errors => (&mut *self.err, "standard error"),
                        _ => (&mut *self.out, "standard output"),
                    };
                    to.write_all(&bytes).and_then(|()| to.flush()).map_err(passing(what))?;
                    stream.passed_on(bytes.len())?;
                }
                Some(Message::Close(body)) => return Ok((Some(Ending::of_body(&body)?), false)),
                Some(other) => {
                    return Err(Error::Protocol(format!("{other:?} of a program")).into());
                }
            }
        }
        Ok((None, true))
    }

    /// Sends orders.
    fn tell<L: Link>(&mut self, stream: &Stream<L>) -> Result<(), L::Error> {
        let Some(orders) = &mut self.orders else { return Ok(()) };
        let taking = |error| Error::os("taking what the program is told", error);
        while let Some(order) = orders.next().map_err(taking)? {
            match order {
                Order::Signal(number) => stream.send(Kind::Signal, &number)?,
                Order::Resize(size) => stream.send(Kind::Resize, &size)?,
            }
        }
        Ok(())
    }
}

fn passing(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Passing { what, source }
}

/// Standard input on its way to a program.
struct Input<'a> {
    from: Option<BorrowedFd<'a>>,
    /// True until its end was told.
    is_open: bool,
    /// The key that leaves.
    leave: Option<u8>,
    has_left: bool,
}

impl<'a> Input<'a> {
    fn new(from: Option<BorrowedFd<'a>>, leave: Option<u8>) -> Self {
        Input { from, is_open: true, leave, has_left: false }
    }

    /// Descriptor to wait for: more input, if there is credit for it.
    fn wanted(&self, room: usize) -> Option<BorrowedFd<'a>> {
        self.from.filter(|_| room > 0)
    }

    /// True if somebody has left; all before that is sent.
    fn has_left(&self) -> bool {
        self.has_left
    }

    /// Sends what there is, as far as there is credit; whether anything was sent.
    fn pass_on<L: Link>(&mut self, stream: &mut Stream<L>) -> Result<bool, L::Error> {
        if !self.is_open {
            return Ok(false);
        }
        let room = stream.room();
        let mut bytes = Vec::new();
        if self.from.is_some() {
            let Some(from) = self.wanted(room).filter(|from| is_readable(*from)) else {
                return Ok(false);
            };
            bytes.resize(room, 0);
            let read = match rustix::io::read(from, &mut bytes) {
                Ok(read) => read,
                Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(passing("standard input")(error.into()).into()),
            };
            bytes.truncate(read);
        }
        if let Some(end) = self.leave.and_then(|key| bytes.iter().position(|byte| *byte == key)) {
            bytes.truncate(end);
            (self.has_left, self.is_open) = (true, false);
        }
        match bytes.as_slice() {
            [] if self.has_left => return Ok(false),
            // Nothing at all is its end.
            [] => {
                (self.from, self.is_open) = (None, false);
                stream.send_plain(Kind::End)?;
            }
            bytes => stream.send_data(Kind::Input, bytes)?,
        }
        Ok(true)
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
}
