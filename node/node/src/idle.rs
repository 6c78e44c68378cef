//! Nodes that sleep when nobody asks for them, and wake for the first who does.
//!
//! ```text
//!   quiet for so long -> its kernel sleeps in its memory, its cpus go back to the host
//!   a frame for it at a TAP (waits there), or a command (by a socket) -> cpus, SIPI, it goes on
//! ```
//!
//! With a file its memory goes to the host as well, and comes back before its cpus.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use kumiki_node_devices::record;
use kumiki_node_devices::runtime;
use kumiki_node_devices::serve::control_socket::{connected, listening};
use kumiki_node_devices::serve::fd_passing::{Answer, limit, receive, send};
use kumiki_node_devices::serve::open::Kept;
use kumiki_node_devices::serve::{self, wake_filter};
use kumiki_node_devices::spec::{Addressing, Assigned, DeviceSpec, mac_bytes};
use kumiki_node_devices::stowed::{Stowed, record_of};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};

use crate::{Error, ErrorKind, Node, Refusal, Result, Subject, Usage};

/// Nodes that sleep in files: as long as the machine is not restarted.
const FOLDER: &str = "/var/lib/kumiki";
/// Interval between two looks at a node that is awake, and at whether this is to end.
const LOOK: Duration = Duration::from_millis(500);
/// A node that computes more than this share of its processors' time is not idle.
const BUSY: f64 = 0.1;
/// Time that a command waits for a node that wakes, or falls asleep just now: its memory may have
/// to be written to a file, and to come back.
const WAKE_LIMIT: Duration = Duration::from_secs(600);
/// Pause before a node is tried again whose memory was not to be had.
const AGAIN: Duration = Duration::from_secs(5);
/// Time that a command may take to state its request.
const CLIENT_LIMIT: Duration = Duration::from_secs(1);

/// Path of the socket at which commands ask for a node that sleeps.
fn place(name: &str) -> Result<PathBuf> {
    runtime::file(&format!("{name}.idle"))
}

/// Default file for the memory of a node that sleeps.
pub fn default_file(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.asleep"))
}

/// Wakes a node that sleeps because nobody asked for it; one that is awake or at rest stays so.
///
/// # Errors
/// There is no such node, it does not sleep in its memory any more, or its memory is not to be had.
pub fn wake_if_idle(name: &str) -> Result<()> {
    if !is_asleep(name)? || asked_to_wake(name)? {
        return Ok(());
    }
    let node = Node::find(name)?;
    node.fetch()?;
    node.wake(Vec::new())
}

/// Has who watches a node wake it; `false` if nobody does.
fn asked_to_wake(name: &str) -> Result<bool> {
    let Some(socket) = connected(&place(name)?)? else { return Ok(false) };
    limit(&socket, WAKE_LIMIT)?;
    send(&socket, &(), &[])?;
    match receive::<Answer>(&socket)? {
        Some((answer, _)) => answer.map(|()| true).map_err(Error::Refused),
        // It has ended in the meantime, and its TAPs with it.
        None => Ok(false),
    }
}

