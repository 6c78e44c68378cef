//! Kumiki's places for C and C++: `libkumiki-places.so`, whose reference is its header,
//! `include/kumiki/places.h`, and which Python's `kumiki.place` loads.
//!
//! It is a library of its own so that whoever links `libkumiki` has no NATS, TLS and tokio in the program.
#![allow(missing_debug_implementations, reason = "to C its types are opaque")]

mod bound;
mod calls;
mod client;
mod failure;
mod text;
mod watches;

pub use bound::{
    Bound, kumiki_places_bind, kumiki_places_bound_call, kumiki_places_bound_end,
    kumiki_places_start_bound,
};
pub use calls::{
    Call, kumiki_places_call_end, kumiki_places_call_fd, kumiki_places_call_wait,
    kumiki_places_start_call, kumiki_places_start_create, kumiki_places_start_destroy,
    kumiki_places_start_ls, kumiki_places_start_places,
};
pub use client::{Places, kumiki_places_close, kumiki_places_open};
pub use failure::kumiki_places_last_error;
pub use text::kumiki_places_free;
pub use watches::{
    Watching, kumiki_places_watch, kumiki_places_watch_end, kumiki_places_watch_fd,
    kumiki_places_watch_next,
};
