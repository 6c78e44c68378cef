//! The kind *object*: whatever a C program wants one core to own, and calls on it.

use std::ffi::{c_char, c_int, c_void};

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Place, Result};

use super::handle::Resource;
use super::{ResourceInterface, null, open, optional};
use crate::failure::answer;

/// A pointer that only its core's thread uses.
pub struct Object {
    object: *mut c_void,
    destroy: Option<Destroy>,
}

/// What takes an object apart, by its owner.
pub type Destroy = unsafe extern "C-unwind" fn(*mut c_void);
/// What is called on an object, by its owner: with the object and an argument.
pub type Called = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

// SAFETY: it is only handed on. What may be done with it there is for those to know who
// wrote the functions, as with pthread_create(3).
unsafe impl Send for Object {}

/// A pointer that C hands on to its own function in another thread.
pub(super) struct Argument(pub(super) *mut c_void);

// SAFETY: as for `Object`.
unsafe impl Send for Argument {}

impl Kind for Object {
    const NAME: &'static str = "object";
    type Spec = Object;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(object: Object, (): &mut ()) -> Result<Object> {
        Ok(object)
    }

    fn destroy(self, (): &mut ()) {
        if let Some(destroy) = self.destroy {
            // SAFETY: `resource_object_create`'s caller has said so.
            unsafe { destroy(self.object) };
        }
    }

    fn about(&self) -> About {
        About::default()
    }
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid; `destroy` may be called once with `object` by the owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn resource_object_create(
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
pub unsafe extern "C" fn resource_call(
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
