//! `kumiki node serve`: opens what a node's devices need, has a process without
//! privileges serve them, starts another one should that die, and takes requests for
//! devices that come and go.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use serde::{Deserialize, Serialize};

use super::control_socket::{connected, listening};
use super::fd_passing::{Answer, Order, handed, limit, pair, receive, send};
use super::irqfd;
use super::open::Kept;
use crate::program::NODED;
use crate::record;
use crate::spec::{Assigned, DeviceSpec};
use crate::{Error, ErrorKind, Refusal, Result, Subject};

/// A server that dies so often within so long is not started again.
const DEATHS: usize = 5;
const DEATHS_WITHIN: Duration = Duration::from_secs(20);
/// Time that the serving process may take for an order: to end a device it waits for its disk's
/// requests under way.
const ORDER_LIMIT: Duration = Duration::from_secs(30);
/// Time that the remains of a former server may take to go.
const LEAVING_LIMIT: Duration = Duration::from_secs(5);
/// Time that a client may take to state its request, and to hear the answer.
const CLIENT_LIMIT: Duration = Duration::from_secs(2);
/// Time that a client waits: longer than an order that is carried out at its second try.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Question to a server.
#[derive(Debug, Serialize, Deserialize)]
pub enum Control {
    /// One more device.
    Add(Assigned),
    /// One less, by its name.
    Remove(String),
    /// The node's memory as it is now: address and bytes of each piece.
    Memory(Vec<(u64, u64)>),
    /// A list of what it serves.
    List,
    /// Copies of its TAPs, a message each with the card's slot; then the connection ends.
    Taps,
}

/// A device as its server sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Served {
    /// Its name.
    pub name: String,
    /// Reason for which it is not there; none if it is.
    pub problem: Option<String>,
}

/// Answer of a server: what it serves now.
pub type Reply = std::result::Result<Vec<Served>, Refusal>;

/// Origin of the taps of a node's network cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taps {
    /// Opened by the server itself.
    Opened,
    /// Handed over by standard input.
    Handed,
}

struct Supervisor {
    name: String,
    device: Device,
    pieces: Vec<(u64, u64)>,
    devices: Vec<Assigned>,
    kept: Kept,
    problems: Vec<Served>,
    worker: Child,
    orders: OwnedFd,
}

/// Serves a running node's devices until it ends. Who waits for them reads standard
/// output: problems, a line each, `begun` when all that can be served is, and its end.
pub fn serve(name: &str, taps: Taps) -> Result<()> {
    let kept = match taps {
        Taps::Handed => Kept::handed(handed(std::io::stdin())?),
        Taps::Opened => Kept::default(),
    };
    let device = alone(name)?;
    let entry = sysfs::one(Holding::Node, name)?;
    let record = record::window(&device, &entry, Access::Read)?.1;
    let record = record.ok_or_else(|| record::incomplete(name))?;
    let requests = listening(&super::place(name)?)?.ok_or_else(|| {
        Error::refused(
            ErrorKind::Running,
            Subject::node(name),
            format!("node {name} is served already"),
        )
    })?;
    let pieces = entry.pieces.iter().map(|piece| (piece.address, piece.bytes)).collect();
    let (worker, orders) = worker()?;
    let mut supervisor = Supervisor {
        name: name.to_owned(),
        device,
        pieces,
        devices: record.devices,
        kept,
        problems: Vec::new(),
        worker,
        orders,
    };
    supervisor.begin()?;
    for Served { name, problem } in &supervisor.problems {
        if let Some(problem) = problem {
            println!("{name}: {problem}");
        }
    }
    println!("{}", super::BEGUN);
    std::io::stdout().flush().map_err(|error| Error::os("standard output", error))?;
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.map_err(|error| Error::file("/dev/null", error))?;
    rustix::stdio::dup2_stdout(&null).map_err(|error| Error::os("standard output", error))?;
    let ended = supervisor.run(&requests);
    let _ = fs::remove_file(super::place(name)?);
    ended
}

/// The right to be the node's devices, which one has at a time: of one that was killed something
/// may still be on its way out.
fn alone(name: &str) -> Result<Device> {
    let begin = Instant::now();
    loop {
        match Device::serve(name) {
            Err(error) if error.kind() == ErrorKind::Busy && begin.elapsed() < LEAVING_LIMIT => {
                std::thread::sleep(LEAVING_LIMIT / 100);
            }
            outcome => return outcome,
        }
    }
}