/// Puts a node to sleep whenever nobody has asked for it for so long, and wakes it for a frame to
/// its address or a command, until `stop`. With a file it sleeps there, and its memory is the
/// host's. `told` hears of all that, with how long it took. A node that sleeps when this ends is
/// woken by commands alone.
pub fn idle(
    name: &str,
    after: Duration,
    file: Option<&Path>,
    stop: &AtomicBool,
    told: impl Fn(&str, Duration),
) -> Result<()> {
    let node = Node::find(name)?;
    // Whoever wakes it may be elsewhere.
    let file = file.map(|file| path::absolute(file).map_err(|error| Error::file(file, error)));
    let file = file.transpose()?;
    if file.is_some() && !is_asleep(name)? {
        node.may_be_stowed()?;
    }
    let place = place(name)?;
    let commands = listening(&place)?.ok_or_else(|| {
        Error::refused(
            ErrorKind::Running,
            Subject::node(name),
            format!("kumiki node idle {name} runs already"),
        )
    })?;
    let mut quiet: Option<Quiet> = None;
    let mut held = None;
    while !stop.load(Ordering::Relaxed) {
        if is_asleep(name)? {
            quiet = None;
            let taps = match held.take() {
                Some(taps) => taps,
                None => {
                    let taps = opened(&node)?;
                    only_for(&node, &taps)?;
                    first_queues(&taps).for_each(|(_, tap)| wake_filter::drain(tap));
                    taps
                }
            };
            // What comes meanwhile waits.
            if let Some(file) = &file {
                into_file(&node, file, &told)?;
            }
            let Some(first) = asked(&taps, &commands, stop)? else { break };
            let begin = Instant::now();
            let fetched = node.fetch();
            if let Err(error) = &fetched {
                told(&format!("not awake: {error}"), begin.elapsed());
                answer(first, &commands, &fetched);
                held = Some(taps);
                pause(AGAIN, stop);
                continue;
            }
            all_frames(&taps)?;
            let woken = node.wake(taps);
            answer(first, &commands, &woken);
            woken?;
            told("awake", begin.elapsed());
            continue;
        }
        let sign = sign(&node)?;
        match &quiet {
            Some(since) if sign.as_ref() == Some(&since.sign) => {
                if since.begin.elapsed() >= after && !is_busy(name, since)? {
                    let begin = Instant::now();
                    // Its server's, which ends with the node: without them the TAPs would be gone,
                    // with the host's address and route, until they are opened again.
                    let taps = serve::taps(name)?.unwrap_or_default();
                    // While it falls asleep, too: a question that comes then waits for the node.
                    only_for(&node, &taps)?;
                    let outcome = node.doze();
                    if outcome.is_err() {
                        all_frames(&taps)?;
                    }
                    match outcome {
                        Ok(()) => {
                            held = (!taps.is_empty()).then_some(taps);
                            told("asleep", begin.elapsed());
                            continue;
                        }
                        Err(error) if error.kind() == ErrorKind::NotRunning => {}
                        Err(error) => {
                            told(&format!("not asleep: {error}"), begin.elapsed());
                            quiet = None;
                        }
                    }
                }
            }
            _ => quiet = sign.map(|sign| Quiet::since_now(name, sign)),
        }
        thread::sleep(LOOK.min(after));
    }
    let _ = fs::remove_file(place);
    Ok(())
}

/// Has a node that sleeps in its memory sleep in a file; if it cannot, it stays where it is.
fn into_file(node: &Node, file: &Path, told: impl Fn(&str, Duration)) -> Result<()> {
    if Stowed::of(node.name())?.is_some() {
        return Ok(());
    }
    let begin = Instant::now();
    match node.stow(file) {
        Ok(bytes) => told(&format!("in {}, {bytes} bytes", file.display()), begin.elapsed()),
        Err(error) => told(&format!("its memory stays: {error}"), begin.elapsed()),
    }
    Ok(())
}

fn pause(time: Duration, stop: &AtomicBool) {
    let begin = Instant::now();
    while begin.elapsed() < time && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
    }
}

/// Signs of somebody who uses a node: frames at its cards, and talks.
#[derive(Debug, PartialEq, Eq)]
struct Sign {
    frames: u64,
    talks: usize,
}

struct Quiet {
    sign: Sign,
    begin: Instant,
    usage: Option<Usage>,
}

impl Quiet {
    fn since_now(name: &str, sign: Sign) -> Self {
        Quiet { sign, begin: Instant::now(), usage: Usage::of(name).ok() }
    }
}

fn is_busy(name: &str, since: &Quiet) -> Result<bool> {
    let Some(before) = &since.usage else { return Ok(false) };
    Ok(Usage::of(name)?.busy_since(before).is_some_and(|share| share > BUSY))
}

fn is_asleep(name: &str) -> Result<bool> {
    let entry = sysfs::one(Holding::Node, name)?;
    if entry.runs() {
        return Ok(false);
    }
    let device = Device::read(Holding::Node, name)?;
    Ok(record_of(&device, &entry)?.is_some_and(|record| record.idle))
}

