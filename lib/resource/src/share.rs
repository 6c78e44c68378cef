//! A place's share of the machine's memory, by kinds.

use crate::error::{Error, Result};

/// Memory that a place's resources of one kind have, and may have.
#[derive(Debug)]
pub(crate) struct Share {
    used: u64,
    limit: u64,
}

impl Share {
    /// Share without a limit.
    pub(crate) const ALL: Share = Share { used: 0, limit: u64::MAX };

    pub(crate) fn limit(&mut self, bytes: u64) {
        self.limit = bytes;
    }

    /// Takes so many bytes for one of `kind`.
    #[inline]
    pub(crate) fn take(&mut self, kind: &'static str, bytes: u64) -> Result<()> {
        let used = self.used + bytes;
        if used > self.limit {
            return Err(self.full(kind, bytes));
        }
        self.used = used;
        Ok(())
    }

    #[inline]
    pub(crate) fn give(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    #[cold]
    fn full(&self, kind: &'static str, bytes: u64) -> Error {
        Error::Share { kind, bytes, used: self.used, limit: self.limit }
    }
}
