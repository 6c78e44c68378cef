//! Making a thread and waiting for its end.

use std::ffi::c_void;
use std::ptr;

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::pthread::Attributes;

use crate::other_end::OtherEnd;
use kumiki_measure::case::{Case, Each, Level, Place};
use kumiki_measure::error::{Error, Result};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for end in OtherEnd::BOTH {
        cases.push(end.mark(Case::new(
            "thread.create.pthread",
            "pthread_create and pthread_join of a thread that returns at once, bound by its attributes",
            move |place: &Place| {
                let attributes = Attributes::bound_to(end.cpu(place)?)?;
                Ok(Each(move || pthread(&attributes)))
            },
        )));
        cases.push(
            end.mark(Case::new(
                "thread.create.std",
                "std::thread::spawn and join of a thread that binds itself and returns",
                move |place: &Place| {
                    let cpu = end.cpu(place)?;
                    // Found out here, where it can be told.
                    drop(Attributes::bound_to(cpu)?);
                    Ok(Each(move || std_thread(end, cpu)))
                },
            ))
            .level(Level::Default),
        );
    }
    cases
}

fn pthread(attributes: &Attributes) -> Result<()> {
    Ok(attributes.create(return_at_once, ptr::null_mut())?.join()?)
}

extern "C" fn return_at_once(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

fn std_thread(end: OtherEnd, cpu: usize) -> Result<()> {
    let work = move || match end {
        // Inherited from its maker.
        OtherEnd::Same => Ok(()),
        // The bare call: checking what came of it would be in the figure.
        OtherEnd::Other => affinity::request(None, &CpuSet::from_iter([cpu]))
            .map_err(|e| Error::os(format!("bind a thread to cpu {cpu}"), e)),
    };
    let builder = std::thread::Builder::new();
    let thread = builder.spawn(work).map_err(|e| Error::os("spawn a thread", e))?;
    thread.join().unwrap_or_else(|_| Err(Error::Invalid("a spawned thread panicked".into())))
}
