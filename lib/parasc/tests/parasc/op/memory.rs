use std::fs::File;
use std::os::unix::fs::FileExt;
use std::slice;

use kumiki_parasc::op::{
    Errno, Madvise, MemfdCreate, Mincore, Mlock2, Mmap, Mprotect, Mremap, Msync, Munlock, Munmap,
};
use rustix::fs::MemfdFlags;
use rustix::mm::{Advice, MapFlags, MlockFlags, MprotectFlags, MremapFlags, MsyncFlags, ProtFlags};

use super::{completed, execute};

const PAGE: usize = 4096;
const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

fn memory(address: usize, length: usize) -> &'static mut [u8] {
    // SAFETY: mapped by the test that calls, for writing, and known to it alone.
    unsafe { slice::from_raw_parts_mut(address as *mut u8, length) }
}

fn unmap(address: usize, length: usize) {
    // SAFETY: mapped by the test that calls, which has done with it.
    let mut munmap = unsafe { Munmap::new(address, length) };
    assert_eq!(execute(&mut munmap), Ok(()));
}

#[test]
fn memory_is_mapped_advised_protected_moved_and_unmapped() {
    let mut map = Mmap::anonymous(4 * PAGE, READ_WRITE);
    let address = execute(&mut map).unwrap();
    memory(address, 4 * PAGE).fill(7);

    // SAFETY: the content may go.
    let mut forget = unsafe { Madvise::new(address, PAGE, Advice::LinuxDontNeed) };
    assert_eq!(execute(&mut forget), Ok(()));
    assert_eq!((memory(address, PAGE)[0], memory(address + PAGE, PAGE)[0]), (0, 7));

    // SAFETY: nobody writes to it until it may be written to again.
    let mut protect = unsafe { Mprotect::new(address, PAGE, MprotectFlags::READ) };
    assert_eq!(execute(&mut protect), Ok(()));
    // SAFETY: the last two pages are not used any more.
    let mut shrink = unsafe { Mremap::new(address + PAGE, 3 * PAGE, PAGE, MremapFlags::MAYMOVE) };
    assert_eq!(execute(&mut shrink), Ok(address + PAGE));
    // SAFETY: no length is refused.
    let mut nothing = unsafe { Mremap::new(address, PAGE, 0, MremapFlags::empty()) };
    assert_eq!(execute(&mut nothing), Err(Errno::INVAL));
    unmap(address, 2 * PAGE);
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    assert_eq!(execute(&mut Mmap::anonymous(0, READ_WRITE)), Err(Errno::INVAL));
    let address = execute(&mut Mmap::anonymous(PAGE, READ_WRITE)).unwrap();
    // SAFETY: addresses within a page are refused.
    let mut munmap = unsafe { Munmap::new(address + 1, PAGE) };
    assert_eq!(execute(&mut munmap), Err(Errno::INVAL));
    // SAFETY: as above.
    let mut protect = unsafe { Mprotect::new(address + 1, PAGE, MprotectFlags::READ) };
    assert_eq!(execute(&mut protect), Err(Errno::INVAL));
    // SAFETY: as above.
    let mut advise = unsafe { Madvise::new(address + 1, PAGE, Advice::Normal) };
    assert_eq!(execute(&mut advise), Err(Errno::INVAL));
    let both = MsyncFlags::SYNC | MsyncFlags::ASYNC;
    assert_eq!(execute(&mut Msync::new(address, PAGE, both)), Err(Errno::INVAL));
    unmap(address, PAGE);
}

