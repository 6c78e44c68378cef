//! Descriptors that a device needs of the host, opened by the process that may: the one that
//! serves gets descriptors and opens nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::PollFlags;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::fd_passing::Passed;
use super::queue::ready;
use super::tap::{self, Link};
use super::terminal::Terminal;
use super::virtiofsd::{self, Daemon};
use crate::claims;
use crate::interface::Interface;
use crate::nat;
use crate::spec::{Assigned, DeviceSpec, Disk, Net, mac_bytes};
use crate::{Error, ErrorKind, Result, Subject, runtime};

const VHOST_NET: &str = "/dev/vhost-net";
const VHOST_VSOCK: &str = "/dev/vhost-vsock";

/// Descriptors kept open as long as the device is the node's, whoever serves it.
#[derive(Debug, Default)]
pub struct Kept {
    /// Files by slot: a TAP's queues, or a disk with its lock.
    files: BTreeMap<usize, Vec<File>>,
    daemons: BTreeMap<usize, Daemon>,
    terminals: BTreeMap<usize, Terminal>,
}

/// Files for one serving process.
#[derive(Debug)]
pub struct Opened {
    pub passed: Passed,
    pub files: Vec<File>,
    /// True if a new server may go on where the last one died.
    pub resumes: bool,
}

impl Kept {
    /// TAPs' queues that another process has had, by their cards' slots.
    pub fn handed(taps: Vec<(usize, File)>) -> Self {
        let mut kept = Kept::default();
        for (slot, queue) in taps {
            kept.files.entry(slot).or_default().push(queue);
        }
        kept
    }

