//! Objects made, and calls on them.

use std::ffi::{c_char, c_int, c_void};

use kumiki_resource::Place;

use super::handle::Resource;
use super::object::{Argument, Called, Destroy, Object};
use super::{ResourceInterface, null, open, optional};
use crate::failure::answer;

/// See the header.
///
/// # Safety
/// Pointers are null or valid; `destroy` may be called once with `object` by the owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_object_create(
    interface: *const ResourceInterface,
    place: u16,
    name: *const c_char,
    object: *mut c_void,
    destroy: Option<Destroy>,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        if resource.is_null() {
            return Err(null("place for the resource"));
        }
        // SAFETY: the caller's promise.
        let name = unsafe { optional(name) }?;
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        let made = this.create::<Object>(Place(place), name, Object { object, destroy })?;
        // SAFETY: the caller's promise.
        unsafe { Resource::from(made).hand_out(resource) }
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid; `function` may be called once by the owner with the object
/// and `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_call(
    interface: *const ResourceInterface,
    resource: *const Resource,
    function: Option<Called>,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let handle = unsafe { Resource::borrow(resource) }?.of::<Object>()?;
        let function = function.ok_or_else(|| null("function"))?;
        let argument = Argument(argument);
        this.with(handle, move |object, ()| {
            let (Argument(argument), object) = ({ argument }, object.object);
            // SAFETY: the caller's promise.
            unsafe { function(object, argument) };
        })?;
        Ok(0)
    })
}
