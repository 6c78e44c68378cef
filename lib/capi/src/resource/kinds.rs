//! What C makes and uses of each kind.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use kumiki_resource::kind::Kind;
use kumiki_resource::{
    Attach, Handle, LARGE_FRAME_BYTES, LargeMemory, Memory, Place, Region, RegionSpec, Space, Stop,
    Thread, ThreadSpec, UserSpace, UserSpaceSpec,
};
use kumiki_sys::shm::Huge;

use super::handle::Resource;
use super::manager::only;
use super::object::Argument;
use super::{ResourceInterface, null, open, optional};
use crate::failure::{Failure, answer};
use crate::resource_abi::{KUMIKI_RESOURCE_ANYWHERE, KUMIKI_RESOURCE_READ_ONLY};

/// Place where a resource is to be, and its name.
type Named = (*const ResourceInterface, u16, *const c_char);

/// Makes a resource for C.
///
/// # Safety
/// Pointers are null or valid.
unsafe fn create<K: Kind>(
    (interface, place, name): Named,
    to: *mut *mut Resource,
    spec: impl FnOnce() -> Result<K::Spec, Failure>,
) -> c_int
where
    Resource: From<Handle<K>>,
{
    answer(|| {
        if to.is_null() {
            return Err(null("place for the resource"));
        }
        // SAFETY: the caller's promise.
        let name = unsafe { optional(name) }?;
        // SAFETY: the caller's promise.
        let made = unsafe { open(interface) }?.create::<K>(Place(place), name, spec()?)?;
        // SAFETY: the caller's promise.
        unsafe { Resource::from(made).hand_out(to) }
    })
}

/// A descriptor of C's, for the resource to keep.
fn duplicate(fd: c_int) -> Result<OwnedFd, Failure> {
    if fd < 0 {
        return Err(Failure::new(
            libc::EBADF,
            format!("{fd} is not a descriptor: pass one that is open"),
        ));
    }
    // SAFETY: a number that is not -1; if it is not open, the next call says so.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    fd.try_clone_to_owned().map_err(|error| {
        Failure::new(error.raw_os_error().unwrap_or(libc::EIO), format!("the descriptor: {error}"))
    })
}

/// Functions that make a resource, with what they are told beside place and name: its
/// kind, and the kind's own description of it.
macro_rules! creates {
    ($($function:ident($($arg:ident: $type:ty),*): $kind:ty = $spec:expr;)*) => {$(
        /// See the header.
        ///
        /// # Safety
        /// Pointers are null or valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(
            interface: *const ResourceInterface,
            place: u16,
            name: *const c_char,
            $($arg: $type,)*
            resource: *mut *mut Resource,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { create::<$kind>((interface, place, name), resource, || Ok($spec)) }
        }
    )*};
}

