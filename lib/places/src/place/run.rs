//! The kind *process* at a place: a program started there by `kumiki-spawn`, with its standard streams,
//! to be fed, listened to, signalled and waited for from afar.
//!
//! A process is a resource like others: who makes it and vanishes leaves it running, unless its
//! [`Program`] says for how long it may go unheard. Its streams, signals and end are frames of one stream
//! (`kumiki_stream`), taken and given by calls: each call happens once, and so each frame is taken once,
//! whatever the line does.
//!
//! What comes of a process ends with it, as far as it stays in its group; a place that is killed takes its processes
//! along, and with a [`Keeper`](crate::Keeper) what came of them, wherever it went.
//!
//! Who may make processes at a place may do there whatever the place's user may. Its allow-list does not
//! have this kind until somebody writes it in.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Error, Place, Result};
use kumiki_spawn::{Child, Command, Signal, Stdio};
use kumiki_stream::exec::{Ending, Running, Started};
use kumiki_stream::frame::{self, HEADER_BYTES, Header};
use kumiki_stream::{Link, Paired, Stream, pair};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde::{Deserialize, Serialize};

use crate::part::{Block, Part, Portable, Run, Work};
use crate::place::keep;
use crate::place::parts::Parts;

/// Processes that one place has at a time, at most.
pub const MOST_PROCESSES: usize = 256;
/// Bytes that one call gives, at most.
pub const MOST_TAKEN: usize = 256 << 10;
/// Cost of the data that may be under way in one direction of a process' stream.
pub const WINDOW: usize = 256 << 10;
/// Longest wait of one call: it is to end before its caller's patience does.
const MOST_WAIT: Duration = Duration::from_secs(60);

/// A program to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Variables beside those of the place.
    #[serde(default)]
    pub environment: Vec<(String, String)>,
    /// Folder that it begins in; the place's, if none is said.
    #[serde(default)]
    pub folder: Option<String>,
    /// Milliseconds without a call on it after which it is ended, with all that came of it; never, if
    /// nothing is said.
    #[serde(default)]
    pub unheard_ms: Option<u64>,
    /// Bytes that one answer may have: what [`Client::room`](crate::Client::room) says.
    #[serde(default)]
    pub room: Option<usize>,
}

/// A process at a place. Destroying it ends it and what came of it by SIGKILL.
///
/// `kumiki_spawn::Process` is another kind of this name, for programs that stay within one process; an
/// interface has one of them.
#[derive(Debug)]
pub struct Process(Arc<ProcessState>);

#[derive(Debug)]
struct ProcessState {
    child: Mutex<Child>,
    pidfd: OwnedFd,
    /// The client's end of its stream; at the other end a thread attends it.
    near: Paired,
    /// A frame that the last call had no room for; locked by who takes some.
    left: Mutex<Option<Vec<u8>>>,
    heard: Mutex<Instant>,
}

/// Processes of a place.
#[derive(Debug, Default)]
pub struct ProcessPool {
    count: usize,
}

/// Frames of a process' stream to its client, as `kumiki_stream` has them: its output, and how it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Whole frames; none, if none came in time.
    pub frames: Bytes,
    /// True if no more come.
    pub over: bool,
}

fn refused(text: String) -> Error {
    Error::Kind { kind: Process::NAME, text }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kind for Process {
    const NAME: &'static str = "process";
    type Spec = Program;
    type Pool = ProcessPool;

    fn pool(_: Place) -> Result<ProcessPool> {
        Ok(ProcessPool::default())
    }

    fn create(program: Program, pool: &mut ProcessPool) -> Result<Process> {
        let Some((first, rest)) = program.words.split_first() else {
            return Err(refused(
                "its program has no words: the first one names what to run".into(),
            ));
        };
        if pool.count >= MOST_PROCESSES {
            return Err(refused(format!(
                "{MOST_PROCESSES} processes are at this place, which is the limit: destroy some"
            )));
        }
        let failed = |source| {
            let what = first.clone();
            Error::System { kind: Self::NAME, what, source, way: "" }
        };
        let mut command = Command::new(first);
        command.args(rest).envs(program.environment).kill_tree(true).process_group(0);
        // By which a keeper finds what came of it.
        command.envs(keep::variable().map(|name| (name, "1")));
        // The thread that serves a place has signals blocked.
        command.signal_mask([Signal::KILL; 0]);
        // A place that is killed takes its own children along; what came of them is for a keeper.
        command.parent_death_signal(Signal::KILL);
        if let Some(folder) = program.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let made = ProcessState::attended(&mut child, program.room.unwrap_or(MOST_TAKEN));
        let (pidfd, near) = made.map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            failed(error)
        })?;
        let shared = Arc::new(ProcessState {
            child: Mutex::new(child),
            pidfd,
            near,
            left: Mutex::default(),
            heard: Mutex::new(Instant::now()),
        });
        let process = Process(Arc::clone(&shared));
        if let Some(unheard) = program.unheard_ms {
            let attend = move || shared.attend(Duration::from_millis(unheard));
            let thread = Builder::new().name("kumiki-unheard".to_owned()).spawn(attend);
            if let Err(error) = thread {
                process.0.end();
                return Err(failed(error));
            }
        }
        pool.count += 1;
        Ok(process)
    }

    fn destroy(self, pool: &mut ProcessPool) {
        pool.count -= 1;
        self.0.end();
    }

    fn about(&self) -> About {
        // It is not waited for until it is destroyed, so that its number stays its group's, by which what
        // came of it is ended.
        let looked = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let state = match waitid(WaitId::PidFd(self.0.pidfd.as_fd()), looked) {
            Ok(Some(ended)) => match ended.exit_status() {
                Some(status) => format!("exit status {status}"),
                None => format!("signal {}", ended.terminating_signal().unwrap_or_default()),
            },
            Ok(None) => format!("pid {}", held(&self.0.child).id()),
            Err(_) => "ended".to_owned(),
        };
        About { state, bytes: 0 }
    }
}

