//! A handle of any kind.

use std::ffi::c_int;

use kumiki_resource::{
    Error, Handle, Id, Interface, LargeMemory, Memory, Name, Region, Result, Rights, Space, Thread,
    UserSpace,
};
use kumiki_spawn::{Process, Program};

use super::{hand_out, null};
use crate::failure::Failure;
use crate::resource::object::Object;

/// `struct kumiki_resource`: C's handle, which knows its kind at run time.
pub enum Resource {
    /// 4 KiB frames.
    Memory(Handle<Memory>),
    /// 2 MiB frames.
    LargeMemory(Handle<LargeMemory>),
    /// A virtual region.
    Region(Handle<Region>),
    /// A virtual space.
    Space(Handle<Space>),
    /// A virtual user space.
    UserSpace(Handle<UserSpace>),
    /// A thread.
    Thread(Handle<Thread>),
    /// A program, resident in memory.
    Program(Handle<Program>),
    /// A process.
    Process(Handle<Process>),
    /// C's own.
    Object(Handle<Object>),
}

/// Runs an expression with the handle inside, whatever its kind.
macro_rules! each {
    ($of:expr, $handle:ident => $then:expr) => {
        match $of {
            Resource::Memory($handle) => $then,
            Resource::LargeMemory($handle) => $then,
            Resource::Region($handle) => $then,
            Resource::Space($handle) => $then,
            Resource::UserSpace($handle) => $then,
            Resource::Thread($handle) => $then,
            Resource::Program($handle) => $then,
            Resource::Process($handle) => $then,
            Resource::Object($handle) => $then,
        }
    };
}

macro_rules! kinds {
    ($($kind:ident),*) => {
        $(impl From<Handle<$kind>> for Resource {
            fn from(handle: Handle<$kind>) -> Self {
                Resource::$kind(handle)
            }
        }

        impl Of for $kind {
            fn of(resource: &Resource) -> Option<&Handle<$kind>> {
                match resource {
                    Resource::$kind(handle) => Some(handle),
                    _ => None,
                }
            }
        })*

        impl Resource {
            /// The handle of an id, if it is of a kind that C knows.
            pub(super) fn of_id(interface: &Interface, id: Id) -> Result<Self> {
                $(match interface.of_id::<$kind>(id) {
                    Err(Error::WrongKind { .. }) => {}
                    outcome => return outcome.map(Self::from),
                })*
                // Kinds of Rust programs: C has no interface with them.
                Err(Error::Unknown { id })
            }
        }
    };
}

/// A kind that C knows.
pub(super) trait Of: kumiki_resource::kind::Kind {
    fn of(resource: &Resource) -> Option<&Handle<Self>>;
}

kinds!(Memory, LargeMemory, Region, Space, UserSpace, Thread, Program, Process, Object);

impl Resource {
    /// # Safety
    /// `resource` is null, or there as long as the reference.
    pub(super) unsafe fn borrow<'a>(resource: *const Resource) -> Result<&'a Self, Failure> {
        // SAFETY: the caller's promise.
        unsafe { resource.as_ref() }.ok_or_else(|| null("resource"))
    }

    /// # Safety
    /// `to` is null or valid.
    pub(super) unsafe fn hand_out(self, to: *mut *mut Resource) -> Result<c_int, Failure> {
        if to.is_null() {
            return Err(null("place for the resource"));
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { hand_out(to, self) })
    }

    pub(super) fn open(interface: &Interface, name: &Name) -> Result<Self> {
        Self::of_id(interface, interface.lookup(name)?)
    }

    pub(super) fn id(&self) -> Id {
        each!(self, handle => handle.id())
    }

    fn kind(&self) -> &'static str {
        fn name<K: kumiki_resource::kind::Kind>(_: &Handle<K>) -> &'static str {
            K::NAME
        }
        each!(self, handle => name(handle))
    }

    pub(super) fn share(&self, rights: Rights) -> Result<Self> {
        each!(self, handle => handle.share(rights).map(Self::from))
    }

    pub(super) fn delete(&self, interface: &Interface) -> Result<()> {
        each!(self, handle => interface.destroy_by(handle))
    }

    /// Returns it as a handle of `K`.
    pub(super) fn of<K: Of>(&self) -> Result<&Handle<K>> {
        let wrong = Error::WrongKind { id: self.id(), is: self.kind(), wanted: K::NAME };
        K::of(self).ok_or(wrong)
    }
}
