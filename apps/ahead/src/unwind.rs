//! This library without libgcc_s, which takes the loader longer than all the rest of it, in each program that is started.
//!
//! Its functions are asked for in two cases. A panic of ours: nothing of ours is ever unwound, and the process ends as with
//! `panic = "abort"`. And a thread of the program that is ended by force (pthread_cancel, pthread_exit) within a call
//! of ours: the C library has then loaded libgcc_s itself and goes through our frames, whose description asks these
//! functions about the frame. Such questions are handed on to the libgcc_s that asks.

use std::arch::global_asm;
use std::ffi::{CStr, c_void};
use std::process::abort;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of libgcc_s, as far as that is loaded.
struct Handed {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Handed {
    fn get(&self) -> *mut c_void {
        let at = self.at.load(Ordering::Relaxed);
        if !at.is_null() {
            return at;
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: a text that ends with a zero; nothing is loaded.
        let library = unsafe { libc::dlopen(c"libgcc_s.so.1".as_ptr(), flags) };
        if library.is_null() {
            return ptr::null_mut();
        }
        // SAFETY: a library that stays loaded, as who has loaded it never closes it, and a text that ends with a zero.
        let at = unsafe { libc::dlsym(library, self.name.as_ptr()) };
        self.at.store(at, Ordering::Relaxed);
        at
    }
}

macro_rules! handed_on {
    ($($ours:ident: $name:literal;)*) => { $(
        /// Does what the function of libgcc_s does; none of these has more than three words, or other ones.
        unsafe extern "C-unwind" fn $ours(a: usize, b: usize, c: usize) -> usize {
            static NEXT: Handed = Handed {
                name: match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
                at: AtomicPtr::new(ptr::null_mut()),
            };
            let at = NEXT.get();
            if at.is_null() {
                abort();
            }
            // SAFETY: a function of this name, which takes these words or fewer.
            let call = unsafe {
                std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C-unwind" fn(usize, usize, usize) -> usize,
                >(at)
            };
            // SAFETY: as the caller says.
            unsafe { call(a, b, c) }
        }
        defined!($name, $ours);
    )* };
}

/// Defines a symbol for this library alone: the program's own is another one.
macro_rules! defined {
    ($name:literal, $ours:ident) => {
        #[cfg(target_arch = "x86_64")]
        global_asm!(
            concat!(".globl ", $name, "\n.hidden ", $name, "\n", $name, ":\njmp {}"),
            sym $ours
        );
        #[cfg(target_arch = "aarch64")]
        global_asm!(
            concat!(".globl ", $name, "\n.hidden ", $name, "\n", $name, ":\nb {}"),
            sym $ours
        );
    };
}

handed_on! {
    get_data: "_Unwind_GetDataRelBase";
    get_ip: "_Unwind_GetIP";
    get_ip_info: "_Unwind_GetIPInfo";
    get_language_data: "_Unwind_GetLanguageSpecificData";
    get_start: "_Unwind_GetRegionStart";
    get_text: "_Unwind_GetTextRelBase";
    set_register: "_Unwind_SetGR";
    set_ip: "_Unwind_SetIP";
    resume: "_Unwind_Resume";
}

/// No frame: a panic's message has no list of calls.
extern "C" fn no_frames(_: *mut c_void, _: *mut c_void) -> usize {
    const END_OF_STACK: usize = 5;
    END_OF_STACK
}

/// A panic has said what it is; the process ends.
extern "C" fn raise(_: *mut c_void) -> usize {
    abort()
}

extern "C" fn delete(_: *mut c_void) {}

defined!("_Unwind_Backtrace", no_frames);
defined!("_Unwind_RaiseException", raise);
defined!("_Unwind_DeleteException", delete);
