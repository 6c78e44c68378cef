//! What kind of machine is wanted.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::kernel::KernelName;
use crate::modules::Module;

/// A machine to start. [`Config::new`] gives a small one.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of cpus.
    pub cpus: u32,
    /// Memory, in whole MiB.
    pub memory_bytes: u64,
    /// The kernel that it runs.
    pub kernel: KernelName,
    /// Modules to load before the first command.
    pub modules: Vec<Module>,
    /// Files of this machine that are in it from its start: which, and where.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Programs of this machine that it has in /bin, with their libraries.
    pub programs: Vec<PathBuf>,
    /// Words for the kernel's command line, after our own.
    pub append: Vec<String>,
    /// Words for QEMU's command line, after our own.
    pub qemu: Vec<OsString>,
    /// Executor of the machine's instructions.
    pub accelerator: Accelerator,
    /// Time that the start may take, from QEMU's to the agent's first word. One of a kernel that
    /// looks for its own faults may take six times as long.
    pub start_limit: Duration,
    /// A program of this machine that calls [`crate::agent::run`] when its first
    /// argument is [`crate::agent::WORD`]. It is there as `kumiki`.
    pub agent: PathBuf,
}

/// Executor of the machine's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accelerator {
    /// KVM if a machine with it was seen to work since this host's boot, else TCG.
    #[default]
    Auto,
    /// The processor, by the kernel's KVM.
    Kvm,
    /// QEMU's emulation.
    Tcg,
    /// QEMU's emulation, all cpus in turns in one thread: a machine whose devices come and go in the map
    /// of its memory while other cpus use theirs loses accesses, or ends, in QEMU 7.2 otherwise.
    OneThread,
}

/// The least memory that a stock kernel starts in with our initramfs, in bytes.
pub(crate) const MEMORY_MIN_BYTES: u64 = 192 << 20;
/// A machine of more cpus is refused by QEMU 7.2's q35.
pub(crate) const CPUS_MAX: u32 = 288;

impl Config {
    /// Two cpus, 512 MiB, this machine's stock kernel.
    pub fn new(agent: impl Into<PathBuf>) -> Self {
        Config {
            cpus: 2,
            memory_bytes: 512 << 20,
            kernel: KernelName::default(),
            modules: Vec::new(),
            files: Vec::new(),
            programs: Vec::new(),
            append: Vec::new(),
            qemu: Vec::new(),
            accelerator: Accelerator::Auto,
            start_limit: Duration::from_secs(180),
            agent: agent.into(),
        }
    }
}