/// The process that serves, and the socket by which it is told what.
fn worker() -> Result<(Child, OwnedFd)> {
    let (ours, theirs) = pair()?;
    limit(&ours, ORDER_LIMIT)?;
    // The same program, also while another version of it is put in its place.
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NODED).args(["serve", "--worker"]).stdin(theirs).stdout(Stdio::null());
    let child = command.spawn().map_err(|error| Error::file("/proc/self/exe", error))?;
    // It maps the node's memory, which would else count as its own where memory runs short.
    let _ = fs::write(format!("/proc/{}/oom_score_adj", child.id()), "-999");
    Ok((child, ours))
}

impl Supervisor {
    /// Tells a new process of the node and all its devices.
    fn begin(&mut self) -> Result<()> {
        let node = Order::Node { name: self.name.clone(), pieces: self.pieces.clone() };
        let module = self.device.bell().try_clone();
        let module = module.map_err(|error| Error::os("copying a descriptor", error))?;
        let eventfds = irqfd::open().unwrap_or_else(|error| {
            eprintln!("{error}; kicks and calls go through the serving process");
            None
        });
        let files: Vec<_> = [module].into_iter().chain(eventfds).collect();
        self.ask(&node, &files)?.map_err(Error::Refused)?;
        drop(files);
        // One that was taken away while nobody served.
        let used: Vec<_> = self.devices.iter().map(|device| device.slot).collect();
        for slot in (0..abi::SLOTS).filter(|slot| !used.contains(slot)) {
            self.ask(&Order::Withdraw { slot }, &[])?.map_err(Error::Refused)?;
        }
        self.problems.clear();
        for device in self.devices.clone() {
            let problem = self.offer(&device, true).err().map(|error| error.to_string());
            if let Some(problem) = &problem {
                eprintln!("{}: {problem}", device.name);
            }
            self.problems.push(Served { name: device.name, problem });
        }
        Ok(())
    }

    /// Asks the serving process; one that does not answer is ended: another one takes over, as of
    /// one that has died.
    fn ask(&mut self, order: &Order, files: &[File]) -> Result<Answer> {
        let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let sent = send(&self.orders, order, &fds);
        let answer = sent.and_then(|()| receive::<Answer>(&self.orders)).inspect_err(|_| {
            let _ = self.worker.kill();
        });
        match answer? {
            Some((answer, _)) => Ok(answer),
            None => Err(Error::inner(ErrorKind::Lost, "the serving process has ended")),
        }
    }

    fn offer(&mut self, device: &Assigned, again: bool) -> Result<()> {
        let opened = self.kept.open(&self.name, device)?;
        let resume = again && opened.resumes;
        let (slot, name) = (device.slot, device.name.clone());
        let order = Order::Serve { slot, name, device: opened.passed, resume };
        let answer = self.ask(&order, &opened.files);
        // What one process has begun with is of no use to another.
        drop(opened.files);
        let served = answer.and_then(|answer| answer.map_err(Error::Refused));
        served.map_err(|error| error.about(|| Subject::device(&self.name, &device.name)))
    }

