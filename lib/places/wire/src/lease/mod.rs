//! A client's side of its leases: serials, which answers it has not seen, and its own connection to a place.

mod direct_road;
mod held;
mod session;

pub use direct_road::DirectRoad;
pub use held::Held;
pub use session::{Session, Ticket};
