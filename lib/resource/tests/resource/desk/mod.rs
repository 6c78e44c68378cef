//! A desk and its callers, as a program uses them.

mod calls;
mod deaths;
mod ends;
#[path = "../../filter/mod.rs"]
mod filter;
mod foreign;
mod futures;
mod limits;
mod model;

use std::thread::{self, JoinHandle};

use kumiki_resource::desk::{Caller, Door};
use kumiki_wait::{Policy, Waiter};

fn waiter() -> Waiter {
    Waiter::new(&Policy::default()).unwrap()
}

/// A desk with a server that serves until it is closed.
fn desk() -> (Door, JoinHandle<()>) {
    let (door, server) = kumiki_resource::desk::open();
    (door, thread::spawn(move || server.serve(&mut waiter())))
}

fn caller(door: &Door) -> Caller {
    door.caller(waiter())
}
