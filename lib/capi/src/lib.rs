//! Kumiki for C and C++.
//!
//! This crate is what `libkumiki.so` and `libkumiki.a` are made of; Rust
//! programs use the crate `kumiki`. Each part has a header, which is also its
//! reference: `include/kumiki/shadow.h` for shadow threads,
//! `include/kumiki/parasc.h` for parallel system calls, `include/kumiki/files.h` for many files at once,
//! `include/kumiki/resource.h` for resources owned per core, `include/kumiki/spawn.h` for processes.
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
//!     struct kumiki_shadow *shadow;
//!     long sum = 0;
//!     if (kumiki_shadow_create(&shadow, NULL) < 0) {
//!         fprintf(stderr, "%s\n", kumiki_last_error());
//!         return 1;
//!     }
//!     kumiki_shadow_fork(shadow, theirs, &sum);
//!     /* our half of the work */
//!     kumiki_shadow_join(shadow);
//!     printf("%ld\n", sum);
//!     kumiki_shadow_destroy(shadow);
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
mod files;
mod identity;
mod parasc;
pub mod parasc_abi;
mod resource;
pub mod resource_abi;
mod shadow;
mod spawn;
pub mod spawn_abi;

pub use failure::kumiki_last_error;
pub use files::*;
pub use parasc::{
    Engine, Requester, kumiki_parasc_collect, kumiki_parasc_completion_fd, kumiki_parasc_create,
    kumiki_parasc_destroy, kumiki_parasc_proc, kumiki_parasc_refusal, kumiki_parasc_request,
    kumiki_parasc_requester_create, kumiki_parasc_requester_destroy, kumiki_parasc_run,
    kumiki_parasc_terminate, kumiki_parasc_try, kumiki_parasc_wait, kumiki_parasc_wake_up,
};
pub use resource::*;
pub use shadow::{
    Function, Shadow, kumiki_shadow_copy, kumiki_shadow_copy_prepare,
    kumiki_shadow_copy_prepare_timeout, kumiki_shadow_copy_timeout, kumiki_shadow_create,
    kumiki_shadow_create_timeout, kumiki_shadow_destroy, kumiki_shadow_destroy_timeout,
    kumiki_shadow_fork, kumiki_shadow_info, kumiki_shadow_is_finished, kumiki_shadow_join,
    kumiki_shadow_join_timeout,
};
pub use spawn::*;
