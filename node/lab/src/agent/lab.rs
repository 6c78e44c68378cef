//! The way from the agent to its lab.

use std::fs::File;
use std::sync::{Arc, Mutex};

use crate::frame::{Frame, Message};

/// The way to the lab.
#[derive(Clone)]
pub(super) struct Lab(Arc<Mutex<File>>);

impl Lab {
    /// Over the port of the machine.
    pub(super) fn at(port: File) -> Self {
        Lab(Arc::new(Mutex::new(port)))
    }

    /// Sends a message; a lab that is gone is seen by who reads.
    pub(super) fn send(&self, stream: u32, message: Message) {
        let port = self.0.lock().expect("no holder panics");
        let _ = Frame { stream, message }.write(&*port);
    }
}
