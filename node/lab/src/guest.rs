//! The running system in a machine, as those see it who run commands in it.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::frame::{Frame, MACHINE, Message};
use crate::log::KernelLog;
use crate::qemu::End;

/// Time after the connection's end that QEMU may take to end, too.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The way to a machine's agent. Any number of threads may run commands through
/// it at once.
#[derive(Clone)]
pub struct Guest {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest").finish_non_exhaustive()
    }
}

struct Shared {
    writer: Mutex<Box<dyn Write + Send>>,
    streams: Mutex<OpenStreams>,
    log: KernelLog,
    /// End of QEMU, where it is ours.
    end: Option<Arc<OnceLock<End>>>,
}

#[derive(Default)]
struct OpenStreams {
    last: u32,
    open: HashMap<u32, Sender<Message>>,
    over: bool,
}

/// One command's stream.
pub(crate) struct Stream {
    guest: Guest,
    number: u32,
    messages: Receiver<Message>,
}

impl Guest {
    /// Over these two directions; what concerns the whole machine is passed on
    /// by the receiver.
    pub(crate) fn over(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        log: KernelLog,
        end: Option<Arc<OnceLock<End>>>,
    ) -> (Self, Receiver<Message>) {
        let shared = Arc::new(Shared {
            writer: Mutex::new(Box::new(writer)),
            streams: Mutex::new(OpenStreams::default()),
            log,
            end,
        });
        let (hello, machine) = channel();
        let guest = Guest { shared };
        let reading = guest.clone();
        thread::spawn(move || {
            reading.read(reader, &hello);
            let mut streams = reading.streams();
            streams.over = true;
            // Whoever waits for a message sees that none comes.
            streams.open.clear();
        });
        (guest, machine)
    }

    fn read(&self, mut reader: impl Read, machine: &Sender<Message>) {
        while let Ok(Some(Frame { stream, message })) = Frame::read(&mut reader) {
            if stream == MACHINE {
                let _ = machine.send(message);
                continue;
            }
            let receiver = self.streams().open.get(&stream).cloned();
            let bytes = match &message {
                Message::Output(bytes) | Message::Error(bytes) => bytes.len(),
                _ => 0,
            };
            let taken = receiver.is_some_and(|receiver| receiver.send(message).is_ok());
            if !taken && bytes > 0 {
                // Nobody reads it; a command that is to end must not wait for that.
                let _ = self.send(stream, Message::Credit(bytes as u32));
            }
        }
    }

    /// The kernel log so far.
    pub fn log_text(&self) -> String {
        self.shared.log.text()
    }

    pub(crate) fn log(&self) -> &KernelLog {
        &self.shared.log
    }

    pub(crate) fn send(&self, stream: u32, message: Message) -> std::io::Result<()> {
        let mut writer = self.shared.writer.lock().expect("no holder panics");
        Frame { stream, message }.write(&mut *writer)
    }

    /// True if it can no longer be reached.
    pub(crate) fn is_over(&self) -> bool {
        self.streams().over
    }

    pub(crate) fn open(&self) -> Result<Stream, Error> {
        let (sender, messages) = channel();
        let mut streams = self.streams();
        if streams.over {
            drop(streams);
            return Err(self.ended());
        }
        streams.last += 1;
        let number = streams.last;
        streams.open.insert(number, sender);
        drop(streams);
        Ok(Stream { guest: self.clone(), number, messages })
    }

    /// The error of a machine that has ended.
    pub(crate) fn ended(&self) -> Error {
        let begin = Instant::now();
        let end = self.shared.end.as_ref();
        while end.is_some_and(|end| end.get().is_none()) && begin.elapsed() < END_LIMIT {
            thread::sleep(Duration::from_millis(5));
        }
        let reason = reason(&self.shared.log, end.and_then(|end| end.get()));
        Error::Ended { reason, log: self.shared.log.tail() }
    }

    fn streams(&self) -> MutexGuard<'_, OpenStreams> {
        self.shared.streams.lock().expect("no holder panics")
    }
}

/// Reason for which a machine has ended, by its log and by QEMU.
pub(crate) fn reason(log: &KernelLog, end: Option<&End>) -> String {
    if let Some(panic) = log.text().lines().find(|line| line.contains("Kernel panic")) {
        return panic.to_owned();
    }
    // What the agent wrote when it could not go on.
    let marks = crate::frame::MARK;
    let own = |line: &&str| line.contains("kumiki-lab: ") && !line.contains(marks);
    if let Some(own) = log.text().lines().rev().find(own) {
        return own.to_owned();
    }
    match end {
        Some(end) if !end.said.is_empty() => format!("QEMU said: {}", end.said),
        Some(end) if end.status.success() => "it was switched off or restarted".to_owned(),
        Some(end) => format!("QEMU ended with {}", end.status),
        None => "it was switched off, or whoever kept it has ended".to_owned(),
    }
}

impl Stream {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn guest(&self) -> &Guest {
        &self.guest
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), Error> {
        self.guest.send(self.number, message).map_err(|_| self.guest.ended())
    }

    /// The next message; an error if the machine has ended, nothing if `limit`
    /// has passed.
    pub(crate) fn receive(&self, limit: Option<Instant>) -> Result<Option<Message>, Error> {
        use std::sync::mpsc::RecvTimeoutError;
        let received = match limit {
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => {
                self.messages.recv_timeout(limit.saturating_duration_since(Instant::now()))
            }
        };
        match received {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.guest.ended()),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.guest.streams().open.remove(&self.number);
    }
}
