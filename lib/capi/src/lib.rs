//! Kumiki for C and C++.
//!
//! This crate is what `libkumiki.so` and `libkumiki.a` are made of; Rust
//! programs use the crate `kumiki`. Each part has a header, which is also its
//! reference: `include/kumiki/shadow.h` for shadow threads,
//! `include/kumiki/parasc.h` for parallel system calls, `include/kumiki/resource.h` for
//! resources owned per core, `include/kumiki/spawn.h` for processes.
//!
//! ```text
//!   C, C++ ── <kumiki/shadow.h> ── thin functions here ── kumiki-shadow
//!                pointers,           check what C cannot:      safe Rust
//!                errno values        thread, nesting, null
//!
//!   C, C++ ── <kumiki/parasc.h> ── thin functions here ── kumiki-parasc
//!                the calls' own       check what C cannot:      raw requests,
//!                pointers: C's        thread, ticket, null      unsafe as in C
//!
//!   C, C++ ── <kumiki/resource.h> ── thin functions here ── kumiki-resource
//!                handles whose kind   check what C cannot:      typed handles
//!                is found out         kind, thread, null
//!
//!   C, C++ ── <kumiki/spawn.h> ──── thin functions here ── kumiki-spawn
//!                posix_spawn's shapes  carry out file actions:  Command
//! ```
//!
//! # C
//!
//! `cargo xtask capi --prefix DIR` builds the libraries and installs them, the
//! headers and `kumiki.pc` into DIR. With `DIR/lib/pkgconfig` in
//! `PKG_CONFIG_PATH`:
//!
//! ```text
//! cc main.c $(pkg-config --cflags --libs kumiki)
//! cc main.c $(pkg-config --cflags --libs --static kumiki | sed 's/-lkumiki/-l:libkumiki.a/')
//! cc -static main.c $(pkg-config --cflags --libs --static kumiki)
//! ```
//!
//! The first needs `libkumiki.so.0` where the dynamic linker looks, the second
//! no file of Kumiki, the third no shared library at all. A program:
//!
//! ```c
//! #include <kumiki/shadow.h>
//! #include <stdio.h>
//!
//! static void theirs(void *sum) { *(long *)sum = 42; }
//!
//! int main(void)
//! {
//!     struct shadow *shadow;
//!     long sum = 0;
//!     if (shadow_create(&shadow, NULL) < 0) {
//!         fprintf(stderr, "%s\n", kumiki_last_error());
//!         return 1;
//!     }
//!     shadow_fork(shadow, theirs, &sum);
//!     /* our half of the work */
//!     shadow_join(shadow);
//!     printf("%ld\n", sum);
//!     shadow_destroy(shadow);
//!     return 0;
//! }
//! ```
//!
//! Errors are negative errno values, of `kumiki/spawn.h` positive ones as posix_spawn's,
//! with a sentence from `kumiki_last_error`.
//! No panic of this library goes into C: it becomes `-EIO`.
#![allow(missing_debug_implementations, reason = "to C its types are opaque")]

pub mod abi;
mod failure;
mod identity;
mod parasc;
pub mod parasc_abi;
mod resource;
pub mod resource_abi;
mod shadow;
mod spawn;
pub mod spawn_abi;

pub use failure::kumiki_last_error;
pub use parasc::{
    Engine, Requester, parasc_collect, parasc_completion_fd, parasc_create, parasc_destroy,
    parasc_proc, parasc_refusal, parasc_request, parasc_requester_create, parasc_requester_destroy,
    parasc_run, parasc_terminate, parasc_try, parasc_wait, parasc_wake_up,
};
pub use resource::*;
pub use shadow::{
    Function, Shadow, shadow_copy, shadow_copy_prepare, shadow_copy_prepare_timeout,
    shadow_copy_timeout, shadow_create, shadow_create_timeout, shadow_destroy,
    shadow_destroy_timeout, shadow_fork, shadow_info, shadow_is_finished, shadow_join,
    shadow_join_timeout,
};
pub use spawn::*;
