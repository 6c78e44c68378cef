//! The C library's functions that this library stands in front of. Each makes the call of the next library as it came
//! and gives its answer, with its `errno`; what `watch` does beside it is not seen by the program.

mod files;
mod folders;
mod limits;
mod numbers;
mod trees;

use crate::{counts, real, state};

/// Called by the loader before the program begins.
extern "C" fn load() {
    // In a program with more rights than its user's, which /etc/ld.so.preload can bring it into, nothing is done.
    // SAFETY: a question without pointers.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        state::turn_off();
    }
    real::find_all();
    if state::is_off() {
        return;
    }
    counts::open();
    state::open();
}

#[used]
// SAFETY: the loader calls what stands there; its arguments are not used.
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;