    /// A TAP's queues, or a disk with its lock.
    pub(super) fn files(&self, slot: usize) -> &[File] {
        self.files.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// Lets go of a TAP, or of a disk with its lock.
    pub fn take(&mut self, slot: usize) -> Vec<File> {
        self.files.remove(&slot).unwrap_or_default()
    }

    /// Opens what a device needs; what is kept already is used again.
    pub fn open(&mut self, node: &str, device: &Assigned) -> Result<Opened> {
        match &device.device {
            DeviceSpec::Net(net) => self.net(node, device, net),
            DeviceSpec::Disk(disk) => self.disk(device, disk),
            DeviceSpec::Vsock(cid) => {
                let file = vhost(VHOST_VSOCK, "vhost_vsock")?;
                Ok(Opened { passed: Passed::Vsock { cid: *cid }, files: vec![file], resumes: true })
            }
            DeviceSpec::Rng => {
                Ok(Opened { passed: Passed::Entropy, files: Vec::new(), resumes: true })
            }
            DeviceSpec::Console => {
                let terminal = match self.terminals.entry(device.slot) {
                    Entry::Occupied(place) => place.into_mut(),
                    Entry::Vacant(place) => {
                        place.insert(Terminal::new(runtime::file(&device.terminal(node))?)?)
                    }
                };
                let files = vec![terminal.master()?];
                Ok(Opened { passed: Passed::Console, files, resumes: true })
            }
            DeviceSpec::Share(wanted) => {
                // The last one has ended with its connection.
                self.daemons.remove(&device.slot);
                let (daemon, socket) = virtiofsd::start(node, device, wanted)?;
                self.daemons.insert(device.slot, daemon);
                let passed = Passed::Share { tag: device.name.clone() };
                Ok(Opened { passed, files: vec![socket], resumes: false })
            }
        }
    }

    /// Slots whose device has lost what it is made of, and what that was.
    pub(super) fn vanished(&mut self) -> Vec<(usize, &'static str)> {
        let daemons = self.daemons.iter_mut().filter_map(|(&slot, daemon)| {
            daemon.has_ended().then_some((slot, "virtiofsd has ended"))
        });
        let taps = self.files.iter().filter_map(|(&slot, files)| {
            // A TAP that was removed says so; a disk's file is never in error. Nor is a TAP's first
            // queue, which is never detached.
            let [state] = ready([(files.first()?.as_fd(), PollFlags::empty())], true);
            state.contains(PollFlags::ERR).then_some((slot, "TAP is gone"))
        });
        daemons.chain(taps).collect()
    }

    pub fn close(&mut self, slot: usize) {
        self.files.remove(&slot);
        self.daemons.remove(&slot);
        self.terminals.remove(&slot);
    }

    fn net(&mut self, node: &str, device: &Assigned, net: &Net) -> Result<Opened> {
        let pairs = net.queues.unwrap_or(1);
        if let Entry::Vacant(place) = self.files.entry(device.slot) {
            let name = device.tap(node);
            let queues = tap::open(&name, pairs)?;
            let interface = Interface::named(&name)?;
            if let Some(mtu) = net.mtu {
                interface.set_mtu(mtu)?;
            }
            if let Some(bridge) = &net.bridge {
                if bridge == nat::BRIDGE && !nat::is_up() {
                    return Err(Error::refused(
                        ErrorKind::NotFound,
                        Subject::Interface(bridge.clone()),
                        format!(
                            "there is no network for nodes ({bridge}): kumiki node net up makes it"
                        ),
                    ));
                }
                interface.join(bridge)?;
            }
            if let Some(host) = net.host {
                interface.set_address(host)?;
            }
            interface.up()?;
            place.insert(queues);
        }
        let mac = mac_bytes(&device.mac(node)).unwrap_or_default();
        let link = Link { mac, mtu: net.mtu, pairs };
        let mut files = self.copies(device.slot)?;
        let movers: Result<Vec<_>> = (0..pairs).map(|_| vhost(VHOST_NET, "vhost_net")).collect();
        let in_kernel = match movers {
            Ok(movers) => {
                files.extend(movers);
                true
            }
            Err(lack) => {
                eprintln!("{}: {lack}; its frames are moved by this process", device.name);
                false
            }
        };
        Ok(Opened { passed: Passed::Net { link, in_kernel }, files, resumes: true })
    }

    fn disk(&mut self, device: &Assigned, disk: &Disk) -> Result<Opened> {
        if let Entry::Vacant(place) = self.files.entry(device.slot) {
            claims::host_leaves(disk)?;
            let mut options = OpenOptions::new();
            options.read(true).write(!disk.read_only);
            // As long as it is the node's nothing else of this machine can have it.
            if !disk.read_only && is_block_device(&disk.file) {
                options.custom_flags(OFlags::EXCL.bits().cast_signed());
            }
            let file = options.open(&disk.file);
            let file = file.map_err(|error| Error::file(&disk.file, error))?;
            let shared = FlockOperation::NonBlockingLockShared;
            let alone = FlockOperation::NonBlockingLockExclusive;
            flock(&file, if disk.read_only { shared } else { alone }).map_err(|error| {
                Error::refused(
                    ErrorKind::Busy,
                    Subject::File(disk.file.clone()),
                    format!(
                        "{}: {error}: another node or program has it and would write it, too",
                        disk.file.display()
                    ),
                )
            })?;
            place.insert(vec![file]);
        }
        let mut file = self.copies(device.slot)?.swap_remove(0);
        let bytes = file.seek(SeekFrom::End(0)).map_err(|error| Error::file(&disk.file, error))?;
        let serial = disk.serial.clone().unwrap_or_else(|| device.name.clone());
        let direct = disk.direct.then(|| past_the_cache(disk)).transpose()?;
        let (read_only, direct_too) = (disk.read_only, direct.is_some());
        let passed = Passed::Disk { bytes, read_only, serial, direct: direct_too };
        let files = [file].into_iter().chain(direct).collect();
        Ok(Opened { passed, files, resumes: true })
    }

    fn copies(&self, slot: usize) -> Result<Vec<File>> {
        let copies = self.files[&slot].iter().map(File::try_clone);
        copies.collect::<io::Result<_>>().map_err(|error| Error::os("copying a descriptor", error))
    }
}

fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_block_device())
}

fn past_the_cache(disk: &Disk) -> Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(!disk.read_only).custom_flags(flags);
    options.open(&disk.file).map_err(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => Error::refused(
            ErrorKind::Unsupported,
            Subject::File(disk.file.clone()),
            format!(
                "{}: its file system reads nothing past the page cache: leave `direct` out",
                disk.file.display()
            ),
        ),
        _ => Error::file(&disk.file, error),
    })
}

fn vhost(path: &str, module: &str) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(Path::new(path));
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Unsupported {
            feature: path.into(),
            needs: format!("load the module {module} (modprobe {module})"),
        },
        _ => Error::file(path, error),
    })
}
