//! Batches of others' frames on their way home.

use std::ptr;

use super::batch::Batch;
use super::home::Home;

/// Batches on their way at a time, each to another home: a thread that frees what came from
/// several in turns sends none away half empty.
pub(super) const WAYS: usize = 4;

/// A batch on its way, or null, and where to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub(super) batch: *mut Batch,
    pub(super) home: *const Home,
}

impl Out {
    pub(super) const NONE: Out = Out { batch: ptr::null_mut(), home: ptr::null() };

    pub(super) fn send(&mut self) {
        let batch = std::mem::replace(&mut self.batch, ptr::null_mut());
        // SAFETY: null, or a home, which is never freed.
        if let Some(home) = unsafe { self.home.as_ref() } {
            if !batch.is_null() {
                home.put(batch);
            }
        }
    }
}

/// Way that batches to this home go: homes are some lines long, and lie anywhere.
pub(super) fn way_of(home: &'static Home) -> usize {
    let line = ptr::from_ref(home).addr() / align_of::<Home>();
    (line ^ (line / WAYS) ^ (line / (WAYS * WAYS))) % WAYS
}
