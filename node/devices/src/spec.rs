//! Devices that a node is given, as a person writes them.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::interface::Address;

/// A device to give to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceSpec {
    /// A network card.
    Net(Net),
    /// A disk.
    Disk(Disk),
    /// A folder of the host.
    Share(Share),
    /// A vsock with this CID: AF_VSOCK on both sides.
    Vsock(u32),
    /// Random numbers of the host's.
    Rng,
    /// A console: /dev/hvc0 there, a terminal here.
    Console,
}

/// A network card: a TAP of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Net {
    /// The TAP; made if there is none. Without a name, one of the node's and card's.
    pub tap: Option<String>,
    /// The host's bridge that the TAP is a port of.
    pub bridge: Option<String>,
    /// The host's address on the TAP.
    pub host: Option<Address>,
    /// Hardware address, lower case with colons; of the node's and card's names if not given.
    pub mac: Option<String>,
    /// The largest frame, bytes.
    pub mtu: Option<u16>,
    /// Pairs of queues, one for each cpu that is to have its own; one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u16>,
    /// The node's own address.
    pub address: Addressing,
    /// Router for addresses that are not near.
    pub gateway: Option<Ipv4Addr>,
}

/// The most pairs of queues of a card.
pub const QUEUES: u16 = 8;

/// Way in which a node's card gets its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// No address from us.
    #[default]
    None,
    /// The node asks for one.
    Dhcp,
    /// A TAP of the host's own network for nodes, by the node's and card's names.
    User,
    /// This one.
    Static(Address),
}

/// A disk: a file or a block device of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Path of the file.
    pub file: PathBuf,
    /// The node cannot write it.
    pub read_only: bool,
    /// Up to 20 letters, `/sys/block/vda/serial` in the node.
    pub serial: Option<String>,
    /// Read and written past the host's page cache.
    #[serde(default)]
    pub direct: bool,
}

/// A folder of the host, mounted in the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Path of the folder.
    pub folder: PathBuf,
    /// Mount point.
    pub at: PathBuf,
    /// The node cannot write it.
    pub read_only: bool,
}

/// A device of a node: its name there and its slot on the bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    /// `net0`, `disk0`, …
    pub name: String,
    pub slot: usize,
    /// Time at which it was given, ns since 1970: one that was taken away may have had the same
    /// name and slot.
    #[serde(default)]
    pub given_ns: u64,
    /// Kind and source.
    #[serde(flatten)]
    pub device: DeviceSpec,
}

/// Words separated by commas, of which two stand for one that belongs to a word, as QEMU has it.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == ',' && letters.next_if_eq(&',').is_none() {
            words.push(String::new());
        } else if let Some(last) = words.last_mut() {
            last.push(letter);
        }
    }
    words
}

/// The first of such words, and `key` or `key=value`.
fn words(all: &[String]) -> (&str, Vec<(&str, Option<&str>)>) {
    let (first, rest) = all.split_first().map_or(("", &[][..]), |(first, rest)| (&**first, rest));
    let pairs =
        rest.iter().map(|word| word.split_once('=').map_or((&**word, None), |(k, v)| (k, Some(v))));
    (first, pairs.collect())
}

/// A network interface's name has no more.
const TAP_LETTERS: usize = 15;

fn unknown(key: &str, known: &str) -> String {
    format!("{key}: one of {known} is expected")
}

fn value<T: std::str::FromStr>(key: &str, value: Option<&str>) -> Result<T, String>
where
    T::Err: fmt::Display,
{
    let text = value.ok_or_else(|| format!("{key}: a value is expected, {key}=…"))?;
    text.parse().map_err(|error| format!("{key}={text}: {error}"))
}

fn flag(key: &str, value: Option<&str>) -> Result<bool, String> {
    match value {
        None => Ok(true),
        Some(value) => Err(format!("{key}={value}: {key} has no value")),
    }
}

