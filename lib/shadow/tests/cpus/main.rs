//! Which cpus shadows and teams take: a program of its own, in which one test runs at a
//! time, as what is taken is known to the whole process.

#[path = "../child/mod.rs"]
mod child;
#[path = "../shadow/common.rs"]
mod common;
mod helpers_end;
mod shadows;
mod teams;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the test that runs.
fn turn() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
