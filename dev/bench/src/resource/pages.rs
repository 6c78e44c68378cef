//! 4 KiB of memory: where each subject gets it, by the functions of its own that are
//! fastest for it.
//!
//! None is asked for an alignment, which costs some of them a slower path; Kumiki's pages
//! are aligned.

use std::ptr::NonNull;

use kumiki_resource::page;

/// Bytes asked for.
pub(crate) const BYTES: usize = 4096;

/// An allocator of the whole process, as any thread sees it.
pub(crate) trait Pages: Copy + Send + 'static {
    /// 4 KiB of any content.
    fn allocate(self) -> NonNull<u8>;

    /// Gives them back.
    ///
    /// # Safety
    /// `page` is from [`allocate`](Self::allocate), and nobody uses it any more.
    unsafe fn free(self, page: NonNull<u8>);
}

fn found(page: *mut libc::c_void) -> NonNull<u8> {
    NonNull::new(page.cast()).expect("there is memory for some pages")
}

#[derive(Clone, Copy)]
pub(crate) struct Kumiki;

impl Pages for Kumiki {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        page::allocate().expect("there is memory for some pages")
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { page::free(page) }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Glibc;

impl Pages for Glibc {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        // SAFETY: any size will do.
        found(unsafe { libc::malloc(BYTES) })
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(page.as_ptr().cast()) }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Mmap;

impl Pages for Mmap {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let (read_write, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory somewhere.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), BYTES, read_write, flags) };
        found(page.expect("there is memory for some pages"))
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise: the whole of a mapping, which nobody uses.
        let unmapped = unsafe { rustix::mm::munmap(page.as_ptr().cast(), BYTES) };
        unmapped.expect("it is mapped");
    }
}

#[cfg(feature = "peers")]
#[derive(Clone, Copy)]
pub(crate) struct Jemalloc;

#[cfg(feature = "peers")]
impl Pages for Jemalloc {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        // SAFETY: any size but 0 will do.
        found(unsafe { tikv_jemalloc_sys::mallocx(BYTES, 0) })
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise; it was allocated with this size.
        unsafe { tikv_jemalloc_sys::sdallocx(page.as_ptr().cast(), BYTES, 0) }
    }
}

#[cfg(feature = "peers")]
#[derive(Clone, Copy)]
pub(crate) struct Mimalloc;

#[cfg(feature = "peers")]
impl Pages for Mimalloc {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        // SAFETY: any size will do.
        found(unsafe { libmimalloc_sys::mi_malloc(BYTES) })
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { libmimalloc_sys::mi_free(page.as_ptr().cast()) }
    }
}

#[cfg(feature = "peers")]
#[derive(Clone, Copy)]
pub(crate) struct Snmalloc;

#[cfg(feature = "peers")]
impl Pages for Snmalloc {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        // SAFETY: the alignment is a power of two.
        found(unsafe { snmalloc_sys::sn_rust_alloc(1, BYTES) })
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise; it was allocated with this size and alignment.
        unsafe { snmalloc_sys::sn_rust_dealloc(page.as_ptr().cast(), 1, BYTES) };
    }
}

/// Of gperftools. Linked, it would be the allocator of every subject; so it is loaded,
/// and its functions are called by their own names.
#[cfg(feature = "peers")]
#[derive(Clone, Copy)]
pub(crate) struct Tcmalloc {
    malloc: unsafe extern "C" fn(usize) -> *mut libc::c_void,
    free: unsafe extern "C" fn(*mut libc::c_void, usize),
}

#[cfg(feature = "peers")]
impl Tcmalloc {
    pub(crate) fn load() -> anyhow::Result<Self> {
        use anyhow::Context;
        const LIBRARY: &str = "libtcmalloc_minimal.so.4";
        // SAFETY: its start-up code sets up its own data, once.
        let library = unsafe { libloading::Library::new(LIBRARY) };
        let library = library.context("tcmalloc: is libtcmalloc-minimal4 installed?")?;
        // SAFETY: its type in gperftools/tcmalloc.h.
        let malloc = *unsafe { library.get(b"tc_malloc\0") }?;
        // SAFETY: as above.
        let free = *unsafe { library.get(b"tc_free_sized\0") }?;
        // Pages of it may be anywhere.
        std::mem::forget(library);
        Ok(Tcmalloc { malloc, free })
    }
}

#[cfg(feature = "peers")]
impl Pages for Tcmalloc {
    #[inline(always)]
    fn allocate(self) -> NonNull<u8> {
        // SAFETY: any size will do.
        found(unsafe { (self.malloc)(BYTES) })
    }

    #[inline(always)]
    unsafe fn free(self, page: NonNull<u8>) {
        // SAFETY: the caller's promise; it was allocated with this size.
        unsafe { (self.free)(page.as_ptr().cast(), BYTES) }
    }
}

/// Writes into a page, so that it is memory and not a promise of it.
#[inline(always)]
pub(crate) fn touch(page: NonNull<u8>) {
    // SAFETY: a page that was allocated and is nobody else's. Volatile: freeing it right
    // afterwards does not make the write superfluous.
    unsafe { page.as_ptr().write_volatile(1) };
}
