//! What the paper's introduction is for: a message's latency hidden. Main computes while
//! its shadow sends, receives and copies; beside it one thread does both in turn.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_shadow::Threshold;

use super::{Helped, waiting};

const ABOUT: &str = "a computation of some microseconds and a message that is sent, received and \
                     copied: one after the other (plain), or the message by the shadow";

/// Fits a socket's buffers, so that one thread can send and then receive it.
const TCP_BYTES: usize = 16 << 10;
const SHARED_BYTES: usize = 128 << 10;
/// Numbers of the computation, each added when the one before has been.
const NUMBERS: usize = 8 << 10;

pub(super) fn cases() -> Vec<Case> {
    let case = |by: &'static str, way: &'static str, make: fn() -> Result<Message>| {
        let helps = way == "shadow";
        let setup = move |place: &Place| Exchange::new(place, make, helps);
        let case = Case::new("shadow.message", ABOUT, setup).with("by", by).with("way", way);
        let case = case.level(Level::Default);
        if helps { case.two_cpus() } else { case }
    };
    let ways = ["plain", "shadow"].into_iter();
    ways.flat_map(|way| {
        [
            case("tcp", way, || Message::over(Tcp::new()?, TCP_BYTES)),
            case("shared_memory", way, || {
                Message::over(Shared(vec![0; SHARED_BYTES]), SHARED_BYTES)
            }),
        ]
    })
    .collect()
}

/// Way that a message takes.
trait Link: Send {
    fn exchange(&mut self, sent: &[u8], received: &mut [u8]) -> std::io::Result<()>;
}

/// Both ends of a connection over the loopback interface.
struct Tcp {
    near: TcpStream,
    far: TcpStream,
}

impl Tcp {
    fn new() -> Result<Self> {
        let connect = || -> std::io::Result<Tcp> {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            let (far, _) = listener.accept()?;
            near.set_nodelay(true)?;
            Ok(Tcp { near, far })
        };
        connect().map_err(|error| Error::os("connect over the loopback interface", error))
    }
}

impl Link for Tcp {
    fn exchange(&mut self, sent: &[u8], received: &mut [u8]) -> std::io::Result<()> {
        self.near.write_all(sent)?;
        self.far.read_exact(received)
    }
}

/// Memory between two that know it.
struct Shared(Vec<u8>);

impl Link for Shared {
    fn exchange(&mut self, sent: &[u8], received: &mut [u8]) -> std::io::Result<()> {
        self.0.copy_from_slice(sent);
        received.copy_from_slice(black_box(&self.0));
        Ok(())
    }
}

/// A message with its link and where it goes in the end.
struct Message {
    link: Box<dyn Link>,
    sent: Vec<u8>,
    received: Vec<u8>,
    kept: Vec<u8>,
}

impl Message {
    fn over(link: impl Link + 'static, bytes: usize) -> Result<Self> {
        let [sent, received, kept] = [1_u8, 0, 0].map(|byte| vec![byte; bytes]);
        Ok(Message { link: Box::new(link), sent, received, kept })
    }

    fn pass(&mut self) -> std::io::Result<()> {
        self.link.exchange(&self.sent, &mut self.received)?;
        self.kept.copy_from_slice(&self.received);
        Ok(())
    }
}

struct Exchange {
    message: Message,
    numbers: Vec<f32>,
    helped: Option<Helped>,
}

impl Exchange {
    fn new(place: &Place, make: fn() -> Result<Message>, helps: bool) -> Result<Self> {
        let helper = || Helped::new(place, waiting(Threshold::Infinite));
        let helped = helps.then(helper).transpose()?;
        Ok(Exchange { message: make()?, numbers: vec![1.0; NUMBERS], helped })
    }
}

fn compute(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |sum, number| black_box(sum + number))
}

impl Workload for Exchange {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let Exchange { message, numbers, helped } = self;
        let failed = |error| Error::os("pass a message", error);
        meter.time(|| {
            for _ in 0..iterations {
                let passed = match helped {
                    None => {
                        let passed = message.pass();
                        black_box(compute(numbers));
                        passed
                    }
                    Some(helped) => {
                        let (sum, passed) =
                            helped.shadow.both(|| compute(numbers), || message.pass());
                        black_box(sum);
                        passed
                    }
                };
                passed.map_err(failed)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_by_every_link() {
        let links: [fn() -> Result<Message>; 2] = [
            || Message::over(Tcp::new()?, TCP_BYTES),
            || Message::over(Shared(vec![0; SHARED_BYTES]), SHARED_BYTES),
        ];
        for make in links {
            let mut message = make().unwrap();
            for byte in [7, 8] {
                message.sent.fill(byte);
                message.pass().unwrap();
                assert!(message.kept.iter().all(|kept| *kept == byte));
            }
        }
        assert_eq!(compute(&[1.0, 2.0, 3.0]), 6.0);
    }
}
