//! A second thread of the measuring process, bound to a cpu.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::error::{Error, Result};

/// State that helper and measuring thread share, and the helper's part of the work.
pub trait Part: Send + Sync + 'static {
    /// The helper's side: until told to stop.
    fn help(&self);

    /// Tells it to stop, wherever it waits.
    fn stop(&self);
}

/// The helper thread, as its owner sees it. Stopped and joined on drop.
#[derive(Debug)]
pub struct Helper<P: Part> {
    part: Arc<P>,
    thread: Option<JoinHandle<()>>,
}

impl<P: Part> Helper<P> {
    /// Starts the helper on `cpu`, to which it binds itself: a new thread
    /// inherits its maker's cpus.
    ///
    /// # Errors
    /// No thread can be made, or not be bound to `cpu`.
    pub fn start(cpu: usize, part: P) -> Result<Self> {
        let part = Arc::new(part);
        let (ready, bound) = sync_channel(1);
        let its = Arc::clone(&part);
        let run = move || {
            let outcome = affinity::set(&CpuSet::from_iter([cpu]));
            let go_on = outcome.is_ok();
            // The starter waits for it, so it is there.
            let _ = ready.send(outcome);
            if go_on {
                its.help();
            }
        };
        let thread = std::thread::Builder::new()
            .name("helper".into())
            .spawn(run)
            .map_err(|e| Error::os("start a helper thread", e))?;
        let helper = Helper { part, thread: Some(thread) };
        let gone = || Error::Invalid("the helper thread ended before it began".into());
        bound.recv().map_err(|_| gone())??;
        Ok(helper)
    }

    /// Shared memory.
    pub fn part(&self) -> &P {
        &self.part
    }

    /// The thread, while it has not been joined.
    #[cfg(test)]
    pub fn thread(&self) -> Option<&JoinHandle<()>> {
        self.thread.as_ref()
    }

    /// Stops the helper and waits for its end.
    pub fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.part.stop();
            // It has nothing to say; a panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl<P: Part> Drop for Helper<P> {
    fn drop(&mut self) {
        self.end();
    }
}
