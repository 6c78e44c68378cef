//! Nodes that are to stay up: each is looked at, and started again when it has ended or does
//! not answer, after a pause that grows.
//!
//! ```text
//!   ends, or is not healthy --stop--> pause: 1 s, 2 s, 4 s, … 60 s --start--> ready
//!        ^                                                                       |
//!        +--------- healthy for 60 s: the next pause is 1 s again <--------------+
//! ```

mod backoff;
mod health;
mod metrics;
mod notes;
mod watch;

use serde::Serialize;

use crate::devices::{Addressing, DeviceSpec};

pub(crate) use health::Health;
pub use notes::ServiceState;
pub(crate) use notes::state_of;
pub use watch::watch;

/// How a node is kept up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Service {
    pub(crate) health: Option<Health>,
}

impl Service {
    /// Whether its health can be seen of a node with these devices.
    pub(crate) fn reaches(&self, devices: &[DeviceSpec]) -> bool {
        let has_address = |device: &DeviceSpec| match device {
            DeviceSpec::Net(net) => {
                matches!(net.address, Addressing::Static(_) | Addressing::User)
            }
            _ => false,
        };
        !self.health.as_ref().is_some_and(Health::needs_address) || devices.iter().any(has_address)
    }

    /// Reads what a file says: whether to start it again, and how its health is seen.
    pub(crate) fn of(restart: bool, health: Option<&str>) -> Result<Option<Self>, String> {
        let health = health.map(Health::parse).transpose()?;
        match (restart, health) {
            (true, health) => Ok(Some(Service { health })),
            (false, None) => Ok(None),
            (false, Some(_)) => {
                Err("health is looked at to start a node again: restart = true is missing".into())
            }
        }
    }
}
