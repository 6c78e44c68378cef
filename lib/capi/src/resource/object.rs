//! The kind *object*: whatever a C program wants one core to own.

use std::ffi::c_void;

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Place, Result};

/// A pointer that only its core's thread uses.
pub struct Object {
    pub(super) object: *mut c_void,
    pub(super) destroy: Option<Destroy>,
}

/// A function by which its owner takes an object apart.
pub type Destroy = unsafe extern "C-unwind" fn(*mut c_void);
/// A function that its owner calls on an object, with an argument.
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
            // SAFETY: `kumiki_resource_object_create`'s caller has said so.
            unsafe { destroy(self.object) };
        }
    }

    fn about(&self) -> About {
        About::default()
    }
}
