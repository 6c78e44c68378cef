//! The functions of `kumiki/resource.h`, which documents them: interfaces, handles, names
//! and calls.

mod handle;
mod kinds;
mod manager;
mod object;
mod object_calls;
mod page;
mod processes;
mod started;
mod watch;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use kumiki_resource::published::Published;
use kumiki_resource::{Interface, Listed, Name, Pattern, Place, Rights};
use kumiki_spawn::{Process, Program};
use kumiki_wait::Policy;

pub use self::handle::Resource;
pub use self::kinds::*;
use self::manager::only;
pub use self::manager::*;
pub use self::object::{Called, Destroy, Object};
pub use self::object_calls::{kumiki_resource_call, kumiki_resource_object_create};
pub use self::page::*;
pub use self::processes::*;
pub use self::started::*;
pub use self::watch::*;
use crate::failure::{Failure, answer};
use crate::resource_abi::{KUMIKI_RESOURCE_ADOPTED, ResourceListed};

/// `struct kumiki_resource_interface`.
pub struct ResourceInterface(Interface);

/// `struct kumiki_resource_published`.
pub struct ResourcePublished {
    _published: Published,
}

fn null(what: &str) -> Failure {
    Failure::invalid(format!("the {what} is a null pointer"))
}

/// # Safety
/// `interface` is null, or there as long as the reference.
unsafe fn open<'a>(interface: *const ResourceInterface) -> Result<&'a Interface, Failure> {
    // SAFETY: the caller's promise.
    let this = unsafe { interface.as_ref() }.ok_or_else(|| null("interface"))?;
    Ok(&this.0)
}

/// # Safety
/// `text` is null, or ends with a zero and stays as long as the reference.
unsafe fn optional<'a>(text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::invalid("a name that is not UTF-8"))
}

/// Puts a value of the library's where C keeps the pointer.
///
/// # Safety
/// `to` is valid for writing.
unsafe fn hand_out<T>(to: *mut *mut T, value: T) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { to.write(Box::into_raw(Box::new(value))) };
    0
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_interface_create(
    interface: *mut *mut ResourceInterface,
    cpus: *const c_int,
    cpus_num: usize,
    flags: c_uint,
) -> c_int {
    answer(|| {
        if interface.is_null() {
            return Err(null("place for the interface"));
        }
        only(flags, KUMIKI_RESOURCE_ADOPTED)?;
        let policy = Policy::from_env().map_err(kumiki_resource::Error::from)?;
        let mut builder = Interface::builder().policy(policy).standard();
        builder = builder.kind::<Program>().kind::<Process>().kind::<Object>();
        let chosen = if cpus.is_null() && cpus_num == 0 {
            None
        } else if cpus.is_null() {
            return Err(null("list of cpus"));
        } else {
            // SAFETY: not null, so valid, the caller says.
            let cpus = unsafe { std::slice::from_raw_parts(cpus, cpus_num) };
            let cpu = |cpu: &c_int| {
                usize::try_from(*cpu).map_err(|_| {
                    Failure::invalid(format!("there is no cpu {cpu}: cpus count from 0"))
                })
            };
            Some(cpus.iter().map(cpu).collect::<Result<Vec<_>, _>>()?)
        };
        if flags & KUMIKI_RESOURCE_ADOPTED != 0 {
            let all = || kumiki_sys::affinity::current().map(|set| set.iter().collect());
            let cpus = chosen.map_or_else(all, Ok).map_err(kumiki_resource::Error::from)?;
            builder = builder.cores([]).adopted(cpus);
        } else if let Some(cpus) = chosen {
            builder = builder.cores(cpus);
        }
        let made = builder.per_core()?;
        // SAFETY: not null, so valid, the caller says.
        Ok(unsafe { hand_out(interface, ResourceInterface(made)) })
    })
}

