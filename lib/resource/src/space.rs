//! The kind *virtual space*: addresses to which regions are attached.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::error::{Error, Result};
use crate::frames::FRAME;
use crate::id::Place;
use crate::kind::{About, Kind};
use crate::region::Backing;

/// A range of this process's addresses, kept free for regions. It takes addresses, not
/// memory.
///
/// Destroyed, it takes no more regions; its addresses stay until the last one that is
/// attached has gone.
///
/// One that is [mapped over frames](crate::Interface::space_of_frames) has all of its core's frames at once, from the
/// beginning: attaching is arithmetic, and neither attaching nor detaching is a system call.
#[derive(Debug)]
pub struct Space {
    addresses: Arc<Addresses>,
    /// Parts in use, and their ends; both from the space's beginning, bytes.
    used: BTreeMap<usize, usize>,
    /// Channel by which parts come back, from wherever they were detached.
    home: (Sender<usize>, Receiver<usize>),
    /// The file of its core's frames, where it is mapped over them.
    frames: Option<Arc<OwnedFd>>,
}

/// The addresses themselves, which nothing can be read from or written to.
#[derive(Debug)]
struct Addresses {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: addresses belong to the process, not to a thread.
unsafe impl Send for Addresses {}
// SAFETY: a shared one gives out its beginning and size, which never change.
unsafe impl Sync for Addresses {}

/// Page sizes, from the largest that fits on, so that regions of such pages can be attached.
const PAGES: [usize; 2] = [1 << 30, 2 << 20];

impl Addresses {
    fn reserve(bytes: usize) -> Result<Addresses, Errno> {
        for page_bytes in PAGES.into_iter().filter(|page_bytes| *page_bytes <= bytes) {
            // More than is needed; under a limit of addresses it may be more than there is.
            let Some(more) = bytes.checked_add(page_bytes - FRAME) else { continue };
            let Ok(mut all) = Self::anywhere(more) else { continue };
            let before =
                all.start.addr().get().next_multiple_of(page_bytes) - all.start.addr().get();
            // SAFETY: `more` is enough for it.
            let start = unsafe { all.start.add(before) };
            // SAFETY: as above; the end is within `more`, or just behind it.
            let end = unsafe { start.add(bytes) };
            // SAFETY: reserved just now, and used by nobody.
            let _ = before > 0 && unsafe { munmap(all.start.as_ptr().cast(), before) }.is_ok();
            let behind = more - before - bytes;
            // SAFETY: as above.
            let _ = behind > 0 && unsafe { munmap(end.as_ptr().cast(), behind) }.is_ok();
            (all.start, all.bytes) = (start, bytes);
            return Ok(all);
        }
        Self::anywhere(bytes)
    }

    fn anywhere(bytes: usize) -> Result<Addresses, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags) }?;
        let start = NonNull::new(start.cast()).expect("Linux maps address 0 only if told to");
        Ok(Addresses { start, bytes })
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: reserved by `reserve`, and whoever held a part of it has gone.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl Kind for Space {
    const NAME: &'static str = "space";
    /// The number of bytes, rounded up to whole pages.
    type Spec = usize;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(bytes: usize, (): &mut ()) -> Result<Space> {
        let whole = bytes.checked_next_multiple_of(FRAME);
        let Some(bytes) = whole.filter(|bytes| (1..=isize::MAX as usize).contains(bytes)) else {
            let text = format!("{bytes} bytes of addresses: ask for 1 to {}", isize::MAX);
            return Err(kind(text));
        };
        let what = format!("{bytes} bytes of addresses");
        let addresses = Addresses::reserve(bytes).map_err(|errno| refused(&what, errno))?;
        let addresses = Arc::new(addresses);
        Ok(Space { addresses, used: BTreeMap::new(), home: channel(), frames: None })
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        let (parts, bytes) = (Arc::strong_count(&self.addresses) - 1, self.addresses.bytes);
        let what = if self.frames.is_some() { "frames" } else { "addresses" };
        About { state: format!("{} MiB of {what}, {parts} attached", bytes >> 20), bytes: 0 }
    }
}

impl Space {
    /// Bytes of addresses that it has.
    pub fn bytes(&self) -> usize {
        self.addresses.bytes
    }