impl Portable for Process {}

impl ProcessState {
    /// Has a thread attend a child; its pidfd, and the other end of its stream, with frames of so many bytes.
    fn attended(child: &mut Child, room: usize) -> io::Result<(OwnedFd, Paired)> {
        let pidfd = child.pidfd()?.try_clone_to_owned()?;
        let group = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::InvalidInput)?;
        let started = Started {
            group,
            pidfd: pidfd.try_clone()?,
            input: child.stdin.take().map(OwnedFd::from),
            out: child.stdout.take().map(OwnedFd::from),
            err: child.stderr.take().map(OwnedFd::from),
        };
        let running = Running::of(started)?;
        let (near, far) = pair(WINDOW)?;
        let mut stream = Stream::new(far.with_chunk(room.saturating_sub(HEADER_BYTES)));
        let attend = move || {
            let ending = running.attend(&mut stream);
            let ending = ending.unwrap_or_else(|error| Some(Ending::refused(1, error.to_string())));
            // Who has destroyed it hears no more.
            let _ = ending.map(|ending| stream.send(frame::Kind::Close, &ending));
        };
        Builder::new().name("kumiki-process".to_owned()).spawn(attend)?;
        Ok((pidfd, near))
    }

    fn hear(&self) {
        *held(&self.heard) = Instant::now();
    }

    /// Ends it and what came of it, and waits for it. Nothing, if it was waited for.
    fn end(&self) {
        let mut child = held(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends it when nothing was heard of its callers for so long.
    fn attend(&self, unheard: Duration) {
        loop {
            let left = unheard.saturating_sub(held(&self.heard).elapsed());
            if left.is_zero() {
                let _ = held(&self.child).kill();
                return;
            }
            if waits(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], left) {
                return;
            }
        }
    }

    fn take(&self, wait: Duration, most: usize) -> Taken {
        self.hear();
        let mut left = held(&self.left);
        let until = Instant::now() + wait.min(MOST_WAIT);
        let mut frames = Vec::new();
        let over = loop {
            let frame = match left.take() {
                Some(frame) => frame,
                None => match self.near.receive() {
                    Ok(Some((kind, body))) => Header::frame(kind, &body).unwrap_or_default(),
                    Ok(None) => {
                        let more = until.saturating_duration_since(Instant::now());
                        if !frames.is_empty() || more.is_zero() {
                            break false;
                        }
                        let _ = self.near.wait(&[], Some(more));
                        continue;
                    }
                    Err(_) => break frames.is_empty(),
                },
            };
            if !frames.is_empty() && frames.len() + frame.len() > most {
                *left = Some(frame);
                break false;
            }
            frames.extend(frame);
        };
        self.hear();
        Taken { frames: frames.into(), over }
    }

    fn give(&self, mut frames: &[u8]) -> std::result::Result<(), String> {
        self.hear();
        let text = |error: kumiki_stream::Error| error.to_string();
        while let Some((header, body)) = Header::read(&mut frames).map_err(text)? {
            self.near.send(header.kind, &body).map_err(text)?;
        }
        Ok(())
    }
}

/// Waits until one of these is ready, or so long.
fn waits(polled: &mut [PollFd<'_>], left: Duration) -> bool {
    let left = Timespec::try_from(left).ok();
    poll(polled, left.as_ref()).is_ok_and(|ready| ready > 0)
}

/// A wish for frames of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Time for which one is waited for; a minute at most.
    #[serde(default)]
    pub wait_ms: u64,
    /// Bytes of all, at most, but for one frame: what [`Client::room`](crate::Client::room) has room for. 256 KiB, if
    /// nothing is said, and never more.
    #[serde(default)]
    pub most: Option<usize>,
}

/// Takes frames of a process: waits for one.
#[derive(Debug)]
pub struct Take;

impl Part for Take {
    type Kind = Process;
    const NAME: &'static str = "take";
    type In = Wish;
    type Out = Taken;
}

impl Block for Take {
    fn begin(process: &mut Process, _: &mut ProcessPool, wish: Wish) -> Work<Taken> {
        let shared = Arc::clone(&process.0);
        let most = wish.most.unwrap_or(MOST_TAKEN).clamp(1, MOST_TAKEN);
        Box::new(move || shared.take(Duration::from_millis(wish.wait_ms), most))
    }
}

/// Gives frames to a process: input, its end, credit, signals.
#[derive(Debug)]
pub struct Give;

impl Part for Give {
    type Kind = Process;
    const NAME: &'static str = "give";
    type In = Bytes;
    type Out = std::result::Result<(), String>;
}

impl Run for Give {
    fn run(process: &mut Process, _: &mut ProcessPool, frames: Bytes) -> Self::Out {
        process.0.give(&frames)
    }
}

/// Adds the kind and its parts.
pub(crate) fn add_to(parts: Parts) -> Parts {
    parts.kind::<Process>().blocking::<Take>().part::<Give>()
}
