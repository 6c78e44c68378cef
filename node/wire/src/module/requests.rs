//! The requests that the module takes, and its device, opened.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;

use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, NoArg, Updater, ioctl};

use crate::access::Access;
use crate::module::abi;
use crate::{Error, Result};

/// Checks that the module is there and speaks this version; says what is missing.
pub fn probe() -> Result<()> {
    open(Access::Read).map(drop)
}

/// Opens the module's device.
pub fn open(access: Access) -> Result<File> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Unsupported {
            feature: "an OS node".into(),
            needs: "an x86-64 processor: how a node is started is written for that".into(),
        });
    }
    let writes = access == Access::Write;
    let opened = OpenOptions::new().read(true).write(writes).open(abi::DEVICE);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Unsupported {
            feature: format!("the module osnode ({})", abi::DEVICE),
            needs:
                "build node/kernel/osnode against this kernel's headers and load osnode.ko, or try \
                    it in a virtual machine: kumiki lab up --nodes"
                    .into(),
        },
        ErrorKind::PermissionDenied => Error::Unsupported {
            feature: abi::DEVICE.into(),
            needs: "root is needed, and a kernel that is not locked down \
                    (/sys/kernel/security/lockdown; Secure Boot locks it): a node's kernel \
                    reaches all memory"
                .into(),
        },
        _ => Error::file(abi::DEVICE, error),
    })?;
    let mut loaded = 0;
    version(&file, &mut loaded)
        .map_err(|error| Error::os(format!("asking {} its version", abi::DEVICE), error))?;
    if loaded != abi::VERSION {
        return Err(Error::Unsupported {
            feature: format!("version {} of the module osnode", abi::VERSION),
            needs: format!(
                "version {loaded} is loaded: rmmod osnode, and load the one of this kumiki"
            ),
        });
    }
    Ok(file)
}

/// A function for each request with an argument, and for each without.
macro_rules! requests {
    ($($name:ident $code:ident $argument:ty;)* - $($order:ident $order_code:ident;)*) => {
        $(pub fn $name(file: &File, argument: &mut $argument) -> Result<(), Errno> {
            // SAFETY: by the header this request reads, writes or both one such
            // argument, whose size is part of its code.
            let updater = unsafe { Updater::<{ abi::$code }, $argument>::new(argument) };
            // SAFETY: as above; the kernel keeps no pointer to it.
            unsafe { ioctl(file, updater) }
        })*
        $(pub fn $order(file: &File) -> Result<(), Errno> {
            // SAFETY: by the header this request takes no argument.
            let order = unsafe { NoArg::<{ abi::$order_code }>::new() };
            // SAFETY: as above.
            unsafe { ioctl(file, order) }
        })*
    };
}

requests! {
    version IOC_VERSION u32;
    create IOC_CREATE abi::Create;
    attach IOC_ATTACH abi::Attach;
    memory IOC_MEMORY abi::Memory;
    cpu IOC_CPU abi::Cpu;
    link IOC_LINK abi::Link;
    pci IOC_PCI abi::Pci;
    piece_back IOC_PIECE_BACK abi::Memory;
    cpu_back IOC_CPU_BACK abi::Cpu;
    eventfd_attach EVENTFD_IOC_ATTACH abi::Wires;
    eventfd_connect EVENTFD_IOC_CONNECT abi::Wire;
    eventfd_disconnect EVENTFD_IOC_DISCONNECT u32;
    -
    seal IOC_SEAL;
    start IOC_START;
    lend IOC_LEND;
    stop IOC_STOP;
    release IOC_RELEASE;
    bell IOC_BELL;
    cpus_back IOC_CPUS_BACK;
    memory_back IOC_MEMORY_BACK;
    guest_sleep GUEST_IOC_SLEEP;
}

/// Makes requests of a node: interrupts to the cpus of another one, whose window is there; its own
/// cpus, by their APIC ids, and memory, by its address.
macro_rules! guest_requests {
    ($($name:ident $code:ident;)*) => {
        $(pub fn $name(guest: &File, number: u64) -> Result<(), Errno> {
            // SAFETY: by the header this request takes a number, which it checks.
            let request = unsafe { IntegerSetter::<{ abi::$code }>::new_usize(number as usize) };
            // SAFETY: as above.
            unsafe { ioctl(guest, request) }
        })*
    };
}

guest_requests! {
    guest_init GUEST_IOC_INIT;
    guest_start GUEST_IOC_START;
    guest_cpu_on GUEST_IOC_CPU_ON;
    guest_cpu_off GUEST_IOC_CPU_OFF;
    guest_memory_on GUEST_IOC_MEMORY_ON;
    guest_memory_off GUEST_IOC_MEMORY_OFF;
}
