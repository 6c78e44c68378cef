//! The kind *process* at a place: a program started there by `kumiki-spawn`, with its standard streams,
//! to be read, written, signalled and waited for from afar.
//!
//! A process is a resource like others: who makes it and vanishes leaves it running, unless its
//! [`Program`] says for how long it may go unheard. Each read is a call, and so happens once: what a
//! process has written is given once, whatever the line does.
//!
//! What comes of a process ends with it, as far as it stays in its group; a place that is killed takes its processes
//! along, and with a [`Keeper`](crate::Keeper) what came of them, wherever it went.
//!
//! Who may make processes at a place may do there whatever the place's user may. Its allow-list does not
//! have this kind until somebody writes it in.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Error, Place, Result};
use kumiki_spawn::{Child, Command, Refusal, Signal, Stdio};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

use crate::part::{Block, Part, Portable, Run, Work};
use crate::place::keep;
use crate::place::parts::Parts;

/// Processes that one place has at a time, at most.
pub const MOST_PROCESSES: usize = 256;
/// Bytes of each stream that one read gives, at most.
pub const MOST_READ: usize = 128 << 10;
/// Longest wait of one read or write: a call is to end before its caller's patience does.
const MOST_WAIT: Duration = Duration::from_secs(5);

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
    input: Mutex<Option<File>>,
    outputs: Mutex<[Option<File>; 2]>,
    heard: Mutex<Instant>,
}

/// Processes of a place.
#[derive(Debug, Default)]
pub struct ProcessPool {
    count: usize,
}

/// The end of a process: one of both; neither if somebody else at the place has waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit status.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Output of a process since the last read, and its end, when all output was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Its standard output.
    pub out: Bytes,
    /// Its standard error.
    pub err: Bytes,
    /// None: it goes on.
    pub ended: Option<Ended>,
}

