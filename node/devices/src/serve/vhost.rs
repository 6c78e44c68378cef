//! Devices whose data the host's kernel moves: vhost-net and vhost-vsock. Here are only
//! the set-up and, by [`super::slot`], doorbells that become eventfds and back.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use vhost::VhostBackend;
use vhost::VhostUserMemoryRegionInfo;
use vhost::VringConfigData;
use vhost::net::VhostNet;
use vhost::vhost_kern::VhostKernBackend;
use vhost::vhost_kern::vhost_binding::{
    VHOST_NET_SET_BACKEND, VHOST_VSOCK_SET_GUEST_CID, VHOST_VSOCK_SET_RUNNING, vhost_vring_file,
};
use vm_memory::GuestMemoryBackend;
use vmm_sys_util::ioctl::ioctl_with_ref;

use super::backend::{
    Backend, Description, F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, NodeMemory, Ring,
};
use super::net_control::{self, ControlQueue};
use super::tap::{self, Link};
use crate::{Error, ErrorKind, Result, Subject};

/// Entries of a queue: as many as vhost-net handles well.
const QUEUE_SIZE: u16 = 256;
const RING_FEATURES: u64 = F_VERSION_1 | F_EVENT_IDX | F_INDIRECT_DESC;

/// An open vhost device of this host's kernel, and the memory it may reach.
struct Kernel {
    file: File,
    memory: Arc<NodeMemory>,
}

impl AsRawFd for Kernel {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl VhostKernBackend for Kernel {
    type AS = Arc<NodeMemory>;

    fn mem(&self) -> &Self::AS {
        &self.memory
    }
}

impl VhostNet for Kernel {
    fn set_backend(&self, queue_index: usize, fd: Option<&File>) -> vhost::Result<()> {
        let fd = fd.map_or(-1, AsRawFd::as_raw_fd);
        let file = vhost_vring_file { index: queue_index as u32, fd };
        // SAFETY: this request reads one such argument, and keeps no pointer to it.
        answered(unsafe { ioctl_with_ref(self, VHOST_NET_SET_BACKEND(), &file) })
    }
}

fn answered(returned: i32) -> vhost::Result<()> {
    match returned {
        -1 => Err(vhost::Error::IoctlError(std::io::Error::last_os_error())),
        _ => Ok(()),
    }
}

fn failed(doing: &str) -> impl FnOnce(vhost::Error) -> Error {
    move |error| Error::inner(ErrorKind::System, format!("{doing}: {error}"))
}

/// Description, for a vhost backend, of a node's memory.
pub(super) fn regions(memory: &NodeMemory) -> Result<Vec<VhostUserMemoryRegionInfo>> {
    let regions = memory.iter().map(VhostUserMemoryRegionInfo::from_guest_region);
    regions.collect::<vhost::Result<_>>().map_err(failed("the node's memory"))
}

/// Addresses of a queue.
pub(super) fn vring(ring: &Ring) -> VringConfigData {
    VringConfigData {
        queue_max_size: ring.limit,
        queue_size: ring.size,
        flags: 0,
        desc_table_addr: ring.descriptors,
        used_ring_addr: ring.device,
        avail_ring_addr: ring.driver,
        log_addr: None,
    }
}

impl Kernel {
    /// Takes it over: from now on it is this process's.
    fn new(file: File, memory: Arc<NodeMemory>) -> Result<Self> {
        let kernel = Kernel { file, memory };
        kernel.set_owner().map_err(failed("taking over a vhost device"))?;
        Ok(kernel)
    }

    fn offered(&self) -> Result<u64> {
        self.get_features().map_err(failed("asking a vhost device for its features"))
    }

    /// The memory that it reaches from here on: in one step, also as it runs.
    fn remember(&mut self, memory: Arc<NodeMemory>, runs: bool) -> Result<()> {
        self.memory = memory;
        if !runs {
            return Ok(());
        }
        let regions = regions(&self.memory)?;
        self.set_mem_table(&regions).map_err(failed("telling a vhost device of other memory"))
    }

