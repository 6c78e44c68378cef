//! Two-phase wait: spin for a bounded time, then sleep by the best way this machine has.