/// See the header.
///
/// # Safety
/// `interface` is null, or from [`kumiki_resource_interface_create`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_interface_destroy(
    interface: *mut ResourceInterface,
) -> c_int {
    answer(|| {
        if !interface.is_null() {
            // SAFETY: from a box, and this is its last use.
            drop(unsafe { Box::from_raw(interface) });
        }
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid; `places` has room for `places_num` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_places(
    interface: *const ResourceInterface,
    places: *mut u16,
    places_num: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let all = unsafe { open(interface) }?.places();
        if places_num > 0 {
            if places.is_null() {
                return Err(null("list of places"));
            }
            // SAFETY: not null, so with that much room, the caller says.
            let room = unsafe { std::slice::from_raw_parts_mut(places, places_num) };
            room.iter_mut().zip(&all).for_each(|(room, Place(place))| *room = *place);
        }
        Ok(all.len() as c_int)
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_open(
    interface: *const ResourceInterface,
    name: *const c_char,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { optional(name) }?.ok_or_else(|| null("name"))?;
        let opened = Resource::open(this, &name.parse::<Name>()?)?;
        // SAFETY: the caller's promise.
        unsafe { opened.hand_out(resource) }
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_open_id(
    interface: *const ResourceInterface,
    id: u64,
    resource: *mut *mut Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        let opened = Resource::of_id(this, kumiki_resource::Id::from_u64(id))?;
        // SAFETY: the caller's promise.
        unsafe { opened.hand_out(resource) }
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_share(
    resource: *const Resource,
    rights: c_uint,
    shared: *mut *mut Resource,
) -> c_int {
    answer(|| {
        let known = u8::try_from(rights).ok().and_then(Rights::from_bits);
        let rights = known
            .ok_or_else(|| Failure::invalid(format!("the rights {rights:#x} have unknown bits")))?;
        // SAFETY: the caller's promise.
        let further = unsafe { Resource::borrow(resource) }?.share(rights)?;
        // SAFETY: the caller's promise.
        unsafe { further.hand_out(shared) }
    })
}

/// See the header.
///
/// # Safety
/// `resource` is null, or a handle that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_close(resource: *mut Resource) {
    if !resource.is_null() {
        // SAFETY: from a box, and this is its last use.
        drop(unsafe { Box::from_raw(resource) });
    }
}

/// See the header.
///
/// # Safety
/// `resource` is null, or a handle that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_id(resource: *const Resource) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { resource.as_ref() }.map_or(0, |resource| resource.id().to_u64())
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid; after a 0 `resource` is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_destroy(
    interface: *const ResourceInterface,
    resource: *mut Resource,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        unsafe { Resource::borrow(resource) }?.delete(this)?;
        // SAFETY: from a box, and this is its last use.
        drop(unsafe { Box::from_raw(resource) });
        Ok(0)
    })
}

/// A function that is called for each resource.
pub type Each = unsafe extern "C-unwind" fn(*const ResourceListed, *mut c_void);

/// See the header.
///
/// # Safety
/// Pointers are null or valid; `each` may be called here with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_ls(
    interface: *const ResourceInterface,
    pattern: *const c_char,
    each: Option<Each>,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller's promise.
        let this = unsafe { open(interface) }?;
        // SAFETY: the caller's promise.
        let pattern = unsafe { optional(pattern) }?;
        let pattern = pattern.map_or_else(|| Ok(Pattern::all()), Pattern::new)?;
        let all = this.tree(&pattern)?;
        for Listed { name, owner, about, id, calls, .. } in &all {
            let text = |text: &str| CString::new(text).unwrap_or_default();
            let (name, owner, state) = (text(name), text(owner), text(&about.state));
            let listed = ResourceListed {
                name: name.as_ptr(),
                owner: owner.as_ptr(),
                state: state.as_ptr(),
                id: id.to_u64(),
                bytes: about.bytes,
                calls: *calls,
            };
            if let Some(each) = each {
                // SAFETY: the caller's promise.
                unsafe { each(&listed, argument) };
            }
        }
        Ok(c_int::try_from(all.len()).unwrap_or(c_int::MAX))
    })
}

/// See the header.
///
/// # Safety
/// Pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_publish(
    interface: *const ResourceInterface,
    published: *mut *mut ResourcePublished,
) -> c_int {
    answer(|| {
        if published.is_null() {
            return Err(null("place for what is published"));
        }
        // SAFETY: the caller's promise.
        let _published = unsafe { open(interface) }?.publish()?;
        // SAFETY: not null, so valid, the caller says.
        Ok(unsafe { hand_out(published, ResourcePublished { _published }) })
    })
}

/// See the header.
///
/// # Safety
/// `published` is null, or from [`kumiki_resource_publish`] and not withdrawn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_resource_withdraw(published: *mut ResourcePublished) {
    if !published.is_null() {
        // SAFETY: from a box, and this is its last use.
        drop(unsafe { Box::from_raw(published) });
    }
}