#[test]
fn a_file_in_memory_is_shared_or_copied() {
    let file = File::from(execute(&mut MemfdCreate::new(c"test", MemfdFlags::CLOEXEC)).unwrap());
    let unknown = MemfdFlags::from_bits_retain(1 << 20);
    assert_eq!(execute(&mut MemfdCreate::new(c"x", unknown)).unwrap_err(), Errno::INVAL);
    file.set_len(2 * PAGE as u64).unwrap();

    let shared = execute(&mut Mmap::shared(&file, PAGE as u64, PAGE, READ_WRITE)).unwrap();
    let private = execute(&mut Mmap::private(&file, 0, PAGE, READ_WRITE)).unwrap();
    memory(shared, PAGE).fill(1);
    memory(private, PAGE).fill(2);
    assert_eq!(execute(&mut Msync::new(shared, PAGE, MsyncFlags::SYNC)), Ok(()));
    let mut content = [9; 2 * PAGE];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!((content[0], content[PAGE]), (0, 1));

    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: over the test's own mapping, which nobody refers to now.
    let mut over = unsafe { Mmap::new(private, PAGE, READ_WRITE, flags, Some(&file), PAGE as u64) };
    assert_eq!(execute(&mut over), Ok(private));
    assert_eq!(memory(private, PAGE)[0], 1);
    assert_eq!(execute(&mut Mmap::shared(&file, 1, PAGE, READ_WRITE)), Err(Errno::INVAL));
    unmap(shared, PAGE);
    unmap(private, PAGE);
}

/// Whether the mapping at `address` is locked (`lo`), and whether its pages come
/// only when they are used (`lf`): proc_pid_smaps(5).
fn locked(address: usize) -> (bool, bool) {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let own = maps.split_once(&format!("{address:x}-")).unwrap().1;
    let flags = own.split_once("VmFlags:").unwrap().1.lines().next().unwrap();
    let has = |flag| flags.split_whitespace().any(|other| other == flag);
    (has("lo"), has("lf"))
}

#[test]
fn memory_is_locked_and_unlocked() {
    let around = execute(&mut Mmap::anonymous(3 * PAGE, READ_WRITE)).unwrap();
    let address = around + PAGE;
    // Between others of another protection it is a mapping of its own.
    // SAFETY: nobody uses it.
    let mut protect = unsafe { Mprotect::new(address, PAGE, MprotectFlags::READ) };
    assert_eq!(execute(&mut protect), Ok(()));
    let mut lock = Mlock2::new(address, PAGE, MlockFlags::ONFAULT);
    match execute(&mut lock) {
        Err(Errno::NOMEM | Errno::PERM) => eprintln!("passed over: no memory may be locked here"),
        result => assert_eq!((result, locked(address)), (Ok(()), (true, true))),
    }
    let mut unlock = Munlock::new(address, PAGE);
    assert_eq!(execute(&mut unlock), Ok(()));
    assert_eq!(locked(address), (false, false));

    let unknown = MlockFlags::from_bits_retain(1 << 20);
    assert_eq!(execute(&mut Mlock2::new(address, PAGE, unknown)), Err(Errno::INVAL));
    unmap(around, 3 * PAGE);
    // Beyond the last address.
    assert_eq!(execute(&mut Munlock::new(usize::MAX - PAGE, 2 * PAGE)), Err(Errno::INVAL));
}

#[test]
fn pages_in_memory_are_told() {
    let address = execute(&mut Mmap::anonymous(4 * PAGE, READ_WRITE)).unwrap();
    memory(address, 4 * PAGE)[2 * PAGE] = 1;
    let mut all = [0; 4];
    // SAFETY: a byte for each page.
    let told = unsafe { libc::mincore(address as *mut _, 4 * PAGE, all.as_mut_ptr()) };
    assert_eq!((told, all[2] & 1), (0, 1));

    // The last page in part.
    let told = completed(Mincore::new(address, 3 * PAGE + 1, Vec::with_capacity(64)));
    assert_eq!((told.output, told.operation.filled()), (Ok(4), &all[..]));
    let mut told = Mincore::new(address, PAGE, [9; 4]);
    assert_eq!((execute(&mut told), told.filled()), (Ok(1), &all[..1]));
    // No more than there is room for.
    let mut told = Mincore::new(address + PAGE, usize::MAX, [9; 2]);
    assert_eq!((execute(&mut told), told.filled()), (Ok(2), &all[1..3]));
    assert_eq!(execute(&mut Mincore::new(address, 4 * PAGE, [9; 0])), Ok(0));

    let mut within = Mincore::new(address + 1, PAGE, [9; 1]);
    assert_eq!((execute(&mut within), within.filled()), (Err(Errno::INVAL), &b""[..]));
    unmap(address, 4 * PAGE);
    let mut none = Mincore::new(usize::MAX - PAGE + 1, PAGE, [9; 1]);
    assert_eq!(execute(&mut none), Err(Errno::NOMEM));
}
