//! Network interfaces by their oldest requests, in host and node alike: up, address,
//! largest frame, bridge, default route. IPv4.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl};
use rustix::net::{AddressFamily, SocketType, socket};
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, Subject};

/// The most letters of a name, with a zero.
const NAME_BYTES: usize = 16;
const GETFLAGS: Opcode = 0x8913;
const SETFLAGS: Opcode = 0x8914;
const SETADDRESS: Opcode = 0x8916;
const SETNETMASK: Opcode = 0x891c;
const SETMTU: Opcode = 0x8922;
const ADDROUTE: Opcode = 0x890b;
const ADDTOBRIDGE: Opcode = 0x89a2;
const ADDBRIDGE: Opcode = 0x89a0;
const REMOVEBRIDGE: Opcode = 0x89a1;
const UP: u16 = 1;
const ROUTE_UP: u16 = 1;
const ROUTE_GATEWAY: u16 = 2;
const INET: u16 = 2;

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of the network.
    pub prefix: u8,
}

impl std::str::FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: an address such as 10.1.0.2/24 is expected");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address = address.parse().map_err(|_| wrong())?;
        let prefix = prefix.parse().ok().filter(|prefix| (1..=32).contains(prefix));
        Ok(Address { address, prefix: prefix.ok_or_else(wrong)? })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SocketAddress {
    family: u16,
    port: u16,
    address: [u8; 4],
    rest: [u8; 8],
}

impl SocketAddress {
    fn of(address: Ipv4Addr) -> Self {
        SocketAddress { family: INET, address: address.octets(), ..Default::default() }
    }
}

/// `struct ifreq`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request<T> {
    name: [u8; NAME_BYTES],
    value: T,
    rest: [u8; 8],
}

/// `struct rtentry`.
#[repr(C)]
struct Route {
    reserved0: u64,
    target: SocketAddress,
    gateway: SocketAddress,
    mask: SocketAddress,
    flags: u16,
    reserved1: [u16; 3],
    reserved2: [u64; 2],
    metric: i16,
    reserved3: [u16; 3],
    device: usize,
    reserved4: [u64; 3],
}

type Number = [u8; 16];
const _: () = {
    assert!(size_of::<Request<SocketAddress>>() == 40);
    assert!(size_of::<Request<Number>>() == 40);
    assert!(size_of::<Route>() == 120);
};

/// An interface of this kernel.
#[derive(Debug)]
pub struct Interface {
    name: String,
    socket: OwnedFd,
}