    /// Maps it over its core's frames, once: each frame has the address that its number in the file says, and stays
    /// there.
    pub(crate) fn map_frames(&mut self, file: Arc<OwnedFd>) -> Result<()> {
        if Arc::strong_count(&self.addresses) > 1 {
            return Err(kind(
                "a region was attached to it before it had its core's frames".to_owned(),
            ));
        }
        let Addresses { start, bytes } = *self.addresses;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: replaces the addresses of this space, of which nobody has a part.
        let mapped = unsafe { mmap(start.as_ptr().cast(), bytes, access, flags, &file, 0) };
        mapped.map_err(|errno| refused(&format!("mapping {bytes} bytes of frames"), errno))?;
        self.frames = Some(file);
        Ok(())
    }

    /// The part at which a region is that is to be attached at `wanted`, if that is said: kept for it, or, of a space
    /// that is mapped over frames, where they are.
    pub(crate) fn part(
        &mut self,
        region: &Backing,
        wanted: Option<usize>,
        write: bool,
    ) -> Result<AddressRange> {
        let Some(file) = &self.frames else {
            return self.hold(region.bytes(), region.page_bytes(), wanted);
        };
        let refused = |text: &str| Err(kind(text.to_owned()));
        let Some(first) = region.run_in(file) else {
            return refused(
                "this space is mapped over its core's frames: attach regions of frames of the same core to it whose \
                 frames stand one behind another, and others to a space of addresses",
            );
        };
        if !write {
            return refused(
                "a space that is mapped over frames has no part that may not be written: attach to a space of \
                 addresses for that",
            );
        }
        let (offset, bytes) = (first as usize * FRAME, region.bytes());
        if wanted.is_some_and(|wanted| wanted != offset) {
            return Err(kind(format!(
                "in a space that is mapped over frames this region stands at offset {offset}: ask for that one or \
                 none"
            )));
        }
        if self.addresses.bytes.checked_sub(bytes).is_none_or(|last| offset > last) {
            return Err(kind(format!(
                "{bytes} bytes of frames at offset {offset} end behind a space of {}: make a larger one, as \
                 addresses cost nothing",
                self.addresses.bytes
            )));
        }
        let addresses = Arc::clone(&self.addresses);
        Ok(AddressRange { addresses, offset, bytes, home: None, is_mapped: true })
    }

    /// Keeps a part of whole pages for one attachment, at `offset` or at the first that
    /// fits.
    fn hold(
        &mut self,
        bytes: usize,
        page_bytes: usize,
        offset: Option<usize>,
    ) -> Result<AddressRange> {
        for offset in self.home.1.try_iter() {
            self.used.remove(&offset);
        }
        let size = bytes.checked_next_multiple_of(page_bytes).unwrap_or(usize::MAX);
        let offset = match offset {
            Some(offset) => self.free_at(offset, size, page_bytes)?,
            None => self.first_fit(size, page_bytes)?,
        };
        self.used.insert(offset, offset + size);
        let (addresses, home) = (Arc::clone(&self.addresses), self.home.0.clone());
        Ok(AddressRange { addresses, offset, bytes: size, home: Some(home), is_mapped: false })
    }

    /// The first offset from `offset` on whose address is a multiple of `page_bytes`.
    fn whole(&self, offset: usize, page_bytes: usize) -> usize {
        let start = self.addresses.start.addr().get();
        (start + offset).next_multiple_of(page_bytes) - start
    }

    fn free_at(&self, offset: usize, bytes: usize, page_bytes: usize) -> Result<usize> {
        let all = self.addresses.bytes;
        let end = offset.checked_add(bytes).filter(|end| *end <= all);
        let Some(end) = end.filter(|_| self.whole(offset, page_bytes) == offset) else {
            let first = self.whole(0, page_bytes);
            return Err(kind(format!(
                "{bytes} bytes at offset {offset} of a space of {all}: choose {first} plus a \
                 multiple of {page_bytes} from which on there is room"
            )));
        };
        let before = self.used.range(..end).next_back();
        match before.filter(|(_, used_end)| **used_end > offset) {
            Some((start, used_end)) => Err(kind(format!(
                "{bytes} bytes at offset {offset} overlap what is attached at {start} to \
                 {used_end}: detach that, or choose another offset"
            ))),
            None => Ok(offset),
        }
    }

    fn first_fit(&self, bytes: usize, page_bytes: usize) -> Result<usize> {
        let (mut free, all) = (0, self.addresses.bytes);
        for (&start, &end) in self.used.iter().chain([(&all, &all)]) {
            let first = self.whole(free, page_bytes);
            if start.checked_sub(first).is_some_and(|room| room >= bytes) {
                return Ok(first);
            }
            free = end;
        }
        Err(kind(format!(
            "no room for {bytes} bytes in pages of {page_bytes} in a space of {all} with {} attached: detach some, or \
             make a larger space",
            self.used.len()
        )))
    }
}

