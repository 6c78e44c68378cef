//! Places of an OS node, or of whatever a command reaches, as places of this machine, and the other way round.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use kumiki_node::{AGENT, Client, Ending, Run, Session, agent};
use kumiki_places::Attached;
use tokio::sync::oneshot;

use crate::{Verdict, interrupt, output};

/// The far end of the stream.
enum Far {
    /// A thread that talks with the node.
    Node(JoinHandle<kumiki_node::Result<Ending>>),
    Command(Child),
}

pub(super) fn attach(name: &str, command: &[String]) -> Result<Verdict> {
    let far = Side { node: Some(name), command, words: relay_of(name) };
    let near = async |from, to| kumiki_places::attach(name, from, to, say).await;
    with_far(&far, near).with_context(|| format!("the places of {name} are gone"))
}

/// Lends places of this machine's processes to those of a node, or of whatever a command reaches.
pub(super) fn lend(name: &str, node: Option<&str>, command: &[String]) -> Result<Verdict> {
    let words = Run::beside_root([AGENT, "place", "attach", name, "--stdio"]);
    let far = Side { node, command, words };
    let near = async |from, to| kumiki_places::relay(name, None, from, to).await;
    with_far(&far, near).with_context(|| format!("places of {name} are lent no more"))
}

/// Attaches by this process' input and output, until they end.
pub(super) fn attach_stdio(name: &str) -> Result<Verdict> {
    // Where a node has a root, its programs look for sockets there.
    agent::go_in()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting input and output")?;
    // Its output is the stream.
    runtime.block_on(kumiki_places::attach_stdio(name, |news| match news {
        Attached::There(place) => output::talk(format_args!("+ {place}")),
        Attached::Gone(place) => output::talk(format_args!("- {place}")),
        refused @ Attached::Refused { .. } => say(refused),
    }))?;
    Ok(Verdict::Fine)
}

/// Other end of a stream: a program in a node, or a command.
struct Side<'a> {
    node: Option<&'a str>,
    command: &'a [String],
    words: Run,
}

/// Starts the far end of a stream, and has this process be the near one, until a person ends it. Its own end is an error.
fn with_far(
    side: &Side<'_>,
    near: impl AsyncFnOnce(
        tokio::net::unix::OwnedReadHalf,
        tokio::net::unix::OwnedWriteHalf,
    ) -> kumiki_places::Result<()>,
) -> Result<Verdict> {
    let (tell, interrupted) = oneshot::channel();
    let tell = std::sync::Mutex::new(Some(tell));
    interrupt::each(move |_| {
        let tell = tell.lock().ok().and_then(|mut tell| tell.take());
        let _ = tell.map(|tell| tell.send(()));
    })?;
    let (own, far) = UnixStream::pair().context("making a stream")?;
    let far = match (side.command.split_first(), side.node) {
        (None, Some(name)) => node(name, side.words.clone(), far)?,
        (None, None) => bail!("name a node, or a command after --"),
        (Some((program, words)), _) => {
            let its = || far.try_clone().map(OwnedFd::from).context("making a stream");
            let (input, out) = (its()?, its()?);
            let child = Command::new(program).args(words).stdin(input).stdout(out).spawn();
            drop(far);
            Far::Command(child.with_context(|| format!("starting {program}"))?)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting input and output")?;
    let was_ended = runtime.block_on(async {
        own.set_nonblocking(true)?;
        let (from, to) = tokio::net::UnixStream::from_std(own)?.into_split();
        tokio::select! {
            outcome = near(from, to) => outcome.map(|()| false),
            // To end is what it was asked for.
            _ = interrupted => Ok(true),
        }
        .context("passing calls of places")
    });
    // Its end of the stream goes with it, and so does what runs at the other one.
    drop(runtime);
    if was_ended? {
        if let Far::Command(mut child) = far {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A node that hangs is not waited for: what runs there ends with this process.
        return Ok(Verdict::Fine);
    }
    let words = side.words.program.words.join(OsStr::new(" "));
    end(&words.to_string_lossy(), far)?;
    bail!("what passes their calls there has ended");
}

/// The relay as a program of a node.
pub(crate) fn relay_of(name: &str) -> Run {
    Run::beside_root([AGENT, "place", "relay", name])
}

/// Runs a program in the node.
fn node(name: &str, run: Run, far: UnixStream) -> Result<Far> {
    let session = Session::open(name)?;
    let talk = move || {
        let (mut out, mut err) = (&far, io::stderr());
        let mut client =
            Client { input: Some(far.as_fd()), out: &mut out, err: &mut err, orders: None };
        session.run(&run, &mut client)
    };
    let thread = thread::Builder::new().name("node".to_owned()).spawn(talk);
    Ok(Far::Node(thread.context("starting a thread for the node")?))
}

/// Waits for the far end, whose stream has ended, and says why it has.
fn end(words: &str, far: Far) -> Result<()> {
    match far {
        Far::Node(thread) => {
            let ending = thread.join().map_err(|_| anyhow!("the node's thread has panicked"))??;
            if ending != Ending::Exited(0) {
                bail!("`{words}` in the node has ended: {ending:?}");
            }
        }
        Far::Command(mut child) => {
            let status = child.wait().context("waiting for the command")?;
            if !status.success() {
                bail!("the command has ended: {status}");
            }
        }
    }
    Ok(())
}

fn say(news: Attached) {
    match news {
        // Who reads them may have gone, and the places are to stay.
        Attached::There(place) => _ = output::line(format!("+ {place}")),
        Attached::Gone(place) => _ = output::line(format!("- {place}")),
        Attached::Refused { place, why } => {
            output::talk(format_args!("place {place:?} is not available here: {why}"));
        }
    }
}

pub(super) fn relay(name: &str) -> Result<Verdict> {
    // Where a node has a root, its programs have their sockets there.
    agent::go_in()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting input and output")?;
    runtime.block_on(kumiki_places::relay_stdio(name, None))?;
    Ok(Verdict::Fine)
}