creates! {
    kumiki_resource_memory_create(frames: usize): Memory = frames;
    kumiki_resource_memory_2m_create(frames: usize): LargeMemory = frames;
    kumiki_resource_region_create(bytes: usize): Region = RegionSpec::Memory { bytes, huge: Huge::Policy };
    kumiki_resource_region_of_frames(frames: usize): Region = RegionSpec::Frames(frames);
    kumiki_resource_region_of_file(fd: c_int, offset: u64, bytes: usize): Region =
        RegionSpec::File { file: File::from(duplicate(fd)?), offset, bytes };
    kumiki_resource_region_of_passed(fd: c_int): Region = RegionSpec::Passed(duplicate(fd)?);
    kumiki_resource_space_create(bytes: usize): Space = bytes;
    kumiki_resource_user_space_create(bytes: usize): UserSpace = UserSpaceSpec::memory(bytes);
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_memory_frame(
    interface: *const ResourceInterface,
    resource: *const Resource,
    index: usize,
    frame: *mut *mut c_void,
) -> c_int {
    answer(|| {
        if frame.is_null() {
            return Err(null("place for the frame"));
        }
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let resource = unsafe { Resource::borrow(resource) }?;
        let address = |at: *mut u8| at.expose_provenance();
        let at = match resource {
            Resource::LargeMemory(handle) => this.with(handle, |memory, _| {
                memory
                    .frame(index)
                    .map(|frame: &mut [u8; LARGE_FRAME_BYTES]| address(frame.as_mut_ptr()))
            })?,
            other => this.with(other.of::<Memory>()?, |memory, _| {
                memory.frame(index).map(|frame| address(frame.as_mut_ptr()))
            })?,
        };
        let at = at.ok_or_else(|| {
            Failure::invalid(format!("there is no frame {index}: the resource has fewer"))
        })?;
        // SAFETY: not null, so valid, the caller says.
        unsafe { frame.write(std::ptr::with_exposed_provenance_mut(at)) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_region_descriptor(
    interface: *const ResourceInterface,
    resource: *const Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Region>()?;
        Ok(this.with(handle, |region, _| region.descriptor())??.into_raw_fd())
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_attach(
    interface: *const ResourceInterface,
    place: u16,
    name: *const c_char,
    region: *const Resource,
    space: *const Resource,
    offset: u64,
    flags: c_uint,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        if resource.is_null() {
            return Err(null("place for the resource"));
        }
        only(flags, KUMIKI_RESOURCE_READ_ONLY)?;
        let offset = (offset != KUMIKI_RESOURCE_ANYWHERE).then_some(offset as usize);
        let how = Attach { offset, write: flags & KUMIKI_RESOURCE_READ_ONLY == 0 };
        // SAFETY: the caller's promise.
        let name = unsafe { optional(name) }?;
        // SAFETY: the caller's promise.
        let region = unsafe { Resource::borrow(region) }?.of::<Region>()?;
        // SAFETY: the caller's promise.
        let space = unsafe { Resource::borrow(space) }?.of::<Space>()?;
        // SAFETY: the caller's promise.
        let made = unsafe { open(interface) }?.attach(Place(place), name, region, space, how)?;
        // SAFETY: the caller's promise.
        unsafe { Resource::from(made).hand_out(resource) }
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_user_space_address(
    interface: *const ResourceInterface,
    resource: *const Resource,
    address: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    answer(|| {
        if address.is_null() {
            return Err(null("place for the address"));
        }
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<UserSpace>()?;
        let of = |user: &mut UserSpace, _: &mut _| (user.as_ptr().expose_provenance(), user.len());
        let (at, len) = this.with(handle, of)?;
        // SAFETY: not null, so valid, the caller says.
        unsafe { address.write(std::ptr::with_exposed_provenance_mut(at)) };
        if !bytes.is_null() {
            // SAFETY: as above.
            unsafe { bytes.write(len) };
        }
        Ok(0)
    })
}

/// A thread's function: it gets its argument, and what tells it to stop.
pub type ThreadFunction = unsafe extern "C-unwind" fn(*mut c_void, *const Stop);

/// See the header.
///
/// # Safety
/// Pointers are null or valid; `function` may be called once with `argument`, in another
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_thread_create(
    interface: *const ResourceInterface,
    place: u16,
    name: *const c_char,
    function: Option<ThreadFunction>,
    argument: *mut c_void,
    resource: *mut *mut Resource,
) -> c_int {
    let spec = || {
        let function = function.ok_or_else(|| null("function"))?;
        let argument = Argument(argument);
        Ok(ThreadSpec::new(move |stop| {
            let Argument(argument) = { argument };
            // SAFETY: the caller's promise.
            unsafe { function(argument, stop) };
        }))
    };
    // SAFETY: the caller's promise.
    unsafe { create::<Thread>((interface, place, name), resource, spec) }
}

/// See the header.
///
/// # Safety
/// `stop` is what a thread's function was called with, in that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_stop_is_asked(stop: *const Stop) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { stop.as_ref() }.is_some_and(Stop::is_asked).into()
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_thread_wait(
    interface: *const ResourceInterface,
    resource: *const Resource,
    timeout_ns: u64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Thread>()?;
        let end = this.with(handle, |thread, ()| thread.end())?;
        if end.wait_timeout(Duration::from_nanos(timeout_ns))? {
            return Ok(0);
        }
        let text = format!("the thread has not ended within {timeout_ns} ns; wait again");
        Err(Failure::new(libc::ETIMEDOUT, text))
    })
}
