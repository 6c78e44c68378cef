//! Atomics whose accesses a run's machine sees. Each lies as std's does, and is one.

use std::panic::Location;
use std::sync::atomic as std_atomic;
use std::sync::atomic::Ordering::SeqCst;

pub use std::sync::atomic::Ordering;

use super::{Access, machine};

/// Tells the machine of an access to the line of `place`.
#[inline]
#[track_caller]
fn seen<T>(place: &T, access: Access) {
    if let Some(machine) = machine() {
        machine.access((&raw const *place).addr(), access, Location::caller());
    }
}

/// Type that doubles std's of the same name.
macro_rules! double {
    ($name:ident of $value:ty) => {
        /// Double of std's.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(std_atomic::$name);

        impl $name {
            /// An atomic of that value.
            pub const fn new(value: $value) -> Self {
                Self(std_atomic::$name::new(value))
            }

            /// Loads.
            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                seen(self, Access::Load);
                self.0.load(order)
            }

            /// Stores.
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                // x86 makes a store that is to be seen before what follows by a swap.
                let access = if order == SeqCst { Access::Swap } else { Access::Store };
                seen(self, access);
                self.0.store(value, order);
            }

            /// Stores, and returns what was there.
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                seen(self, Access::Swap);
                self.0.swap(value, order)
            }

            /// Stores `new` where `now` is found.
            ///
            /// # Errors
            /// What was there instead.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                now: $value,
                new: $value,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                seen(self, Access::Swap);
                self.0.compare_exchange(now, new, order, failed)
            }

            /// Stores `new` where `now` is found.
            ///
            /// # Errors
            /// What was there instead.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                now: $value,
                new: $value,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                seen(self, Access::Swap);
                self.0.compare_exchange(now, new, order, failed)
            }

            /// Stores what `change` makes of the value, if it makes something of it.
            ///
            /// # Errors
            /// The value of which it made nothing.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                order: Ordering,
                loaded: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut now = self.load(loaded);
                while let Some(new) = change(now) {
                    match self.compare_exchange(now, new, order, loaded) {
                        Ok(before) => return Ok(before),
                        Err(other) => now = other,
                    }
                }
                Err(now)
            }

            /// The value, by who has it alone.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// The value.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// Address of the value.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            /// The real one, for what the kernel is told of.
            pub const fn real(&self) -> &std_atomic::$name {
                &self.0
            }
        }
    };
}

/// Steps that read and write at once.
macro_rules! steps {
    ($name:ident of $value:ty: $($step:ident)*) => {
        impl $name {
            $(
                /// Makes the same step as std's.
                #[inline]
                #[track_caller]
                pub fn $step(&self, value: $value, order: Ordering) -> $value {
                    seen(self, Access::Swap);
                    self.0.$step(value, order)
                }
            )*
        }
    };
}

macro_rules! integers {
    ($($name:ident of $value:ty),*) => {
        $(
            double!($name of $value);
            steps!($name of $value: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
        )*
    };
}

integers!(
    AtomicU8 of u8, AtomicU16 of u16, AtomicU32 of u32, AtomicU64 of u64, AtomicUsize of usize,
    AtomicI32 of i32, AtomicI64 of i64
);
double!(AtomicBool of bool);
steps!(AtomicBool of bool: fetch_and fetch_or fetch_xor);

/// Double of std's.
#[derive(Debug)]
#[repr(transparent)]
pub struct AtomicPtr<T>(std_atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// An atomic of that pointer.
    pub const fn new(value: *mut T) -> Self {
        Self(std_atomic::AtomicPtr::new(value))
    }

    /// Loads.
    #[inline]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> *mut T {
        seen(self, Access::Load);
        self.0.load(order)
    }

    /// Stores.
    #[inline]
    #[track_caller]
    pub fn store(&self, value: *mut T, order: Ordering) {
        seen(self, Access::Store);
        self.0.store(value, order);
    }

    /// Stores, and returns what was there.
    #[inline]
    #[track_caller]
    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        seen(self, Access::Swap);
        self.0.swap(value, order)
    }

    /// Stores `new` where `now` is found.
    ///
    /// # Errors
    /// What was there instead.
    #[inline]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        now: *mut T,
        new: *mut T,
        order: Ordering,
        failed: Ordering,
    ) -> Result<*mut T, *mut T> {
        seen(self, Access::Swap);
        self.0.compare_exchange(now, new, order, failed)
    }

    /// The pointer, by who has it alone.
    pub fn get_mut(&mut self) -> &mut *mut T {
        self.0.get_mut()
    }
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}
