//! A network for nodes that have no other: a bridge of the host, behind which they reach
//! whatever the host reaches, by its address.

use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::interface::{Address, Interface};
use crate::{Error, ErrorKind, Result, Subject, runtime};

/// The bridge.
pub const BRIDGE: &str = "kumiki0";
/// The host's own address there, by which nodes reach all others.
pub const HOST: Address = Address { address: Ipv4Addr::new(10, 119, 0, 1), prefix: 16 };
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
const DROP: &str = "table ip kumiki\ndelete table ip kumiki\n";

/// A node's address, by a number of its own.
pub fn address(number: u64) -> Address {
    // Neither the network's own number, nor the host's, nor everybody's.
    let [.., high, low] = (2 + number % 0xfffd).to_be_bytes();
    Address { address: Ipv4Addr::new(10, 119, high, low), prefix: HOST.prefix }
}

/// Makes it, or what of it is missing.
///
/// # Errors
/// There is no nft(8), or the kernel refuses something; then nothing of it is left.
pub fn up() -> Result<()> {
    let was = is_up();
    let made = make();
    if made.is_err() && !was {
        let _ = down();
    }
    made
}

fn make() -> Result<()> {
    let bridge = Interface::named(BRIDGE)?;
    if !is_up() {
        bridge.make_bridge()?;
    }
    bridge.set_address(HOST)?;
    bridge.up()?;
    let before = fs::read_to_string(FORWARDING).map_err(|error| Error::file(FORWARDING, error))?;
    if before.trim() == "0" {
        let note = note()?;
        fs::write(&note, "0\n").map_err(|error| Error::file(note, error))?;
        forward("1\n")?;
    }
    let network = "10.119.0.0/16";
    nft(&format!(
        "{DROP}table ip kumiki {{\n\
         chain leaving {{\n\
         type nat hook postrouting priority 100\n\
         ip saddr {network} ip daddr != {network} masquerade\n\
         }}\n\
         }}\n"
    ))
}

/// Takes it away.
///
/// # Errors
/// A node's card is a port of it.
pub fn down() -> Result<()> {
    let ports = fs::read_dir(format!("/sys/class/net/{BRIDGE}/brif")).into_iter().flatten();
    let ports: Vec<_> =
        ports.flatten().map(|port| port.file_name().to_string_lossy().into_owned()).collect();
    if !ports.is_empty() {
        return Err(Error::refused(
            ErrorKind::Busy,
            Subject::Interface(BRIDGE.into()),
            format!(
                "{BRIDGE} is in use by {}: stop these nodes, or take their cards away (kumiki node \
             device rm)",
                ports.join(", ")
            ),
        ));
    }
    if is_up() {
        let bridge = Interface::named(BRIDGE)?;
        bridge.down()?;
        bridge.remove_bridge()?;
    }
    let note = note()?;
    if note.exists() {
        forward("0\n")?;
        fs::remove_file(&note).map_err(|error| Error::file(note, error))?;
    }
    match nft(DROP) {
        // Then it has made no table either.
        Err(Error::Unsupported { .. }) => Ok(()),
        done => done,
    }
}

/// True if the bridge is there.
pub fn is_up() -> bool {
    Path::new("/sys/class/net").join(BRIDGE).exists()
}

/// Says that forwarding was off before.
fn note() -> Result<PathBuf> {
    runtime::file("net.forwarding")
}

fn forward(word: &str) -> Result<()> {
    fs::write(FORWARDING, word).map_err(|error| Error::file(FORWARDING, error))
}

fn nft(script: &str) -> Result<()> {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Unsupported {
            feature: "address translation for nodes".into(),
            needs: "install the package nftables, or give nodes a bridge (--net bridge=NAME)"
                .into(),
        },
        _ => Error::os("running nft", error),
    })?;
    if let Some(mut input) = running.stdin.take() {
        // What it does not read it says below.
        let _ = input.write_all(script.as_bytes());
    }
    let output = running.wait_with_output().map_err(|error| Error::os("waiting for nft", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it says nothing");
    Err(Error::refused(
        ErrorKind::Refused,
        Subject::Program("nft".into()),
        format!("nft ended with {}: {said}", output.status),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_the_network_and_nobody_elses() {
        let texts = [0, 0xfffc, 0xfffd].map(|number| address(number).to_string());
        assert_eq!(texts, ["10.119.0.2/16", "10.119.255.254/16", "10.119.0.2/16"]);
    }
}
