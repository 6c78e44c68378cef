//! Making a thread and waiting for its end.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::case::{Case, Each, Level, Place};
use crate::cases::other_end::OtherEnd;
use crate::error::{Error, Result};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for end in OtherEnd::BOTH {
        cases.push(end.mark(Case::new(
            "thread.create.pthread",
            "pthread_create and pthread_join of a thread that returns at once, bound by its attributes",
            move |place: &Place| {
                let mut attributes = Attributes::bound_to(end.cpu(place)?)?;
                Ok(Each(move || attributes.create_and_join()))
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

/// How threads are made: with the default stack, bound to one cpu. The C
/// library keeps the stack of the thread before, so it is mapped only once.
struct Attributes(Box<MaybeUninit<libc::pthread_attr_t>>);

impl Attributes {
    fn bound_to(cpu: usize) -> Result<Self> {
        let mut attributes = Box::new(MaybeUninit::uninit());
        // SAFETY: the memory is writable and as large as the type.
        check("prepare thread attributes", unsafe {
            libc::pthread_attr_init(attributes.as_mut_ptr())
        })?;
        let mut attributes = Attributes(attributes);
        let set = CpuSet::from_iter([cpu]);
        let (words, bytes) = (set.words().as_ptr(), size_of_val(set.words()));
        // SAFETY: initialised above; the set has that many bytes, of which the
        // C library makes a copy.
        check("bind thread attributes", unsafe {
            libc::pthread_attr_setaffinity_np(attributes.0.as_mut_ptr(), bytes, words.cast())
        })?;
        Ok(attributes)
    }

    fn create_and_join(&mut self) -> Result<()> {
        let mut thread = 0;
        // SAFETY: the attributes are initialised, `thread` is writable, and the
        // function does nothing, not even with its argument.
        check("create a thread", unsafe {
            libc::pthread_create(&mut thread, self.0.as_ptr(), return_at_once, ptr::null_mut())
        })?;
        // SAFETY: created above, neither joined nor detached; the result is not
        // asked for.
        check("join a thread", unsafe { libc::pthread_join(thread, ptr::null_mut()) })
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `bound_to`, destroyed only here.
        unsafe { libc::pthread_attr_destroy(self.0.as_mut_ptr()) };
    }
}

extern "C" fn return_at_once(_: *mut libc::c_void) -> *mut libc::c_void {
    ptr::null_mut()
}

/// pthread functions return their `errno`.
fn check(what: &str, errno: libc::c_int) -> Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(Error::os(what, io::Error::from_raw_os_error(errno))),
    }
}
