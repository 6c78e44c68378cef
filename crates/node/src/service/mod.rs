//! Keeping a node up: whether it is started again, how its health is seen, how it stands.

mod health;
mod notes;

use serde::Serialize;

use crate::devices::{Addressing, DeviceSpec};

pub(crate) use health::Health;
pub use notes::ServiceState;
pub(crate) use notes::{forget, keep, state_of};

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
