//! Faults that come one after the other, drawn by the seed.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use nix::sys::signal::Signal;

use crate::child::Server;
use crate::soak::Soak;
use crate::watch::LOST;

/// A spell without faults, now and then: longer than an answer may take.
const QUIET: Duration = LOST.saturating_add(Duration::from_secs(3));
/// Such a spell comes before one fault of so many.
const QUIET_EACH: u8 = 12;

type Make<'a> = Box<dyn FnMut(&mut Rng) -> Result<()> + Send + 'a>;

/// A fault, with the name by which it is counted.
pub(crate) struct Fault<'a> {
    pub(crate) name: &'static str,
    pub(crate) make: Make<'a>,
}

impl<'a> Fault<'a> {
    pub(crate) fn new(
        name: &'static str,
        make: impl FnMut(&mut Rng) -> Result<()> + Send + 'a,
    ) -> Fault<'a> {
        Fault { name, make: Box::new(make) }
    }
}

/// Makes one after the other until the run is over; several threads may do so, each with faults of
/// its own.
pub(crate) fn draw(soak: &Soak, mut faults: Vec<Fault<'_>>, pause: Duration) {
    let names = faults.iter().flat_map(|fault| fault.name.bytes());
    let mut rng = soak.rng(names.fold(1 << 32, |sum, byte| sum + u64::from(byte)));
    while !soak.is_over() {
        // Else the next death ends each request whose answer has been lost, and nobody sees that it was.
        let spell = if rng.u8(..QUIET_EACH) == 0 { QUIET } else { Duration::ZERO };
        soak.sleep(spell + pause.mul_f64(2.0 * rng.f64()));
        let fault = rng.usize(..faults.len());
        let Fault { name, make } = &mut faults[fault];
        match make(&mut rng).with_context(|| format!("the fault {name:?} could not be made")) {
            Ok(()) => soak.count(&format!("fault: {name}")),
            Err(error) => soak.fail(&format!("{error:#}")),
        }
    }
}

/// Stops the server for up to half a second.
pub(crate) fn stopped<'a>(server: &'a Server) -> Fault<'a> {
    Fault::new("stopped by SIGSTOP", move |rng| {
        server.signal(Signal::SIGSTOP)?;
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        server.signal(Signal::SIGCONT)
    })
}

/// Uses up what descriptors the server has, by connections that say nothing.
pub(crate) fn descriptors_out<'a>(soak: &'a Soak, address: SocketAddr, many: usize) -> Fault<'a> {
    Fault::new("descriptors out", move |rng| {
        soak.excuse(Duration::from_secs(3));
        let idle: Vec<_> = (0..many).map_while(|_| TcpStream::connect(address).ok()).collect();
        std::thread::sleep(Duration::from_millis(rng.u64(1..500)));
        drop(idle);
        Ok(())
    })
}
