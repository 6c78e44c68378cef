//! Leases: at a place the answers that are kept for a client, and its operations that block; at the client serials, which
//! answers it has not seen, and its own connection to a place.

mod answers;
mod blocked;
mod direct_road;
mod held;
mod session;

pub use answers::{
    Before, Lease, LeasePool, LeaseQueue, MOST_BYTES, MOST_BYTES_OF_ONE, MOST_LEASES, MOST_RECORDS,
    MOST_UNUSED, is_use,
};
pub use blocked::{Awaited, Finished, MOST_BLOCKED, Rest, Threads, Waiting, Waits};
pub use direct_road::DirectRoad;
pub use held::Held;
pub use session::{Session, Ticket};
