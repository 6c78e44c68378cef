//! What a watchman says, by datagrams: who reads them needs no access to the node. A line each, as
//! of netconsole: `nc -klu PORT` shows them, and nothing is ever answered.

use std::cell::{Cell, RefCell};
use std::net::{ToSocketAddrs, UdpSocket};

use crate::{Error, ErrorKind, Result, Subject};

const UDP: &str = "udp:";

/// A receiver, looked for until it is found: its network may come later than the order.
pub(super) struct Voice<'a> {
    to: Option<&'a str>,
    socket: RefCell<Option<UdpSocket>>,
    has_failed: Cell<bool>,
}

impl<'a> Voice<'a> {
    pub(super) fn to(to: Option<&'a str>) -> Self {
        Voice { to, socket: RefCell::default(), has_failed: Cell::new(false) }
    }

    /// Refuses what is no receiver.
    pub(super) fn check(to: &str) -> Result<()> {
        address(to).map(drop)
    }

    /// Sends a line; `log` is told once if that cannot be done.
    pub(super) fn say(&self, text: &str, log: &dyn Fn(&str)) {
        let Some(to) = self.to else { return };
        let mut socket = self.socket.borrow_mut();
        if socket.is_none() {
            match connected(to) {
                Ok(found) => *socket = Some(found),
                Err(error) if !self.has_failed.replace(true) => {
                    log(&format!("nobody hears this: {error}"));
                }
                Err(_) => {}
            }
        }
        if let Some(socket) = &*socket {
            let node = rustix::system::uname();
            let node = node.nodename().to_string_lossy();
            // One that is lost is in the node's log.
            let _ = socket.send(format!("kumiki: {node}: {text}\n").as_bytes());
        }
    }
}

fn address(to: &str) -> Result<&str> {
    let address = to.strip_prefix(UDP).filter(|address| match address.rsplit_once(':') {
        Some((host, port)) => !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0),
        None => false,
    });
    address.ok_or_else(|| {
        Error::refused(
            ErrorKind::Invalid,
            Subject::Word(to.to_owned()),
            format!("{to} is no receiver: udp:HOST:PORT"),
        )
    })
}

fn connected(to: &str) -> Result<UdpSocket> {
    let failed = |error| Error::os(format!("sending to {to}"), error);
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in address(to)?.to_socket_addrs().map_err(failed)? {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        match UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lines_are_heard_with_the_name_of_their_node() {
        let ear = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = format!("udp:{}", ear.local_addr().unwrap());
        Voice::check(&to).unwrap();
        let voice = Voice::to(Some(&to));
        voice.say("THE HOST IS DEAD: panic", &|text| panic!("{text}"));
        voice.say("node n2: ready", &|text| panic!("{text}"));
        let hear = || {
            let mut bytes = [0; 200];
            let length = ear.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert_eq!(hear(), format!("kumiki: {name}: THE HOST IS DEAD: panic\n"));
        assert_eq!(hear(), format!("kumiki: {name}: node n2: ready\n"));
    }

    #[test]
    fn that_nobody_hears_it_is_said_once() {
        // The kernel lets nobody connect there who has not asked for broadcasts.
        let said = RefCell::new(Vec::new());
        let log = |text: &str| said.borrow_mut().push(text.to_owned());
        let voice = Voice::to(Some("udp:255.255.255.255:514"));
        voice.say("one", &log);
        voice.say("two", &log);
        let said = said.borrow();
        assert!(said.len() == 1 && said[0].contains("255.255.255.255"), "{said:?}");
        Voice::to(None).say("nobody asked", &|text| panic!("{text}"));
        for to in ["tcp:10.0.0.1:9", "udp:here", "udp::9", "udp:here:0", "udp:here:many"] {
            assert!(Voice::check(to).unwrap_err().to_string().contains("udp:HOST:PORT"), "{to}");
        }
    }
}