/// A part of a space's addresses, kept until it is dropped.
#[derive(Debug)]
pub(crate) struct AddressRange {
    addresses: Arc<Addresses>,
    offset: usize,
    bytes: usize,
    /// None of a part that could not be cleared, or that was not kept.
    home: Option<Sender<usize>>,
    /// True if its region stands there already, and stays.
    is_mapped: bool,
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        // A space that was destroyed has no use for it.
        self.home.iter().for_each(|home| _ = home.send(self.offset));
    }
}

impl AddressRange {
    fn start(&self) -> NonNull<u8> {
        // SAFETY: a part lies within its addresses.
        unsafe { self.addresses.start.add(self.offset) }
    }

    /// Puts a region here.
    pub(crate) fn attach(self, backing: Arc<Backing>, write: bool) -> Result<Attached> {
        let access = if write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // Made first: what goes wrong half-way is taken back when it is dropped.
        let attached = Attached { part: self, backing, write };
        if attached.part.is_mapped {
            return Ok(attached);
        }
        let mut at = attached.start();
        for (fd, offset, bytes) in attached.backing.pieces() {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: replaces addresses of this part, which nobody else has. What refuses only after
            // the kernel has unmapped them was refused as a region (`region::tried`).
            let mapped = unsafe { mmap(at.as_ptr().cast(), bytes, access, flags, fd, offset) };
            mapped.map_err(|errno| refused(&format!("attaching {bytes} bytes"), errno))?;
            // SAFETY: the pieces together are as long as the part at most.
            at = unsafe { at.add(bytes) };
        }
        Ok(attached)
    }
}

/// A region in its part of a space.
#[derive(Debug)]
pub(crate) struct Attached {
    part: AddressRange,
    backing: Arc<Backing>,
    write: bool,
}

impl Attached {
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.part.start()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.backing.bytes()
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.write
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.part.is_mapped {
            return;
        }
        let (start, bytes) = (self.start().as_ptr().cast(), self.part.bytes);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: this part's addresses, whose user has gone. The addresses stay kept.
        if unsafe { mmap_anonymous(start, bytes, ProtFlags::empty(), flags) }.is_err() {
            // The limit of mappings: these addresses are not used again.
            self.part.home = None;
        }
    }
}

fn kind(text: String) -> Error {
    Error::Kind { kind: Space::NAME, text }
}

fn refused(what: &str, errno: Errno) -> Error {
    let way = match errno {
        Errno::NOMEM => "; destroy some, or raise RLIMIT_AS (ulimit -v) or vm.max_map_count",
        _ => "",
    };
    Error::System { kind: Space::NAME, what: what.to_owned(), source: errno.into(), way }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: usize = 2 << 20;

    #[test]
    fn addresses_begin_at_the_largest_page_that_fits() {
        for bytes in [FRAME, HUGE, 5 * HUGE + FRAME, 1 << 30, (1 << 30) + FRAME] {
            let space = Space::create(bytes, &mut ()).unwrap();
            let page_bytes = PAGES.into_iter().find(|page| *page <= bytes).unwrap_or(FRAME);
            let start = space.addresses.start;
            assert!(start.addr().get() % page_bytes == 0, "{start:?} for {bytes}");
            assert_eq!(space.bytes(), bytes);
        }
    }

    #[test]
    fn huge_pages_find_whole_places() {
        let mut space = Space::create(4 * HUGE, &mut ()).unwrap();
        let at = |space: &mut Space, bytes, page, offset| space.hold(bytes, page, offset);
        let small = at(&mut space, 1, FRAME, None).unwrap();
        let huge = at(&mut space, 1, HUGE, None).unwrap();
        assert_eq!([small.offset, huge.offset, huge.bytes], [0, HUGE, HUGE]);
        let next = at(&mut space, 1, FRAME, None).unwrap();
        assert_eq!(next.offset, FRAME);
        let refused = at(&mut space, HUGE, HUGE, Some(2 * HUGE + FRAME)).unwrap_err();
        assert!(refused.to_string().contains("multiple of 2097152"), "{refused}");
        let last = at(&mut space, HUGE + 1, HUGE, Some(2 * HUGE)).unwrap();
        assert_eq!(last.bytes, 2 * HUGE);
        let full = at(&mut space, HUGE, HUGE, None).unwrap_err();
        assert!(full.to_string().contains("no room for 2097152 bytes"), "{full}");
        drop(huge);
        assert_eq!(at(&mut space, HUGE, HUGE, None).unwrap().offset, HUGE);
    }
}