impl Net {
    /// `tap0`, `bridge=br0`, `user` or `auto`, then `host=`, `mac=`, `mtu=`, `queues=`,
    /// `address=`, `gateway=`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let all = split(text);
        let (first, words) = words(&all);
        let mut net = Net {
            tap: None,
            bridge: None,
            host: None,
            mac: None,
            mtu: None,
            queues: None,
            address: Addressing::None,
            gateway: None,
        };
        match first.split_once('=') {
            Some(("bridge", bridge)) => net.bridge = Some(bridge.to_owned()),
            Some((key, _)) => return Err(unknown(key, "a TAP's name, auto, user, bridge=NAME")),
            None if first == "auto" => {}
            None if first == "user" => {
                net.bridge = Some(crate::nat::BRIDGE.to_owned());
                net.address = Addressing::User;
            }
            None => net.tap = Some(first.to_owned()),
        }
        for (key, word) in words {
            match key {
                "tap" => net.tap = Some(value(key, word)?),
                "host" => net.host = Some(value(key, word)?),
                "mac" => net.mac = Some(mac_of(&value::<String>(key, word)?)?),
                "mtu" => net.mtu = Some(value(key, word)?),
                "queues" => net.queues = Some(value(key, word)?),
                "address" if word == Some("dhcp") => net.address = Addressing::Dhcp,
                "address" => net.address = Addressing::Static(value(key, word)?),
                "gateway" => net.gateway = Some(value(key, word)?),
                key => return Err(unknown(key, "tap, host, mac, mtu, queues, address, gateway")),
            }
        }
        for name in net.tap.iter().chain(&net.bridge) {
            crate::interface::Interface::named(name).map_err(|error| error.to_string())?;
        }
        match (net.mtu, net.queues) {
            (Some(mtu), _) if mtu < 68 => Err(format!("mtu={mtu}: IPv4 needs 68 bytes at least")),
            (_, Some(queues)) if !(1..=QUEUES).contains(&queues) => {
                Err(format!("queues={queues}: from 1 to {QUEUES}"))
            }
            _ => Ok(net),
        }
    }
}

fn mac_of(text: &str) -> Result<String, String> {
    let bytes = mac_bytes(text)
        .ok_or_else(|| format!("mac={text}: an address such as 02:00:00:00:00:01 is expected"))?;
    if bytes[0] & 1 != 0 {
        return Err(format!("mac={text}: it is a group's, the first byte being odd: choose 02:…"));
    }
    Ok(text.to_lowercase())
}

pub fn mac_bytes(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|part| (part.len() == 2).then(|| u8::from_str_radix(part, 16).ok()).flatten())
        .collect::<Option<_>>()?;
    bytes.try_into().ok()
}

impl Disk {
    /// `FILE`, then `ro`, `serial=`, `direct`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let all = split(text);
        let (first, words) = words(&all);
        let file = absolute(first)?;
        let mut disk = Disk { file, read_only: false, serial: None, direct: false };
        for (key, word) in words {
            match key {
                "ro" => disk.read_only = flag(key, word)?,
                "serial" => {
                    let serial: String = value(key, word)?;
                    if serial.len() > 20 || !serial.bytes().all(|byte| byte.is_ascii_graphic()) {
                        return Err(format!(
                            "serial={serial}: up to 20 plain letters are expected"
                        ));
                    }
                    disk.serial = Some(serial);
                }
                "direct" => disk.direct = flag(key, word)?,
                key => return Err(unknown(key, "ro, serial, direct")),
            }
        }
        Ok(disk)
    }
}

impl Share {
    /// `DIR:/mnt`, then `ro`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let all = split(text);
        let (first, words) = words(&all);
        let (folder, at) =
            first.rsplit_once(':').filter(|(_, at)| at.starts_with('/')).ok_or_else(|| {
                format!("{first}: a folder and its place in the node, DIR:/mnt, are expected")
            })?;
        let mut share = Share { folder: absolute(folder)?, at: at.into(), read_only: false };
        for (key, word) in words {
            match key {
                "ro" => share.read_only = flag(key, word)?,
                key => return Err(unknown(key, "ro")),
            }
        }
        Ok(share)
    }
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("a file's name is expected".into());
    }
    std::path::absolute(path).map_err(|error| format!("{path}: {error}"))
}

impl DeviceSpec {
    /// A vsock by its CID.
    pub fn vsock(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(cid) if (3..u32::MAX).contains(&cid) => Ok(DeviceSpec::Vsock(cid)),
            _ => Err(format!("{text}: a CID from 3 to {} is expected", u32::MAX - 1)),
        }
    }

    /// Name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            DeviceSpec::Net(_) => "net",
            DeviceSpec::Disk(_) => "disk",
            DeviceSpec::Share(_) => "share",
            DeviceSpec::Vsock(_) => "vsock",
            DeviceSpec::Rng => "rng",
            DeviceSpec::Console => "console",
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Net(net) => match (&net.bridge, &net.tap) {
                (Some(bridge), _) => write!(f, "bridge {bridge}"),
                (None, tap) => write!(f, "tap {}", tap.as_deref().unwrap_or("auto")),
            },
            DeviceSpec::Disk(disk) => write!(f, "{}", disk.file.display()),
            DeviceSpec::Share(share) => {
                write!(f, "{} at {}", share.folder.display(), share.at.display())
            }
            DeviceSpec::Vsock(cid) => write!(f, "CID {cid}"),
            DeviceSpec::Rng => f.write_str("entropy of the host"),
            DeviceSpec::Console => f.write_str("a terminal of the host"),
        }
    }
}

