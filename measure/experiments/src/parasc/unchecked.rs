//! Calls for which only who asks for them can vouch: by number, and those that
//! take memory away.

#![allow(unsafe_code)]

use std::ptr;

use kumiki_measure::{Error, Result};
use kumiki_parasc::op::{Mmap, Munmap, Raw, raw};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::batch::{Calls, make};
use super::files::PAGE;
use super::running::Running;

/// gettid(2), which answers for whichever thread makes the call; the engine must
/// have been told that this is known (`Config::wrong_thread_answers`).
pub(super) fn gettid() -> Raw {
    // SAFETY: it takes no arguments and changes nothing.
    unsafe { raw(libc::SYS_gettid as u16, []) }
}

/// Pages that are mapped, then unmapped, and never touched.
pub(super) struct Mappings {
    maps: Vec<Mmap>,
    unmaps: Vec<Munmap>,
    mapped: Vec<usize>,
}

const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mappings {
    pub(super) fn new(count: usize) -> Self {
        let maps = (0..count).map(|_| Mmap::anonymous(PAGE, ACCESS)).collect();
        Mappings { maps, unmaps: Vec::with_capacity(count), mapped: Vec::with_capacity(count) }
    }
}

impl Calls for Mappings {
    fn plain(&mut self) -> Result<()> {
        for _ in &self.maps {
            // SAFETY: new memory, wherever there is room.
            let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, ACCESS, MapFlags::PRIVATE) };
            self.mapped.push(page.map_err(|errno| Error::os("map a page", errno))? as usize);
        }
        self.mapped.drain(..).try_for_each(|page| {
            // SAFETY: mapped above, and used by nobody.
            let unmapped = unsafe { munmap(page as *mut _, PAGE) };
            unmapped.map_err(|errno| Error::os("unmap a page", errno))
        })
    }

    fn batch(&mut self, running: &mut Running) -> Result<()> {
        let Mappings { maps, unmaps, .. } = self;
        unmaps.clear();
        let mapped = make(running, maps, |page| {
            // SAFETY: mapped just now, and used by nobody.
            unmaps.push(unsafe { Munmap::new(page, PAGE) });
        });
        mapped.and(make(running, unmaps, |()| ()))
    }
}
