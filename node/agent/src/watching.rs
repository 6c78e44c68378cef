//! The process that watches the host, kept up by the agent.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{RESTART_PAUSE, Role, begin as start, log};
use crate::{Result, watchman};

/// The window's address, for processes to come.
static WINDOW: OnceLock<u64> = OnceLock::new();
/// True if a thread keeps one up.
static KEPT: AtomicBool = AtomicBool::new(false);

/// Goes on, in a new agent, with the orders of before.
pub(super) fn begin(window: u64) {
    WINDOW.get_or_init(|| window);
    keep_up();
}

/// Takes the host's order.
pub(super) fn take(order: &[u8]) -> Result<()> {
    watchman::accept(order)?;
    keep_up();
    Ok(())
}

fn keep_up() {
    let Some(&window) = WINDOW.get() else { return };
    if !watchman::is_ordered() || KEPT.swap(true, Ordering::AcqRel) {
        return;
    }
    thread::spawn(move || {
        // One that ends although it is ordered to watch has died.
        while watchman::is_ordered() {
            match start(window, Role::Watchman, true).and_then(|mut child| {
                child.wait().map_err(|error| crate::Error::os("waiting for the watchman", error))
            }) {
                Ok(status) if status.success() => {}
                Ok(status) => log(&format!("the watchman has died ({status}); another one begins")),
                Err(error) => log(&error.to_string()),
            }
            thread::sleep(RESTART_PAUSE);
        }
        KEPT.store(false, Ordering::Release);
        // An order that came in between has found a thread.
        keep_up();
    });
}