/// None: it does not answer, or somebody talks to it just now.
fn sign(node: &Node) -> Result<Option<Sign>> {
    let entry = sysfs::one(Holding::Node, node.name())?;
    if !entry.runs() || entry.word != abi::WORD_READY {
        return Ok(None);
    }
    let device = Device::read(Holding::Node, node.name())?;
    let (window, record) = record::window(&device, &entry, Access::Read)?;
    let free = |number: &usize| window.channel(*number).state() == abi::CHANNEL_FREE;
    let talks = abi::CHANNELS - (0..abi::CHANNELS).filter(free).count();
    let cards = record.map(|record| record.devices).unwrap_or_default();
    let frames = cards.iter().filter(|card| is_card(card)).flat_map(|card| {
        let folder = format!("/sys/class/net/{}/statistics", card.tap(node.name()));
        ["rx_packets", "tx_packets"].map(|file| format!("{folder}/{file}"))
    });
    let count = |path: String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let frames = frames.filter_map(count).sum();
    Ok((talks == 0).then_some(Sign { frames, talks }))
}

fn is_card(device: &Assigned) -> bool {
    matches!(device.device, DeviceSpec::Net(_))
}

/// The queues of the cards' TAPs, opened as the node's server does.
fn opened(node: &Node) -> Result<Vec<(usize, File)>> {
    let mut kept = Kept::default();
    let mut taps = Vec::new();
    for card in node.assigned()?.iter().filter(|card| is_card(card)) {
        kept.open(node.name(), card)?;
        taps.extend(kept.take(card.slot).into_iter().map(|tap| (card.slot, tap)));
    }
    Ok(taps)
}

/// Has the TAPs let only through what is for the node.
fn only_for(node: &Node, taps: &[(usize, File)]) -> Result<()> {
    let cards = node.assigned()?;
    for (slot, tap) in first_queues(taps) {
        let Some(card) = cards.iter().find(|card| card.slot == slot) else { continue };
        let address = match &card.device {
            DeviceSpec::Net(net) => match net.address {
                Addressing::Static(address) => Some(address.address),
                _ => card.user_address(node.name()).map(|address| address.address),
            },
            _ => None,
        };
        wake_filter::only(tap, mac_bytes(&card.mac(node.name())).unwrap_or_default(), address)?;
    }
    Ok(())
}

/// First queue of each TAP: no other one is attached while the node sleeps.
fn first_queues(taps: &[(usize, File)]) -> impl Iterator<Item = (usize, &File)> {
    let cards = taps.chunk_by(|(a, _), (b, _)| a == b);
    cards.map(|queues| (queues[0].0, &queues[0].1))
}

/// Ends what [`only_for`] has begun.
fn all_frames(taps: &[(usize, File)]) -> Result<()> {
    first_queues(taps).try_for_each(|(_, tap)| wake_filter::detach(tap))
}

/// Waits for a frame or a command, which then waits for the answer; `None` at the end.
fn asked(
    taps: &[(usize, File)],
    commands: &OwnedFd,
    stop: &AtomicBool,
) -> Result<Option<Vec<OwnedFd>>> {
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    while !stop.load(Ordering::Relaxed) {
        let mut fds = vec![PollFd::new(commands, PollFlags::IN)];
        fds.extend(first_queues(taps).map(|(_, tap)| PollFd::new(tap, PollFlags::IN)));
        match poll(&mut fds, Some(&look)) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(Error::os("waiting for who asks for a node", error)),
            Ok(_) => {}
        }
        let is_there = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
        if fds[1..].iter().any(is_there) {
            return Ok(Some(Vec::new()));
        }
        let client = if is_there(&fds[0]) { client(commands) } else { None };
        if let Some(client) = client {
            return Ok(Some(vec![client]));
        }
    }
    Ok(None)
}

/// The next command that wants the node, and does not merely look whether somebody is here.
fn client(commands: &OwnedFd) -> Option<OwnedFd> {
    let client = accept_with(commands, SocketFlags::CLOEXEC).ok()?;
    limit(&client, CLIENT_LIMIT).ok()?;
    receive::<()>(&client).ok()?.map(|_| client)
}

/// Tells each command that waits.
fn answer(first: Vec<OwnedFd>, commands: &OwnedFd, woken: &Result<()>) {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_more = || {
        let mut fds = [PollFd::from_borrowed_fd(commands.as_fd(), PollFlags::IN)];
        matches!(poll(&mut fds, Some(&none)), Ok(1))
    };
    let others = std::iter::from_fn(|| is_more().then(|| client(commands)));
    for client in first.into_iter().chain(others.flatten()) {
        let answer: Answer = match woken {
            Ok(()) => Ok(()),
            Err(error) => Err(Refusal::from(error)),
        };
        // A client that has gone has nothing to be told.
        let _ = send(&client, &answer, &[]);
    }
}