fn refused(text: String) -> Error {
    Error::Kind { kind: Process::NAME, text }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has reads and writes say that they would wait. The other end is a file description of its own.
fn never_waits(end: &File) -> io::Result<()> {
    Ok(fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?)
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
        let failed = |error| refused(format!("{first}: {error}"));
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
        let mut child = command.spawn().map_err(|error| match Refusal::of(&error) {
            // It is named already.
            Some(refusal) if refusal.is_program() => {
                refused(format!("{first}: {}", refusal.error()))
            }
            _ => failed(error),
        })?;
        let made = ProcessState::of(&mut child);
        let (pidfd, input, outputs) = made.map_err(|error| {
            let _ = child.kill();
            let _ = child.wait();
            failed(error)
        })?;
        let shared = Arc::new(ProcessState {
            child: Mutex::new(child),
            pidfd,
            input: Mutex::new(input),
            outputs: Mutex::new(outputs),
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
        let state = match self.0.ended() {
            Some(Ended { status: Some(status), .. }) => format!("exit status {status}"),
            Some(Ended { signal, .. }) => format!("signal {}", signal.unwrap_or_default()),
            None => format!("pid {}", held(&self.0.child).id()),
        };
        About { state, bytes: 0 }
    }
}

impl Portable for Process {}

impl ProcessState {
    /// The ends that this side has of a child.
    fn of(child: &mut Child) -> io::Result<(OwnedFd, Option<File>, [Option<File>; 2])> {
        let pidfd = child.pidfd()?.try_clone_to_owned()?;
        let ends = (child.stdin.take(), [child.stdout.take(), child.stderr.take()]);
        let (input, outputs) = &ends;
        input.iter().chain(outputs.iter().flatten()).try_for_each(never_waits)?;
        Ok((pidfd, ends.0, ends.1))
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

    /// Its end, if that has come. It is not waited for until it is destroyed, so that its number stays
    /// its group's, by which what came of it is ended.
    fn ended(&self) -> Option<Ended> {
        let looked = waitid(
            WaitId::PidFd(self.pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
        );
        match looked {
            Ok(ended) => {
                ended.map(|it| Ended { status: it.exit_status(), signal: it.terminating_signal() })
            }
            // Somebody else has waited for it: nobody knows.
            Err(_) => Some(Ended { status: None, signal: None }),
        }
    }

    fn read(&self, wait: Duration, most: usize) -> Output {
        self.hear();
        let mut outputs = held(&self.outputs);
        let until = Instant::now() + wait.min(MOST_WAIT);
        loop {
            // Before its output is looked at: what it wrote before its end is given before that.
            let ended = self.ended();
            let [out, err] = outputs.each_mut().map(|end| drain(end, most));
            let left = until.saturating_duration_since(Instant::now());
            if !out.is_empty() || !err.is_empty() || ended.is_some() || left.is_zero() {
                self.hear();
                let ended = ended.filter(|_| out.len() < most && err.len() < most);
                return Output { out: out.into(), err: err.into(), ended };
            }
            let open = outputs.iter().flatten().map(File::as_fd).chain([self.pidfd.as_fd()]);
            let open: Vec<_> = open.collect();
            let mut polled: Vec<_> =
                open.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
            waits(&mut polled, left);
        }
    }

    fn write(&self, mut bytes: &[u8], wait: Duration) -> Written {
        self.hear();
        let mut input = held(&self.input);
        let until = Instant::now() + wait.min(MOST_WAIT);
        let mut written = 0;
        while let Some(end) = &*input {
            if bytes.is_empty() {
                break;
            }
            match rustix::io::write(end, bytes) {
                Ok(count) => {
                    written += count;
                    bytes = &bytes[count..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    waits(&mut [PollFd::new(end, PollFlags::OUT)], left);
                }
                // It has closed its input, or has ended.
                Err(_) => *input = None,
            }
        }
        self.hear();
        Written { bytes: written, closed: input.is_none() }
    }
}

/// Waits until one of these is ready, or so long.
fn waits(polled: &mut [PollFd<'_>], left: Duration) -> bool {
    let left = Timespec::try_from(left).ok();
    poll(polled, left.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Bytes that are there; a stream that has ended is closed.
fn drain(end: &mut Option<File>, most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(open) = &*end {
        let from = bytes.len();
        if from == most {
            break;
        }
        bytes.resize((from + (16 << 10)).min(most), 0);
        let read = rustix::io::read(open, &mut bytes[from..]);
        bytes.truncate(from + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => *end = None,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => *end = None,
        }
    }
    bytes
}

/// A wish to read what a process has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Time for which output, or its end, is waited for; five seconds at most.
    #[serde(default)]
    pub wait_ms: u64,
    /// Bytes of each stream, at most: what [`Client::room`](crate::Client::room) has room for twice. 128 KiB, if nothing
    /// is said, and never more.
    #[serde(default)]
    pub most: Option<usize>,
}

/// Reads what a process has written: waits for something, or for its end.
#[derive(Debug)]
pub struct Read;

impl Part for Read {
    type Kind = Process;
    const NAME: &'static str = "read";
    const VERSION: u32 = 2;
    type In = Wish;
    type Out = Output;
}

impl Block for Read {
    fn begin(process: &mut Process, _: &mut ProcessPool, wish: Wish) -> Work<Output> {
        let shared = Arc::clone(&process.0);
        let most = wish.most.unwrap_or(MOST_READ).clamp(1, MOST_READ);
        Box::new(move || shared.read(Duration::from_millis(wish.wait_ms), most))
    }
}

/// Bytes for a process' standard input, and for how many milliseconds they may wait for room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// The bytes.
    pub bytes: Bytes,
    /// Five seconds at most.
    pub wait_ms: u64,
}

/// Part of an [`Input`] that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The others found no room in time.
    pub bytes: usize,
    /// Its input is closed: it takes no more.
    pub closed: bool,
}

/// Writes to a process' standard input.
#[derive(Debug)]
pub struct Write;

impl Part for Write {
    type Kind = Process;
    const NAME: &'static str = "write";
    type In = Input;
    type Out = Written;
}

impl Block for Write {
    fn begin(process: &mut Process, _: &mut ProcessPool, input: Input) -> Work<Written> {
        let shared = Arc::clone(&process.0);
        Box::new(move || shared.write(&input.bytes, Duration::from_millis(input.wait_ms)))
    }
}

/// Closes a process' standard input. It waits for writes that are under way.
#[derive(Debug)]
pub struct Close;

impl Part for Close {
    type Kind = Process;
    const NAME: &'static str = "close";
    type In = ();
    type Out = ();
}

impl Block for Close {
    fn begin(process: &mut Process, _: &mut ProcessPool, (): ()) -> Work<()> {
        let shared = Arc::clone(&process.0);
        Box::new(move || drop(held(&shared.input).take()))
    }
}

/// Sends a signal, by its number, to a process and the others of its process group; gives whether it was
/// there to get it.
#[derive(Debug)]
pub struct Send;

impl Part for Send {
    type Kind = Process;
    const NAME: &'static str = "signal";
    type In = i32;
    type Out = std::result::Result<bool, String>;
}

impl Run for Send {
    fn run(process: &mut Process, _: &mut ProcessPool, number: i32) -> Self::Out {
        process.0.hear();
        let signal = Signal::from_named_raw(number)
            .ok_or_else(|| format!("{number} is not the number of a signal that has a name"))?;
        if process.0.ended().is_some() {
            return Ok(false);
        }
        // Until it was waited for, which only its end as a resource does, its number is its group's.
        let group = Pid::from_raw(held(&process.0.child).id().cast_signed());
        let sent = kill_process_group(group.ok_or("it has no number")?, signal);
        sent.map(|()| true).map_err(|error| format!("signal {number}: {error}"))
    }
}

/// Adds the kind and its parts.
pub(crate) fn add_to(parts: Parts) -> Parts {
    parts
        .kind::<Process>()
        .blocking::<Read>()
        .blocking::<Write>()
        .blocking::<Close>()
        .part::<Send>()
}
