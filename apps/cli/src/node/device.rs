//! Devices of a node: what `create` takes, and `kumiki node device`.

use std::path::Path;

use anyhow::{Result, bail};
use clap::{ArgGroup, Subcommand};
use kumiki_node::{
    DeviceSpec, Disk, Dma, Function, Net, Node, Share, copying, nat, vsock, wake_if_idle,
};

use crate::output;

/// Devices of a node.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Devices {
    /// A network card: a TAP of this machine, made if there is none; its port of a bridge; user:
    /// behind this machine's address, once `kumiki node net up` was called;
    /// with address= or address=dhcp the node's own, host= this machine's on the TAP
    #[arg(long, value_parser = net,
        value_name = "TAP|auto|user|bridge=NAME[,tap=][,address=][,gateway=][,host=][,mac=][,mtu=][,queues=]")]
    net: Vec<DeviceSpec>,
    /// A disk: a file or a block device of this machine; direct: past its page cache; a comma in a
    /// path is written twice
    #[arg(long, value_parser = disk, value_name = "FILE[,ro][,serial=][,direct]")]
    disk: Vec<DeviceSpec>,
    /// A folder of this machine, mounted in the node; needs virtiofsd
    #[arg(long, value_parser = share, value_name = "DIR:/PLACE[,ro]")]
    share: Vec<DeviceSpec>,
    /// A vsock with this CID: AF_VSOCK on both sides
    #[arg(long, value_parser = DeviceSpec::vsock, value_name = "CID")]
    vsock: Option<DeviceSpec>,
    /// Entropy: this machine's random numbers, /dev/hwrng in the node
    #[arg(long)]
    rng: bool,
    /// A console: /dev/hvc0 in the node, and here a terminal for screen(1) and its like, whose
    /// place `kumiki node device ls` shows
    #[arg(long)]
    console: bool,
}

/// Hardware that a node is given.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Functions {
    /// A PCI function of this machine, alone behind its port and with MSI: its driver here
    /// releases it, and the node's kernel drives it from the node's next start on
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) pci: Vec<Function>,
    /// Accept that a PCI function can write to all memory. With the module osnode-iommu the
    /// machine's IOMMU confines it to the node's
    #[arg(long)]
    pub(crate) dma_unconfined: bool,
}

impl Devices {
    pub(crate) fn specs(self) -> Vec<DeviceSpec> {
        let rng = self.rng.then_some(DeviceSpec::Rng);
        let console = self.console.then_some(DeviceSpec::Console);
        let many = [self.net, self.disk, self.share].into_iter().flatten();
        many.chain(self.vsock).chain(rng).chain(console).collect()
    }
}

fn net(text: &str) -> Result<DeviceSpec, String> {
    Net::parse(text).map(DeviceSpec::Net)
}

fn disk(text: &str) -> Result<DeviceSpec, String> {
    Disk::parse(text).map(DeviceSpec::Disk)
}

fn share(text: &str) -> Result<DeviceSpec, String> {
    Share::parse(text).map(DeviceSpec::Share)
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    #[command(subcommand)]
    command: DeviceCommand,
}

#[derive(Debug, Subcommand)]
enum DeviceCommand {
    /// Give a node more devices, at once if it runs, and at each start
    #[command(next_line_help = true, group = ArgGroup::new("device").args(["net", "disk", "share", "vsock", "rng", "console", "pci"])
        .required(true).multiple(true))]
    Add {
        node: String,
        #[command(flatten)]
        functions: Functions,
        #[command(flatten)]
        devices: Devices,
    },
    /// Take a device away, at once if the node runs
    Rm {
        node: String,
        /// Its name, as `ls` shows it
        device: String,
    },
    /// List a node's devices
    Ls {
        node: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: DeviceArgs) -> Result<()> {
    match args.command {
        DeviceCommand::Add { node, functions: Functions { pci, dma_unconfined }, devices } => {
            let node = Node::find(&node)?;
            let dma = if dma_unconfined { Dma::Unconfined } else { Dma::Confined };
            for function in pci {
                node.add_function(function, dma)?;
                output::line(format_args!("pci:{function}"))?;
            }
            for device in devices.specs() {
                output::line(node.add_device(device)?)?;
            }
            Ok(())
        }
        DeviceCommand::Rm { node, device } => {
            let node = Node::find(&node)?;
            match device.strip_prefix("pci:") {
                Some(function) => {
                    let function = function.parse().map_err(anyhow::Error::msg)?;
                    Ok(node.remove_function(function)?)
                }
                None => Ok(node.remove_device(&device)?),
            }
        }
        DeviceCommand::Ls { node, json } => {
            let devices = Node::find(&node)?.devices()?;
            if json {
                return output::json(&devices);
            }
            let mut table = output::Rows::new(&["device", "of", "mac", "state"], 4);
            for device in devices {
                let state = match device.problem {
                    Some(problem) => format!("{}: {problem}", device.state),
                    None => device.state.to_owned(),
                };
                let mac = device.mac.unwrap_or_else(|| "-".to_owned());
                table.add([device.name, device.what, mac, state]);
            }
            table.print()
        }
    }
}

/// A network for nodes behind this machine's address.
#[derive(Debug, clap::Args)]
pub(crate) struct NetArgs {
    #[command(subcommand)]
    command: NetCommand,
}

#[derive(Debug, Subcommand)]
enum NetCommand {
    /// Make the bridge kumiki0, behind which nodes with `--net user` reach what this machine
    /// reaches; needs nft
    Up,
    /// Take it away
    Down,
}

pub(crate) fn net_of_host(args: &NetArgs) -> Result<()> {
    match args.command {
        NetCommand::Up => nat::up()?,
        NetCommand::Down => nat::down()?,
    }
    Ok(())
}

pub(crate) fn copy(from: &str, to: &str) -> Result<()> {
    match (in_node(from), in_node(to)) {
        (Some((node, source)), None) => {
            wake_if_idle(node)?;
            copying::out_of_node(node, source, Path::new(to))?;
        }
        (None, Some((node, target))) => {
            wake_if_idle(node)?;
            copying::into_node(node, Path::new(from), target)?;
        }
        _ => bail!(
            "{from} and {to}: one of the two is a file or folder in a node, NODE:PATH; here a name with a \
             colon is written with a slash before it, such as ./a:b"
        ),
    }
    Ok(())
}

/// A place in a node: a colon, and no slash before it.
fn in_node(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(node, path)| !node.contains('/') && !path.is_empty())
}

#[derive(Debug, clap::Args)]
pub(crate) struct VsockArgs {
    #[command(subcommand)]
    command: VsockCommand,
}

#[derive(Debug, Subcommand)]
enum VsockCommand {
    /// Wait for one connection to a port
    Listen {
        port: u32,
        /// Send back what comes, instead
        #[arg(long)]
        echo: bool,
    },
    /// Connect to a port of a node, by its CID, or of the host, whose CID is 2
    Connect { cid: u32, port: u32 },
}

impl VsockArgs {
    pub(crate) fn run(self) -> Result<()> {
        match self.command {
            VsockCommand::Listen { port, echo: true } => vsock::echo(port)?,
            VsockCommand::Listen { port, echo: false } => vsock::serve(port)?,
            VsockCommand::Connect { cid, port } => vsock::connect(cid, port)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_node_has_its_name_and_a_colon() {
        assert_eq!(in_node("n1:/a/b:c"), Some(("n1", "/a/b:c")));
        assert_eq!(in_node("./a:b"), None);
        assert_eq!(in_node("n1:"), None);
        assert!(copy("a", "b").unwrap_err().to_string().contains("NODE:PATH"));
    }
}
