//! A program part of a place called by a line in memory that both sides see, as from one kernel to another: the place
//! is the other cpu's, and a memfd is the window.

use std::os::unix::net::UnixStream;
use std::thread;

use anyhow::{Context, Result};
use kumiki_measure::stopwatch::{Amount, Stopwatch};
use kumiki_places::standard::{Add, Counter, parts};
use kumiki_places::{Allow, Lease, Lines, Server, relay};
use kumiki_resource::Interface;
use kumiki_sys::shm::{Huge, Shared, Window};

use crate::child::turns;
use crate::pair::Pair;

use super::request::Request;

/// Lanes of the memory.
const BYTES: usize = 4 * 4096;

pub(crate) fn kumiki(pair: Pair) -> Result<()> {
    let host = format!("bench{}", std::process::id());
    let memory = Shared::new("kumiki-bench-window", BYTES, Huge::Policy)?;
    let window = || Window::map(memory.fd(), 0, BYTES);
    pair.bind_both()?;
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([pair.helper]).per_core()?;
    let server = Server::here(&host).parts(parts()).allow(Allow::everything());
    let served = server.window(window()?).managing().serve(&interface)?;
    let place = served.names().first().context("a place")?.to_string();

    let (near, far) = UnixStream::pair()?;
    let its = host.clone();
    // It has words of lanes that open, and nothing to do in a call.
    let relayed = move || -> Result<()> {
        far.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (from, to) = tokio::net::UnixStream::from_std(far)?.into_split();
            Ok(relay(&its, None, from, to).await?)
        })
    };
    thread::spawn(relayed);
    pair.bind_main()?;
    let lines = Lines::open(&host, near, window()?, 0)?;
    let mut line = lines.line(&place)?;
    let hits = line.create::<Counter>(None, &0)?;
    let watch = Stopwatch::new();
    turns(|request| match request {
        Request::LineCall => Ok(Some(watch.each(Amount::hot(300), || {
            line.call::<Add>(&hits, &1).expect("it serves");
        }))),
        _ => Ok(None),
    })
}
