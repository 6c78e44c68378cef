//! What the host asks of this node, one wish a channel: a program, or something that the agent does.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kumiki_node_wire::link::{ChannelLink, End};
use kumiki_node_wire::module::abi;
use kumiki_node_wire::window::{Channel, Window};
use kumiki_node_wire::wish::{Run, Wish};
use kumiki_stream::exec::{Ending, Refusal, Running};
use kumiki_stream::frame::decode;
use kumiki_stream::{Kind, Link, Message, Stream};

use super::cpus;
use super::ending::Telling;
use super::memory;
use super::root;
use super::sleep::{self, Talks, Turn};
use super::watching;
use super::{environment, keeper, users};
use crate::delegated;
use crate::{Error, ErrorKind, Result};

/// This end of a channel.
struct Far<'a> {
    channel: Channel<'a>,
    bell: &'a File,
}

impl End for Far<'_> {
    const LOOK_AGAIN: Duration = Duration::from_secs(1);
    const SPIN: Duration = Duration::ZERO;

    fn is_node(&self) -> bool {
        true
    }

    fn bell(&self) -> &File {
        self.bell
    }

    fn ring(&self) -> Result<()> {
        super::ring(self.bell)
    }

    fn alive(&self) -> Result<()> {
        if self.channel.state() == abi::CHANNEL_OPEN {
            return Ok(());
        }
        Err(Error::inner(ErrorKind::Lost, "the client is gone"))
    }
}

/// A talk with the client of a channel.
type Talk<'a> = Stream<&'a ChannelLink<'a, Far<'a>>>;

/// Serves the channel until its client has closed it.
pub(super) fn serve(window: &Window, turn: Turn, talks: &Talks) -> Result<()> {
    let bell = super::open()?;
    let channel = || window.channel(turn.number());
    let link = ChannelLink::new(channel(), Far { channel: channel(), bell: &bell });
    let mut talk = Stream::new(&link);
    let outcome = match wish(&mut talk) {
        // It is somebody else's channel when the node has slept.
        Ok(Wish::Keep { stays }) => match sleep::sleep(window, &bell, (talks, turn), stays) {
            Ok(()) => return Ok(()),
            Err(error) => Err(error),
        },
        Ok(wish) => carry_out(wish, &mut talk, &bell),
        Err(error) => Err(error),
    };
    let is_open = || channel().state() == abi::CHANNEL_OPEN;
    if let Some(error) = outcome.as_ref().err().filter(|_| is_open()) {
        // The client may be gone, which is then the smaller trouble.
        let _ = talk.send(Kind::Close, &Ending::refused(1, error.to_string()));
    }
    while is_open() {
        link.wait(&[], None)?;
    }
    match outcome {
        Err(error) if error.kind() == ErrorKind::Lost => Ok(()),
        outcome => outcome,
    }
}

/// Waits for the wish.
fn wish(talk: &mut Talk<'_>) -> Result<Wish> {
    loop {
        match talk.receive()? {
            None => talk.link().wait(&[], None)?,
            Some(Message::Open(body)) => return Ok(decode(Kind::Open, &body)?),
            Some(other) => return Err(Error::Protocol(format!("{other:?} at the beginning"))),
        }
    }
}

fn carry_out(wish: Wish, talk: &mut Talk<'_>, bell: &File) -> Result<()> {
    match wish {
        Wish::Run(run) => return attend(run, talk),
        Wish::Lend(grant) => delegated::keep(&grant)?,
        Wish::Watch(order) => watching::take(&order.unwrap_or_default())?,
        Wish::Cpus(order) => cpus::carry_out(&order, bell)?,
        Wish::Memory(order) => memory::carry_out(&order, bell)?,
        // Its end is the answer.
        Wish::Shutdown => return super::ending::ask_for_power_off(),
        Wish::Keep { .. } => return Err(Error::Protocol("a sleep that is not the first".into())),
    }
    talk.send(Kind::Close, &Ending::Exited(0))
}

/// Runs a program until it has ended, or its client is gone.
fn attend(run: Run, talk: &mut Talk<'_>) -> Result<()> {
    let terminal = run.program.terminal;
    let mut command = command(run)?;
    // Until its end is told.
    let _telling = Telling::begin();
    let ending = match Running::start(&mut command, terminal) {
        Ok(running) => running.attend(talk)?,
        Err(error) => {
            let name = command.get_program().to_string_lossy();
            let Refusal { status, reason } =
                Refusal::of(&error, format!("starting {name}: {error}"));
            Some(Ending::refused(status, reason))
        }
    };
    ending.map_or(Ok(()), |ending| talk.send(Kind::Close, &ending))
}

/// The command of a program, with its variables and its root.
fn command(run: Run) -> Result<Command> {
    let Run { program, beside_root, health } = run;
    // One that cannot be read was told of at the start.
    let image = keeper::program().ok().flatten();
    let (user, folder) = match &image {
        Some(image) if health => (Some(image.user.clone()), image.folder.clone()),
        _ => (None, String::new()),
    };
    let words = if health {
        let words = image.as_ref().map(|image| image.health.clone()).unwrap_or_default();
        words.into_iter().map(Into::into).collect()
    } else {
        program.words
    };
    let Some((name, arguments)) = words.split_first() else {
        return Err(match health {
            true => Error::inner(ErrorKind::NotFound, "its image names no HEALTHCHECK"),
            false => Error::Protocol("a program without a name".into()),
        });
    };
    let mut command = Command::new(name);
    command.args(arguments);
    let place = root::place().unwrap_or(Path::new("/"));
    let who = user.map(|user| users::who(place, &user)).transpose()?;
    if !beside_root {
        environment::of(who.as_ref(), image).tell(&mut command);
    }
    command.envs(program.environment);
    super::spared::not(&mut command);
    if beside_root {
        root::tell(&mut command);
    } else {
        let folder = if folder.is_empty() { "/".into() } else { folder.into() };
        let folder = program.folder.unwrap_or(folder);
        root::enter(&mut command, &folder.to_string_lossy(), who)?;
    }
    Ok(command)
}