    fn run(&mut self, requests: &OwnedFd) -> Result<()> {
        let mut deaths: Vec<Instant> = Vec::new();
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(requests.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.orders.as_fd(), PollFlags::IN),
            ];
            let _ = poll(&mut fds, Some(&LOOK));
            let asked = fds[0].revents().contains(PollFlags::IN);
            let ended = self.worker.try_wait();
            match ended.map_err(|error| Error::os("the serving process", error))? {
                None => {}
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    eprintln!("the serving process of node {} has ended: {status}", self.name);
                    deaths.retain(|death| death.elapsed() < DEATHS_WITHIN);
                    deaths.push(Instant::now());
                    if deaths.len() >= DEATHS {
                        return Err(Error::refused(
                            ErrorKind::Lost,
                            Subject::node(&self.name),
                            format!(
                                "the devices of node {} have stopped: the serving process has died \
                             {DEATHS} times within {DEATHS_WITHIN:?}; kumiki node serve {0} tries \
                             again",
                                self.name
                            ),
                        ));
                    }
                    (self.worker, self.orders) = worker()?;
                    if let Err(error) = self.begin() {
                        eprintln!("{error}");
                    }
                }
            }
            self.look_after_what_vanishes();
            if asked {
                self.answer(requests);
            }
        }
    }

    /// A folder whose virtiofsd has ended, or a card whose TAP somebody has removed, is there no
    /// more.
    fn look_after_what_vanishes(&mut self) {
        for (slot, what) in self.kept.vanished() {
            self.kept.close(slot);
            let _ = self.ask(&Order::Withdraw { slot }, &[]);
            let Some(device) = self.devices.iter().find(|device| device.slot == slot) else {
                continue;
            };
            let text = format!("its {what}: remove it and add it again");
            eprintln!("{}: {text}", device.name);
            let of_it = self.problems.iter_mut().filter(|served| served.name == device.name);
            of_it.for_each(|served| served.problem = Some(text.clone()));
        }
    }

    fn answer(&mut self, requests: &OwnedFd) {
        let Ok(client) = accept_with(requests, SocketFlags::CLOEXEC) else { return };
        if limit(&client, CLIENT_LIMIT).is_err() {
            return;
        }
        let Ok(Some((control, _))) = receive::<Control>(&client) else { return };
        let served = match control {
            Control::Taps => return self.hand_over(&client),
            Control::List => Ok(self.problems.clone()),
            Control::Add(device) => self.add(device),
            Control::Remove(name) => self.remove(&name),
            Control::Memory(pieces) => self.remember(pieces),
        };
        let reply: Reply = served.map_err(|error| error.about(|| Subject::node(&self.name)).into());
        // A client that has gone has nothing to be told.
        let _ = send(&client, &reply, &[]);
    }

    fn hand_over(&self, client: &OwnedFd) {
        let cards = self.devices.iter().filter(|one| matches!(one.device, DeviceSpec::Net(_)));
        for slot in cards.map(|card| card.slot) {
            let queues: Vec<_> = self.kept.files(slot).iter().map(AsFd::as_fd).collect();
            if !queues.is_empty() && send(client, &slot, &queues).is_err() {
                // It has gone, and needs none.
                return;
            }
        }
    }

    /// A process that begins from here on is told of it, too.
    fn remember(&mut self, pieces: Vec<(u64, u64)>) -> Result<Vec<Served>> {
        self.pieces.clone_from(&pieces);
        self.ask(&Order::Memory { pieces }, &[])?.map_err(Error::Refused)?;
        Ok(self.problems.clone())
    }

    fn add(&mut self, device: Assigned) -> Result<Vec<Served>> {
        if let Err(error) = self.offer(&device, false) {
            self.kept.close(device.slot);
            return Err(error);
        }
        self.problems.push(Served { name: device.name.clone(), problem: None });
        self.devices.push(device);
        Ok(self.problems.clone())
    }

    fn remove(&mut self, name: &str) -> Result<Vec<Served>> {
        let at = self.devices.iter().position(|device| device.name == name);
        let at = at.ok_or_else(|| {
            Error::refused(
                ErrorKind::NotFound,
                Subject::device(&self.name, name),
                format!("no device {name} is served"),
            )
        })?;
        let device = self.devices.remove(at);
        self.problems.retain(|served| served.name != name);
        // A process that has died is followed by one that is not told of this device.
        let _ = self.ask(&Order::Withdraw { slot: device.slot }, &[]);
        self.kept.close(device.slot);
        Ok(self.problems.clone())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = self.worker.kill();
        let _ = self.worker.wait();
    }
}

/// The TAPs of a node's server, by their cards' slots; `None` if there is none.
pub fn taps(name: &str) -> Result<Option<Vec<(usize, File)>>> {
    let Some(socket) = connected(&super::place(name)?)? else { return Ok(None) };
    limit(&socket, ANSWER_LIMIT)?;
    send(&socket, &Control::Taps, &[])?;
    handed(&socket).map(Some)
}

/// Asks a node's server; `None` if there is none.
pub fn ask(name: &str, control: &Control) -> Result<Option<Vec<Served>>> {
    let Some(socket) = connected(&super::place(name)?)? else { return Ok(None) };
    limit(&socket, ANSWER_LIMIT)?;
    send(&socket, control, &[])?;
    let reply = receive::<Reply>(&socket);
    match reply.map_err(|error| error.about(|| Subject::node(name)))? {
        Some((reply, _)) => reply.map(Some).map_err(Error::Refused),
        None => Err(Error::refused(
            ErrorKind::Lost,
            Subject::node(name),
            format!("the server of node {name} has ended"),
        )),
    }
}
