//! A program part called by one interface control, wherever its resource is, beside what that place was called by
//! before: on the caller's core, on the other one, and of another process by memory that both map.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use kumiki_measure::stopwatch::{Amount, Stopwatch};
use kumiki_places::standard::{Add, Counter, parts};
use kumiki_places::{Allow, Control, Lease, Server};
use kumiki_resource::{Interface, Manager, Place};

use crate::child::{turns, with_us};
use crate::pair::Pair;

use super::request::Request;
use super::together::Together;

/// An interface of both cpus, the caller's managed by this thread, and its two places.
fn both(pair: Pair) -> Result<(Interface, Manager, [Place; 2])> {
    pair.bind_both()?;
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([pair.helper]).adopted([pair.main]).per_core()?;
    pair.bind_main()?;
    let places = [pair.main, pair.helper].map(|cpu| interface.place(&format!("core{cpu}")));
    let [own, other] = places;
    let (own, other) = (own?, other?);
    let manager = interface.manage(own)?;
    Ok((interface, manager, [own, other]))
}

/// Serves by one call on this core, on the other one, and in another process, where there is one.
fn serve(
    home: impl FnMut(),
    mut core: impl FnMut(),
    mut process: Option<impl FnMut()>,
) -> Result<()> {
    let watch = Stopwatch::new();
    let mut home = Together::alone(home);
    turns(|request| match request {
        Request::ControlHome => Ok(home.turn(1)),
        Request::ControlCore => Ok(Some(watch.each(Amount::hot(300), &mut core))),
        Request::ControlProcess => {
            Ok(process.as_mut().map(|call| watch.each(Amount::hot(300), call)))
        }
        _ => Ok(None),
    })
}

const SERVES: &str = "it serves";

/// The word of a process that serves a place at a socket.
pub(crate) const PEER: &str = "control-peer";

/// Is such a process, on this cpu.
pub(crate) fn serve_peer(host: &str, cpu: usize) -> Result<()> {
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core()?;
    let server = Server::here(host).parts(parts()).allow(Allow::everything()).managing();
    let served = server.serve(&interface)?;
    println!("{}", served.names().first().context("a place")?);
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

/// A process that serves a place on this cpu until it is dropped.
struct SocketPeer {
    child: Child,
    place: String,
}

impl SocketPeer {
    fn start(host: &str, cpu: usize) -> Result<SocketPeer> {
        let own = std::env::current_exe().context("finding our own program")?;
        let mut command = with_us(&own);
        command.args([PEER, host, &cpu.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = child.stdout.take().context("its standard output")?;
        // It ends also where it says nothing.
        let mut peer = SocketPeer { child, place: String::new() };
        BufReader::new(said).read_line(&mut peer.place)?;
        peer.place.truncate(peer.place.trim_end().len());
        ensure!(!peer.place.is_empty(), "the process that is to serve a place has ended");
        Ok(peer)
    }
}

impl Drop for SocketPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves by bindings of one interface control.
pub(crate) fn kumiki(pair: Pair) -> Result<()> {
    let host = format!("bench{}", std::process::id());
    pair.bind_both()?;
    let peer = SocketPeer::start(&host, pair.helper)?;
    let (interface, _manager, [own, other]) = both(pair)?;
    let control = Control::builder().home(&interface, parts()).build()?;
    let bound = |place: &str| {
        let counter = control.create::<Counter>(place, None, 0)?;
        control.bind::<Add>(&counter)
    };
    let mut home = bound(&interface.place_name(own)?)?;
    let mut core = bound(&interface.place_name(other)?)?;
    let mut process = bound(&peer.place)?;
    serve(
        || _ = home.call(1).expect(SERVES),
        || _ = core.call(1).expect(SERVES),
        Some(|| _ = process.call(1).expect(SERVES)),
    )
}

/// Serves by closures at the interface.
pub(crate) fn interface(pair: Pair) -> Result<()> {
    let (interface, _manager, places) = both(pair)?;
    let [own, other] = places.map(|place| interface.create::<Counter>(place, None, 0));
    let (own, other) = (own?, other?);
    let add = |counter: &mut Counter, (): &mut ()| {
        counter.0 = counter.0.wrapping_add(1);
        counter.0
    };
    serve(
        || _ = std::hint::black_box(interface.with(&own, add).expect(SERVES)),
        || _ = interface.with(&other, add).expect(SERVES),
        None::<fn()>,
    )
}
