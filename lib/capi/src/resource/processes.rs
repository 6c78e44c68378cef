//! Programs and processes: children of this process under names.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use kumiki_resource::kind::Kind;
use kumiki_resource::{Handle, Place};
use kumiki_spawn::{Process, Program, Signal};

use super::handle::Resource;
use super::manager::limit;
use super::{ResourceInterface, null, open, optional};
use crate::failure::{Failure, answer};
use crate::spawn::{Attributes, FileActions, command};

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_program_create(
    interface: *const ResourceInterface,
    place: u16,
    name: *const c_char,
    path: *const c_char,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        if path.is_null() {
            return Err(null("path"));
        }
        // SAFETY: not null, so a text, the caller says.
        let path = PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        // SAFETY: the caller's promise.
        unsafe { make::<Program>((interface, place, name), path, resource) }
    })
}

/// See the header.
///
/// # Safety
/// As posix_spawnp(3); pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_process_create(
    interface: *const ResourceInterface,
    place: u16,
    name: *const c_char,
    file: *const c_char,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let command = unsafe { command(file, None, (actions, attributes), argv, envp) }?;
        // SAFETY: the caller's promise.
        unsafe { make::<Process>((interface, place, name), command, resource) }
    })
}

/// See the header.
///
/// # Safety
/// As posix_spawn(3); pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_process_of(
    interface: *const ResourceInterface,
    place: u16,
    name: *const c_char,
    program: *const Resource,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(program) }?.of::<Program>()?;
        let program = this.with(handle, |program, ()| program.command())?;
        let how = (actions, attributes);
        // SAFETY: the caller's promise.
        let command = unsafe { command(std::ptr::null(), Some(program), how, argv, envp) }?;
        // SAFETY: the caller's promise.
        unsafe { make::<Process>((interface, place, name), command, resource) }
    })
}

/// # Safety
/// Pointers are null or valid.
unsafe fn make<K: Kind>(
    (interface, place, name): (*const ResourceInterface, u16, *const c_char),
    spec: K::Spec,
    resource: *mut *mut Resource,
) -> Result<c_int, Failure>
where
    Resource: From<Handle<K>>,
{
    if resource.is_null() {
        return Err(null("place for the resource"));
    }
    // SAFETY: the caller's promise.
    let name = unsafe { optional(name) }?;
    // SAFETY: the caller's promise.
    let made = unsafe { open(interface) }?.create::<K>(Place(place), name, spec)?;
    // SAFETY: the caller's promise.
    unsafe { Resource::from(made).hand_out(resource) }
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_process_id(
    interface: *const ResourceInterface,
    resource: *const Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Process>()?;
        Ok(this.with(handle, |process, _| process.child().id())? as i32)
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_process_signal(
    interface: *const ResourceInterface,
    resource: *const Resource,
    signal: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Process>()?;
        let known = Signal::from_named_raw(signal)
            .ok_or_else(|| Failure::invalid(format!("there is no signal {signal}")))?;
        this.with(handle, |process, _| process.child().signal(known))??;
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_process_wait(
    interface: *const ResourceInterface,
    resource: *const Resource,
    timeout_ns: u64,
    status: *mut c_int,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Process>()?;
        let Some(ended) = Process::wait_timeout(this, handle, limit(timeout_ns))? else {
            let text = format!("the process has not ended within {timeout_ns} ns; wait again");
            return Err(Failure::new(libc::ETIMEDOUT, text));
        };
        if !status.is_null() {
            // SAFETY: not null, so valid, the caller says.
            unsafe { status.write(ended.into_raw()) };
        }
        Ok(0)
    })
}
