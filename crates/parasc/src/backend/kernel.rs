//! The kernel module's place: processing threads that serve the area from
//! inside the kernel (`kernel/uapi/parasc.h`).
//!
//! A processing thread that has seen a request enters the module, which serves
//! until it has found none for a while, and comes back. So all sleeping and
//! waking stays in user space. Whatever the module left is served by the thread
//! itself afterwards: one that returns at once, or with an error, costs a system
//! call and loses nothing. After an error it is not entered again.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

use super::Lack;
use crate::area::{Area, VERSION};

/// The module's device (`PARASC_DEVICE`).
pub(crate) const DEVICE: &str = "/dev/kumiki-parasc";

/// `PARASC_IOC_TYPE`.
pub(crate) const TYPE: u8 = 0xbd;
pub(crate) const IOC_VERSION: Opcode = opcode::read::<u32>(TYPE, 0);
pub(crate) const IOC_PROC: Opcode = opcode::write::<Proc>(TYPE, 1);

/// How long the module looks for a request before it lets a thread go: about
/// what putting one to sleep and waking it costs.
const IDLE: Duration = Duration::from_micros(100);
/// How long a thread whose calls the module may have made sleeps between two
/// looks at most: the module rings no bell.
pub(crate) const LOOK: Duration = IDLE.saturating_mul(2);

/// What a thread hands over when it enters (`struct parasc_proc`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Proc {
    /// Where the area starts.
    area: u64,
    /// Its length, bytes.
    length: u64,
    /// Come back after so long without a request, ns.
    idle_ns: u64,
    /// None is defined.
    flags: u64,
}

const _: () = {
    assert!(size_of::<Proc>() == 32);
    assert!(std::mem::offset_of!(Proc, length) == 8);
    assert!(std::mem::offset_of!(Proc, idle_ns) == 16);
    assert!(std::mem::offset_of!(Proc, flags) == 24);
};

/// For comparison with the header (`tests.rs`).
#[cfg(all(test, not(loom)))]
pub(crate) const LAYOUT: &[(&str, usize)] = &[
    ("sizeof(struct parasc_proc)", size_of::<Proc>()),
    ("offsetof(struct parasc_proc, area)", std::mem::offset_of!(Proc, area)),
    ("offsetof(struct parasc_proc, length)", std::mem::offset_of!(Proc, length)),
    ("offsetof(struct parasc_proc, idle_ns)", std::mem::offset_of!(Proc, idle_ns)),
    ("offsetof(struct parasc_proc, flags)", std::mem::offset_of!(Proc, flags)),
];

/// The module's device, open.
#[derive(Debug)]
pub(crate) struct Device {
    file: File,
    failed: AtomicBool,
}

impl Device {
    /// The module, if it is there and speaks this version.
    pub(crate) fn open() -> Result<Device, Lack> {
        Device::open_at(Path::new(DEVICE))
    }

    fn open_at(path: &Path) -> Result<Device, Lack> {
        let shown = path.display();
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
            match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Lack::new(
                    format!("module kumiki-parasc is not loaded ({shown}: {error})"),
                    "load a build of it that fits this kernel, or choose backend user",
                ),
                _ => Lack::new(
                    format!("{shown}: {error}"),
                    "give this user access to the device, or choose backend user",
                ),
            }
        })?;
        // SAFETY: by its opcode, the request writes 32 bits and reads nothing.
        let request = unsafe { Getter::<IOC_VERSION, u32>::new() };
        // SAFETY: as above; a device that means something else by the number is
        // not at this path.
        let version = unsafe { ioctl(&file, request) };
        match version {
            Ok(VERSION) => Ok(Device { file, failed: AtomicBool::new(false) }),
            Ok(other) => Err(Lack::new(
                format!("{shown}: the module speaks version {other}, this library {VERSION}"),
                "load the module that was built with this library",
            )),
            Err(errno) => Err(Lack::new(
                format!(
                    "{shown} is not module kumiki-parasc: it does not tell its version: {errno}"
                ),
                "remove what stands in the device's place",
            )),
        }
    }

    /// Lets the calling processing thread serve the area inside the kernel, until
    /// there has been nothing to do for a while or the termination flag is set.
    pub(crate) fn serve(&self, area: &Area) {
        if self.failed.load(Relaxed) {
            return;
        }
        let (start, length) = (ptr::from_ref(area) as u64, size_of::<Area>() as u64);
        let proc = Proc { area: start, length, idle_ns: IDLE.as_nanos() as u64, flags: 0 };
        // SAFETY: by its opcode, the request reads one `Proc`.
        let request = unsafe { Setter::<IOC_PROC, Proc>::new(proc) };
        // SAFETY: the module executes what stands in the area, for which those
        // vouch who publish it, and ends before the area does: the thread that is
        // inside keeps it.
        match unsafe { ioctl(&self.file, request) } {
            Ok(()) | Err(Errno::INTR) => {}
            Err(_) => self.failed.store(true, Relaxed),
        }
    }
}

#[cfg(test)]
impl Device {
    /// One that answers every request with `ENOTTY`.
    pub(crate) fn deaf() -> Device {
        Device { file: tempfile::tempfile().unwrap(), failed: AtomicBool::new(false) }
    }

    /// Whether it has been entered.
    pub(crate) fn failed(&self) -> &AtomicBool {
        &self.failed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::Core;
    use crate::{Config, Request, Requester};

    fn is_used(device: &Device) -> bool {
        !device.failed.load(Relaxed)
    }

    #[test]
    fn no_device_is_no_module() {
        let folder = tempfile::tempdir().unwrap();
        let lack = Device::open_at(&folder.path().join("none")).unwrap_err();
        assert!(lack.reason.contains("module kumiki-parasc is not loaded"), "{lack:?}");
        assert!(lack.remedy.contains("user"), "{lack:?}");
    }

    #[test]
    fn something_else_in_its_place_is_told_from_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lack = Device::open_at(file.path()).unwrap_err();
        assert!(lack.reason.contains("is not module kumiki-parasc"), "{lack:?}");
        let lack = Device::open_at(Path::new("/dev/null")).unwrap_err();
        assert!(lack.reason.contains("is not module kumiki-parasc"), "{lack:?}");
    }

    #[test]
    fn a_place_that_cannot_be_opened_says_why() {
        let lack = Device::open_at(Path::new("/")).unwrap_err();
        assert!(lack.reason.starts_with("/: Is a directory"), "{lack:?}");
    }

    #[test]
    fn a_device_that_fails_is_entered_once() {
        let (device, area) = (Device::deaf(), Area::default());
        assert!(is_used(&device));
        device.serve(&area);
        assert!(!is_used(&device));
        device.serve(&area);
    }

    #[test]
    fn what_a_failing_module_leaves_is_served_by_the_threads_themselves() {
        let config = Config { help: false, ..Config::default() };
        let mut core = Core::new(&config).unwrap();
        core.kernel = Some(Device::deaf());
        let core = Arc::new(core);
        let mut requester = Requester::new(Arc::clone(&core)).unwrap();
        let parent = std::os::unix::process::parent_id().into();
        for count in [1, 2, 40] {
            let requests = vec![Request::new(libc::SYS_getppid, []); count];
            let mut results = vec![0; count];
            // SAFETY: the call has no argument and no effect.
            unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
            assert_eq!(results, vec![parent; count]);
        }
        let others = core.seats.len() > 1;
        assert!(!others || !is_used(core.kernel.as_ref().unwrap()), "a thread has tried it");
        core.area.terminate();
        core.seats.iter().for_each(|seat| seat.bell.ring());
    }
}
