//! Loop devices, which do not claim what they lie over.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::ioctl::{Getter, Opcode, ioctl};

use super::Use;

/// `LOOP_GET_STATUS64`, linux/loop.h.
const STATUS: Opcode = 0x4c05;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    /// The file's file system, its number there, and the number of the device that it is.
    device: u64,
    inode: u64,
    rdevice: u64,
    rest: [u64; 26],
}

const _: () = assert!(size_of::<Status>() == 232);

/// A loop device that is set up.
#[derive(Debug)]
struct Loop {
    name: String,
    read_only: bool,
    file: (u64, u64),
    device: u64,
}

/// All that are set up.
#[derive(Debug, Default)]
pub(super) struct Loops(Vec<Loop>);

impl Loops {
    pub(super) fn read() -> Self {
        let names = super::names(Path::new("/sys/block"));
        Loops(
            names.into_iter().filter(|name| name.starts_with("loop")).filter_map(looped).collect(),
        )
    }

    /// The use by one that lies over this block device.
    pub(super) fn over_block(&self, number: u64) -> Option<Use> {
        self.0.iter().find(|one| one.device == number && number != 0).map(Loop::uses)
    }

    /// The use of a file by one.
    pub(super) fn over_file(&self, device: u64, inode: u64) -> Option<Use> {
        self.0.iter().find(|one| one.file == (device, inode) && one.device == 0).map(Loop::uses)
    }
}

impl Loop {
    fn uses(&self) -> Use {
        let how =
            format!("is what /dev/{0} lies over (losetup -d /dev/{0} takes that away)", self.name);
        Use { how, read_only: self.read_only }
    }
}

/// Asks one what it lies over; none if it is not set up.
fn looped(name: String) -> Option<Loop> {
    let folder = Path::new("/sys/block").join(&name);
    if !folder.join("loop").exists() {
        return None;
    }
    let file = File::open(Path::new("/dev").join(&name)).ok()?;
    // SAFETY: the request writes one `loop_info64` (drivers/block/loop.c), which is plain numbers.
    let request = unsafe { Getter::<STATUS, Status>::new() };
    // SAFETY: as above.
    let status = unsafe { ioctl(file.as_fd(), request) }.ok()?;
    let read_only = fs::read_to_string(folder.join("ro")).is_ok_and(|text| text.trim() == "1");
    Some(Loop { name, read_only, file: (status.device, status.inode), device: status.rdevice })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_over_a_disk_and_one_over_a_file_are_told_apart() {
        let one = |name: &str, read_only, file, device| Loop {
            name: name.into(),
            read_only,
            file,
            device,
        };
        // The node /dev/vda is itself a file, of devtmpfs.
        let loops =
            Loops(vec![one("loop0", false, (5, 77), 0xfe00), one("loop1", true, (42, 7), 0)]);
        let used = loops.over_block(0xfe00).unwrap();
        assert!(used.how.contains("/dev/loop0") && !used.read_only);
        assert!(loops.over_file(42, 7).unwrap().read_only);
        for (device, inode) in [(42, 8), (43, 7), (5, 77)] {
            assert_eq!(loops.over_file(device, inode), None);
        }
        // A file's loop device lies over no block device.
        assert_eq!(loops.over_block(0), None);
    }
}