impl Interface {
    pub fn named(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() >= NAME_BYTES || name.contains(['/', ' ']) {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::Interface(name.to_owned()),
                format!(
                    "{name:?}: an interface's name has 1 to {} letters, no space and no slash",
                    NAME_BYTES - 1
                ),
            ));
        }
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)
            .map_err(|error| Error::os("a socket to set an interface up", error))?;
        Ok(Interface { name: name.to_owned(), socket })
    }

    /// The one with this hardware address; `None` if it is not there (yet).
    pub fn with_mac(mac: &str) -> Option<String> {
        let entries = fs::read_dir("/sys/class/net").ok()?.flatten();
        let is = |entry: &fs::DirEntry| {
            fs::read_to_string(entry.path().join("address")).is_ok_and(|text| text.trim() == mac)
        };
        entries.into_iter().find(is).map(|entry| entry.file_name().to_string_lossy().into_owned())
    }

    fn request<T>(&self, value: T) -> Request<T> {
        let mut name = [0; NAME_BYTES];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        Request { name, value, rest: [0; 8] }
    }

    fn set<const CODE: Opcode, T>(&self, value: T, doing: &str) -> Result<()> {
        const { assert!(size_of::<T>() == 16) };
        // SAFETY: these requests read one `struct ifreq`, which this is.
        let setter = unsafe { Setter::<CODE, Request<T>>::new(self.request(value)) };
        // SAFETY: as above.
        unsafe { ioctl(&self.socket, setter) }.map_err(|error| self.failed(doing, error))
    }

    fn failed(&self, doing: &str, error: Errno) -> Error {
        Error::os(format!("{doing} interface {}", self.name), error)
    }

    pub fn up(&self) -> Result<()> {
        self.switch(|flags| flags | UP, "switching on")
    }

    pub fn down(&self) -> Result<()> {
        self.switch(|flags| flags & !UP, "switching off")
    }

    fn switch(&self, to: impl Fn(u16) -> u16, doing: &str) -> Result<()> {
        let mut request = self.request([0_u8; 16]);
        // SAFETY: this request reads and writes one `struct ifreq`, which this is.
        let updater = unsafe { Updater::<GETFLAGS, _>::new(&mut request) };
        // SAFETY: as above.
        unsafe { ioctl(&self.socket, updater) }
            .map_err(|error| self.failed("looking at", error))?;
        let flags = to(u16::from_ne_bytes([request.value[0], request.value[1]]));
        self.set::<SETFLAGS, Number>(number(flags.into()), doing)
    }

    pub fn set_address(&self, address: Address) -> Result<()> {
        self.set::<SETADDRESS, _>(SocketAddress::of(address.address), "giving an address to")?;
        let mask = Ipv4Addr::from(u32::MAX << (32 - u32::from(address.prefix)));
        self.set::<SETNETMASK, _>(SocketAddress::of(mask), "giving a network to")
    }

    pub fn set_mtu(&self, bytes: u16) -> Result<()> {
        self.set::<SETMTU, Number>(number(bytes.into()), "setting the MTU of")
    }

    /// Makes a bridge of this name.
    pub fn make_bridge(&self) -> Result<()> {
        self.by_name::<ADDBRIDGE>().map_err(|error| match error {
            Errno::NOPKG | Errno::NOTTY | Errno::INVAL => Error::Unsupported {
                feature: format!("a bridge ({})", self.name),
                needs: "load the module bridge (modprobe bridge)".into(),
            },
            error => self.failed("making", error),
        })
    }

    /// Removes the bridge of this name.
    pub fn remove_bridge(&self) -> Result<()> {
        self.by_name::<REMOVEBRIDGE>().map_err(|error| self.failed("removing", error))
    }

    fn by_name<const CODE: Opcode>(&self) -> rustix::io::Result<()> {
        // SAFETY: these requests read a name of so many bytes with a zero at its end.
        let setter = unsafe { Setter::<CODE, [u8; NAME_BYTES]>::new(self.request(()).name) };
        // SAFETY: as above.
        unsafe { ioctl(&self.socket, setter) }
    }

    /// Makes it a port of a bridge.
    pub fn join(&self, bridge: &str) -> Result<()> {
        let path = format!("/sys/class/net/{}/ifindex", self.name);
        let index = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        let index: u32 = index.trim().parse().unwrap_or(0);
        match Interface::named(bridge)?.set::<ADDTOBRIDGE, Number>(number(index), "adding to") {
            Err(Error::Os { source, .. }) if source.kind() == std::io::ErrorKind::ResourceBusy => {
                Ok(())
            }
            Err(Error::Os { source, .. }) => Err(Error::refused(
                ErrorKind::Invalid,
                Subject::Interface(bridge.to_owned()),
                format!(
                    "{bridge} takes no port: {source}; make it a bridge (ip link add {bridge} type bridge)"
                ),
            )),
            joined => joined,
        }
    }

    /// Sends what is for nobody near to this address.
    pub fn set_gateway(&self, gateway: Ipv4Addr) -> Result<()> {
        let any = SocketAddress::of(Ipv4Addr::UNSPECIFIED);
        let route = Route {
            reserved0: 0,
            target: any,
            gateway: SocketAddress::of(gateway),
            mask: any,
            flags: ROUTE_UP | ROUTE_GATEWAY,
            reserved1: [0; 3],
            reserved2: [0; 2],
            metric: 0,
            reserved3: [0; 3],
            device: 0,
            reserved4: [0; 3],
        };
        // SAFETY: this request reads one `struct rtentry`, which this is.
        let setter = unsafe { Setter::<ADDROUTE, Route>::new(route) };
        // SAFETY: as above; no name of a device is given.
        match unsafe { ioctl(&self.socket, setter) } {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(Error::os(format!("sending by {gateway}"), error)),
        }
    }
}

fn number(value: u32) -> Number {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&value.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_network() {
        let address: Address = "10.1.0.2/24".parse().unwrap();
        assert_eq!(address.to_string(), "10.1.0.2/24");
        for bad in ["", "10.1.0.2", "10.1.0/24", "10.1.0.2/33", "10.1.0.2/0", "a/8"] {
            assert!(bad.parse::<Address>().unwrap_err().contains("10.1.0.2/24"), "{bad}");
        }
    }

    #[test]
    fn the_loopback_is_found_by_its_address() {
        assert_eq!(Interface::with_mac("00:00:00:00:00:00").as_deref(), Some("lo"));
        assert_eq!(Interface::with_mac("02:ff:ff:ff:ff:fe"), None);
        assert!(Interface::named("a/b").is_err() && Interface::named(&"x".repeat(16)).is_err());
    }
}
