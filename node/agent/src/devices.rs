//! In a node: drivers for the devices that its host serves, addresses for cards, mounts
//! for folders. Done when it starts, and again whenever the host announces others.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_devices::interface::{Address, Interface};
use kumiki_node_devices::nat;
use kumiki_node_devices::record::Record;
use kumiki_node_devices::spec::{Addressing, Assigned, DeviceSpec, Net};
use kumiki_node_wire::brought::TRANSPORT;
use kumiki_node_wire::window::Window;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::drivers::load_list;
use super::{log, root};
use crate::{Error, Result};

/// Time that a node's start waits for devices that its host has not shown yet.
const START_LIMIT: Duration = Duration::from_secs(3);
/// Time that one that was announced is waited for.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// Script that udhcpc runs when it has, or has lost, an address.
const DHCP_SCRIPT: &str = "/run/udhcpc.sh";
const DHCP: &str = r#"#!/bin/sh
case "$1" in
deconfig) ifconfig "$interface" 0.0.0.0 ;;
bound|renew)
	ifconfig "$interface" "$ip" netmask "${subnet:-255.255.255.0}"
	for gateway in $router; do route add default gw "$gateway" dev "$interface"; break; done
	for server in $dns; do echo "nameserver $server"; done > RESOLV_CONF ;;
esac
"#;

/// Work that this node has done for its devices.
#[derive(Default)]
pub(super) struct Devices {
    announced: u32,
    /// Devices that are settled: name, and time at which it was given. A name alone may be
    /// another's by now.
    settled: HashSet<(String, u64)>,
    kinds: HashSet<&'static str>,
}

impl Devices {
    /// Begins with the devices, before the node says that it is ready.
    pub(super) fn begin(window: &Window) -> Self {
        // No device, and up in every system: servers and their clients in one node.
        if let Err(error) = Interface::named("lo").and_then(|loopback| loopback.up()) {
            log(&error.to_string());
        }
        let mut devices = Devices::default();
        devices.settle(window, START_LIMIT);
        devices
    }

    /// True if the host has announced others than this has seen.
    pub(super) fn are_news(&self, window: &Window) -> bool {
        window.announced() != self.announced
    }

    /// Follows the devices in a thread of its own, as drivers may take their time.
    pub(super) fn follow(mut self, window: Arc<Window>) {
        thread::spawn(move || {
            loop {
                if self.are_news(&window) {
                    self.settle(&window, SETTLE_LIMIT);
                }
                thread::sleep(Duration::from_millis(250));
            }
        });
    }

    fn settle(&mut self, window: &Window, limit: Duration) {
        let begin = Instant::now();
        loop {
            self.announced = window.announced();
            let record = serde_json::from_slice::<Record>(&window.record());
            let Ok(record) = record else { return };
            if self.try_all(&record) || begin.elapsed() > limit {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    /// Tries those that are not settled, and returns true if all are.
    fn try_all(&mut self, record: &Record) -> bool {
        let key = |device: &Assigned| (device.name.clone(), device.given_ns);
        let there: HashSet<_> = record.devices.iter().map(key).collect();
        for gone in self.settled.difference(&there).cloned().collect::<Vec<_>>() {
            self.settled.remove(&gone);
            leave(&gone.0);
        }
        let mut all = true;
        for device in &record.devices {
            self.drivers(device.device.kind());
            if self.settled.contains(&key(device)) {
                continue;
            }
            match settle(&record.name, device) {
                Ok(true) => {
                    self.settled.insert(key(device));
                }
                Ok(false) => all = false,
                Err(error) => {
                    log(&format!("{}: {error}", device.name));
                    self.settled.insert(key(device));
                }
            }
        }
        all
    }

    fn drivers(&mut self, kind: &'static str) {
        for list in [TRANSPORT, kind] {
            if !self.kinds.insert(list) {
                continue;
            }
            if let Err(error) = load_list(list) {
                log(&error.to_string());
            }
        }
    }
}

/// Sets a device up; false if it is not there yet.
fn settle(node: &str, device: &Assigned) -> Result<bool> {
    match &device.device {
        DeviceSpec::Disk(_) | DeviceSpec::Vsock(_) | DeviceSpec::Rng | DeviceSpec::Console => {
            Ok(true)
        }
        DeviceSpec::Net(net) => match Interface::with_mac(&device.mac(node)) {
            Some(name) => card(&name, net, device.user_address(node)).map(|()| true),
            None => Ok(false),
        },
        DeviceSpec::Share(share) => {
            let at = root::within(&share.at);
            fs::create_dir_all(&at).map_err(|error| Error::file(&at, error))?;
            let flags = if share.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
            match mount(&device.name, &at, "virtiofs", flags, None) {
                Ok(()) => Ok(true),
                // Not there yet, or the driver is not.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NODEV) => Ok(false),
                Err(error) => Err(Error::os(format!("mounting {}", share.at.display()), error)),
            }
        }
    }
}

fn card(name: &str, net: &Net, user: Option<Address>) -> Result<()> {
    let interface = Interface::named(name)?;
    interface.up()?;
    match net.address {
        Addressing::None => {}
        Addressing::User => {
            if let Some(address) = user {
                interface.set_address(address)?;
                interface.set_gateway(nat::HOST.address)?;
            }
        }
        Addressing::Static(address) => interface.set_address(address)?,
        Addressing::Dhcp => {
            let _ = fs::create_dir_all("/etc");
            let names = root::within(Path::new("/etc/resolv.conf"));
            let script = DHCP.replace("RESOLV_CONF", &names.display().to_string());
            fs::write(DHCP_SCRIPT, script).map_err(|error| Error::file(DHCP_SCRIPT, error))?;
            let may = fs::Permissions::from_mode(0o755);
            fs::set_permissions(DHCP_SCRIPT, may)
                .map_err(|error| Error::file(DHCP_SCRIPT, error))?;
            let mut command = Command::new("udhcpc");
            command.args(["-i", name, "-s", DHCP_SCRIPT, "-b"]);
            super::spared::not(&mut command);
            // What it says is of use to who looks for an address: a line a write, as the log has it.
            let log = fs::OpenOptions::new().write(true).open("/dev/kmsg");
            let log = log.map_or(Stdio::null(), Stdio::from);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let mut asking = command.spawn().map_err(|error| Error::file("udhcpc", error))?;
            thread::spawn(move || asking.wait());
        }
    }
    net.gateway.map_or(Ok(()), |gateway| interface.set_gateway(gateway))
}

/// A device that was taken away; its folder, if it was one, is mounted still.
fn leave(name: &str) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let at = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        (words.next() == Some(name)).then(|| words.next().unwrap_or_default().to_owned())
    });
    if let Some(at) = at {
        let _ = unmount(at, UnmountFlags::DETACH);
    }
}
