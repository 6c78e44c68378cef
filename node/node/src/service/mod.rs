//! Keeping a node up: whether it is started again, how its health is seen, how it stands.

mod health;
mod held;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use kumiki_node_devices::spec::{Addressing, DeviceSpec};
use kumiki_rootfs::HealthTimes;
use serde::Serialize;

use crate::{Error, ErrorKind, Result, Subject};

pub use health::NOT_ASKED;
pub(crate) use health::{Doubt, Health};
pub(crate) use held::{Held, is_held};

/// Rules by which a node is kept up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Service {
    pub(crate) health: Option<Health>,
}

/// Interval between two questions whether a new service answers.
const ASK: Duration = Duration::from_millis(200);

impl Service {
    /// Waits until a node that was just started does what it is for.
    pub(crate) fn begins(
        &self,
        node: &str,
        of_image: impl FnOnce() -> HealthTimes,
        at: Option<IpAddr>,
        limit: Duration,
    ) -> Result<()> {
        let Some(health) = &self.health else { return Ok(()) };
        let timeout = health.times(of_image).timeout;
        let begin = Instant::now();
        loop {
            match health.ask(node, at, timeout) {
                Ok(()) => return Ok(()),
                Err(why) if begin.elapsed() >= limit => {
                    let text = format!(
                        "node {node} is ready and not healthy ({health}) within {limit:?}: {why}"
                    );
                    return Err(Error::refused(ErrorKind::TimedOut, Subject::node(node), text));
                }
                Err(_) => std::thread::sleep(ASK),
            }
        }
    }

    /// True if its health can be seen of a node with these devices.
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