    /// All but what begins it.
    fn prepare(&self, features: u64, rings: &[Ring]) -> Result<()> {
        let regions = regions(&self.memory)?;
        let tell = || -> vhost::Result<()> {
            self.set_features(features)?;
            self.set_mem_table(&regions)?;
            for ring in rings {
                let index = ring.index.into();
                self.set_vring_num(index, ring.size)?;
                self.set_vring_base(index, ring.next)?;
                self.set_vring_addr(index, &vring(ring))?;
                self.set_vring_call(index, &ring.call)?;
                self.set_vring_kick(index, &ring.kick)?;
            }
            Ok(())
        };
        tell().map_err(failed("setting up a vhost device"))
    }
}

/// A network card: a TAP of the host, its frames moved by vhost-net, a device of that for each
/// pair of queues.
pub(crate) struct KernelNet {
    kernels: Vec<Kernel>,
    control: ControlQueue,
    link: Link,
    memory: Arc<NodeMemory>,
    features: u64,
    /// Pairs and the numbers of queues there.
    started: Vec<(usize, usize)>,
}

impl KernelNet {
    pub(crate) fn new(
        movers: Vec<File>,
        taps: Vec<File>,
        link: Link,
        memory: Arc<NodeMemory>,
    ) -> Result<Self> {
        let kernels = movers.into_iter().map(|file| Kernel::new(file, Arc::clone(&memory)));
        let kernels: Vec<Kernel> = kernels.collect::<Result<_>>()?;
        // Of those that it moves; the TAP does the rest.
        let rings = kernels[0].offered()? & (RING_FEATURES | tap::F_MRG_RXBUF);
        Ok(KernelNet {
            features: rings | tap::features(&link),
            kernels,
            control: ControlQueue::new(taps),
            link,
            memory,
            started: Vec::new(),
        })
    }
}

impl Backend for KernelNet {
    fn describe(&self) -> Description {
        Description {
            id: tap::ID,
            features: self.features,
            limits: net_control::limits(self.link.pairs, QUEUE_SIZE),
            config: self.link.config(),
        }
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        let taps = self.control.taps();
        tap::offload(&taps[0], accepted)?;
        let of_rings = accepted & (RING_FEATURES | tap::F_MRG_RXBUF);
        let (of_pairs, control) = net_control::split(rings, accepted, self.link.pairs);
        for (pair, rings) in of_pairs.iter().enumerate() {
            self.kernels[pair].prepare(of_rings, rings)?;
            for ring in rings {
                let index = ring.index.into();
                let begun = self.kernels[pair].set_backend(index, Some(&taps[pair]));
                begun.map_err(failed("starting vhost-net"))?;
                self.started.push((pair, index));
            }
        }
        self.control.start(control, accepted, &self.memory)
    }

    fn stop(&mut self) -> Result<()> {
        let stop = |(pair, index): (usize, usize)| {
            self.kernels[pair].set_backend(index, None).map_err(failed("stopping vhost-net"))
        };
        let stopped = super::each(std::mem::take(&mut self.started).into_iter().map(stop));
        stopped.and(self.control.stop())
    }

    /// The control queue has its buffers where kernels have what does not move, in former pieces.
    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        let runs = !self.started.is_empty();
        for kernel in &mut self.kernels {
            kernel.remember(Arc::clone(&self.memory), runs)?;
        }
        Ok(true)
    }
}

/// A vsock: AF_VSOCK on both sides, moved by vhost-vsock.
pub(crate) struct KernelVsock {
    kernel: Kernel,
    cid: u32,
    running: bool,
}

impl KernelVsock {
    const ID: u32 = 19;

    pub(crate) fn new(vhost: File, cid: u32, memory: Arc<NodeMemory>) -> Result<Self> {
        let kernel = Kernel::new(vhost, memory)?;
        let number = u64::from(cid);
        // SAFETY: this request reads one such argument, and keeps no pointer to it.
        let set =
            answered(unsafe { ioctl_with_ref(&kernel, VHOST_VSOCK_SET_GUEST_CID(), &number) });
        set.map_err(|error| {
            Error::refused(
                ErrorKind::Busy,
                Subject::Word(cid.to_string()),
                format!("CID {cid}: {error}; another machine or node has it: choose another"),
            )
        })?;
        Ok(KernelVsock { kernel, cid, running: false })
    }

    fn set_running(&mut self, running: bool) -> Result<()> {
        let word = i32::from(running);
        // SAFETY: as in `new`.
        answered(unsafe { ioctl_with_ref(&self.kernel, VHOST_VSOCK_SET_RUNNING(), &word) })
            .map_err(failed("starting or stopping vhost-vsock"))?;
        self.running = running;
        Ok(())
    }
}

impl Backend for KernelVsock {
    fn describe(&self) -> Description {
        Description {
            id: Self::ID,
            features: self.kernel.offered().unwrap_or(0) & RING_FEATURES,
            // To the node, to the host, and events, which only a migration has.
            limits: vec![QUEUE_SIZE, QUEUE_SIZE, 16],
            config: u64::from(self.cid).to_le_bytes().to_vec(),
        }
    }

    fn start(&mut self, accepted: u64, mut rings: Vec<Ring>) -> Result<()> {
        rings.retain(|ring| ring.index < 2);
        self.kernel.prepare(accepted, &rings)?;
        self.set_running(true)
    }

    fn stop(&mut self) -> Result<()> {
        if self.running { self.set_running(false) } else { Ok(()) }
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.kernel.remember(memory, self.running)?;
        Ok(true)
    }
}