impl Assigned {
    /// FNV-1a of the node's and its own name: the same on every host and of every version.
    fn number(&self, node: &str) -> u64 {
        format!("{node}/{}", self.name).bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// A card's address in the host's own network for nodes, if it is to have one there.
    pub fn user_address(&self, node: &str) -> Option<Address> {
        let DeviceSpec::Net(Net { address: Addressing::User, .. }) = &self.device else {
            return None;
        };
        Some(crate::nat::address(self.number(node)))
    }

    /// A card's hardware address: its own, or one of the node's and its name, of those
    /// that nobody sells.
    pub fn mac(&self, node: &str) -> String {
        let DeviceSpec::Net(Net { mac: Some(mac), .. }) = &self.device else {
            let bytes = self.number(node).to_be_bytes();
            let tail: Vec<_> = bytes[3..].iter().map(|byte| format!("{byte:02x}")).collect();
            return format!("02:{}", tail.join(":"));
        };
        mac.clone()
    }

    /// Name of a console's terminal among this machine's files for nodes.
    pub fn terminal(&self, node: &str) -> String {
        format!("{node}.{}", self.name)
    }

    /// Its TAP's name.
    pub fn tap(&self, node: &str) -> String {
        match &self.device {
            DeviceSpec::Net(Net { tap: Some(tap), .. }) => tap.clone(),
            _ if node.len() + 1 + self.name.len() <= TAP_LETTERS => format!("{node}.{}", self.name),
            // The rest of a long name stands for all of it: others may begin alike.
            _ => {
                let begin: String = node.chars().take(TAP_LETTERS - 6 - self.name.len()).collect();
                let letter = |n: u32| {
                    let digit = self.number(node) / 36_u64.pow(n) % 36;
                    char::from_digit(digit as u32, 36).unwrap_or('0')
                };
                let rest: String = (0..5).map(letter).collect();
                format!("{begin}{rest}.{}", self.name)
            }
        }
    }
}

/// Names and slots for devices, beside those that are there.
pub fn assign(there: &[Assigned], device: DeviceSpec) -> Option<Assigned> {
    let free = |taken: &dyn Fn(usize) -> bool| {
        (0..kumiki_node_wire::module::abi::SLOTS).find(|n| !taken(*n))
    };
    let slot = free(&|n| there.iter().any(|one| one.slot == n))?;
    let name = |n| format!("{}{n}", device.kind());
    let number = free(&|n| there.iter().any(|one| one.name == name(n)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let given_ns = u64::try_from(now.as_nanos()).unwrap_or(0);
    Some(Assigned { name: name(number), slot, given_ns, device })
}

/// Reason for which these two devices cannot both be: something that only one machine can have.
pub fn clash(node: &str, one: &Assigned, other_node: &str, other: &Assigned) -> Option<String> {
    match (&one.device, &other.device) {
        (DeviceSpec::Net(_), DeviceSpec::Net(_)) if one.mac(node) == other.mac(other_node) => {
            Some(format!("MAC {}", one.mac(node)))
        }
        (DeviceSpec::Net(_), DeviceSpec::Net(_)) if one.tap(node) == other.tap(other_node) => {
            Some(format!("TAP {}", one.tap(node)))
        }
        (DeviceSpec::Net(_), DeviceSpec::Net(_))
            if one.user_address(node).is_some()
                && one.user_address(node) == other.user_address(other_node) =>
        {
            one.user_address(node).map(|address| format!("address {address}"))
        }
        (DeviceSpec::Disk(a), DeviceSpec::Disk(b))
            if a.file == b.file && !(a.read_only && b.read_only) =>
        {
            Some(format!("disk {}", a.file.display()))
        }
        (DeviceSpec::Vsock(a), DeviceSpec::Vsock(b)) if a == b => Some(format!("CID {a}")),
        (DeviceSpec::Share(a), DeviceSpec::Share(b)) if node == other_node && a.at == b.at => {
            Some(format!("place {}", a.at.display()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_parsed_and_faults_named() {
        let net = Net::parse("tap7,mtu=9000,address=10.1.0.2/24,gateway=10.1.0.1").unwrap();
        assert_eq!((net.tap.as_deref(), net.mtu), (Some("tap7"), Some(9000)));
        assert_eq!(Net::parse("auto,queues=4").unwrap().queues, Some(4));
        assert_eq!(net.address, Addressing::Static("10.1.0.2/24".parse().unwrap()));
        let net = Net::parse("bridge=br0,mac=02:0A:00:00:00:01,address=dhcp").unwrap();
        assert_eq!(
            (net.bridge.as_deref(), net.mac.as_deref()),
            (Some("br0"), Some("02:0a:00:00:00:01"))
        );
        assert_eq!(Net::parse("auto").unwrap().tap, None);
        let net = Net::parse("user,mtu=1400").unwrap();
        assert_eq!((net.bridge.as_deref(), net.address), (Some("kumiki0"), Addressing::User));
        let net = Net::parse("user,address=10.119.7.7/16").unwrap();
        assert_eq!(net.address, Addressing::Static("10.119.7.7/16".parse().unwrap()));
        for (text, says) in [
            ("tap0,mac=01:00:00:00:00:01", "a group's"),
            ("tap0,mac=2:0:0:0:0:1", "02:00:00:00:00:01"),
            ("tap0,mtu=9", "68 bytes"),
            ("tap0,queues=0", "from 1 to 8"),
            ("tap0,queues=9", "from 1 to 8"),
            ("tap0,address=10.0.0.1", "10.1.0.2/24"),
            ("tap0,speed=9", "speed: one of tap, host"),
            ("br=br0", "bridge=NAME"),
            ("a_name_of_sixteen", "1 to 15 letters"),
            ("bridge=br0,tap=a_name_of_sixteen", "1 to 15 letters"),
            ("bridge=br0,tap=", "1 to 15 letters"),
        ] {
            let error = Net::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let disk = Disk::parse("/a,,b,,,ro").unwrap();
        assert!(disk.file.as_os_str() == "/a,b," && disk.read_only);
        let disk = Disk::parse("/a/b,ro,direct,serial=x1").unwrap();
        assert!(disk.read_only && disk.direct && disk.serial.as_deref() == Some("x1"));
        assert!(Disk::parse("/a,ro=1").unwrap_err().contains("no value"));
        assert!(Disk::parse(&format!("/a,serial={}", "x".repeat(21))).unwrap_err().contains("20"));
        let share = Share::parse("/a:b:/mnt,ro").unwrap();
        assert_eq!((share.folder, share.at), ("/a:b".into(), "/mnt".into()));
        assert!(Share::parse("/a").unwrap_err().contains("DIR:/mnt"));
        assert!(DeviceSpec::vsock("2").unwrap_err().contains("from 3 to"));
    }

    #[test]
    fn names_slots_and_addresses_are_each_ones_own() {
        let mut there = Vec::new();
        for text in ["tap0", "auto", "auto"] {
            let net = DeviceSpec::Net(Net::parse(text).unwrap());
            there.push(assign(&there, net).unwrap());
        }
        // As they are kept in a record.
        let rng = assign(&there, DeviceSpec::Rng).unwrap();
        for device in there.iter().chain([&rng]) {
            let kept = serde_json::to_vec(device).unwrap();
            assert_eq!(serde_json::from_slice::<Assigned>(&kept).unwrap(), *device);
        }
        let names: Vec<_> = there.iter().map(|one| (one.name.as_str(), one.slot)).collect();
        assert_eq!(names, [("net0", 0), ("net1", 1), ("net2", 2)]);
        let long = there[1].tap("a_very_long_name_of_a_node");
        assert!(long.len() == 15 && long.starts_with("a_ver") && long.ends_with(".net1"), "{long}");
        assert_eq!(there[1].tap("webserver"), "webserver.net1");
        assert_ne!(there[1].tap("webserver-1"), there[1].tap("webserver-2"));
        assert_ne!(there[1].mac("n1"), there[2].mac("n1"));
        assert!(mac_bytes(&there[1].mac("n1")).is_some_and(|mac| mac[0] == 2));
        assert_eq!(clash("n1", &there[0], "n2", &there[0]).as_deref(), Some("TAP tap0"));
        assert_eq!(clash("n1", &there[1], "n2", &there[1]), None);
    }
}
