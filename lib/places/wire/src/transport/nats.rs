//! The connection to a NATS server: where it is, as whom, and what the server denies.

use std::time::Duration;

use async_nats::{Event, ServerError};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::transport::denied::{Denied, Doing};
pub use crate::transport::identity::Nats;

/// Longest pause between two tries to connect anew.
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// Wait after each of the first failures, times their number.
const RETRY: Duration = Duration::from_millis(50);

/// State of the connection: how often it was made, whether it is there, and what was denied on it.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct Link {
    pub up: bool,
    pub made: u64,
    pub denied: Denied,
    /// The user that is denied it, and where, as a sentence begins.
    pub whom: String,
}

impl Link {
    /// Reason for which this is denied, if it was after so many other denials.
    #[doc(hidden)]
    pub fn denied(&self, since: u64, doing: Doing, subject: &str) -> Option<String> {
        let verb = match doing {
            Doing::Publish => "publish to",
            Doing::Subscribe => "subscribe to",
        };
        let is_denied = self.denied.has(since, doing, subject);
        is_denied.then(|| format!("{} to {verb} {subject}", self.whom))
    }

    /// Reason for which no answer can come, if the inbox for them is denied.
    #[doc(hidden)]
    pub fn deaf(&self) -> Option<String> {
        let inbox = self.denied.inbox()?;
        Some(format!("{} to subscribe to {inbox}, where answers come", self.whom))
    }
}

/// Waits until one of these is denied, and says it; it waits for ever where none is.
#[doc(hidden)]
pub async fn refused(
    link: &mut watch::Receiver<Link>,
    since: u64,
    subjects: &[(Doing, &str)],
) -> String {
    loop {
        let why = {
            let link = link.borrow_and_update();
            let mut all = subjects.iter();
            all.find_map(|(doing, subject)| link.denied(since, *doing, subject))
                .or_else(|| link.deaf())
        };
        if let Some(why) = why {
            return why;
        }
        if link.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Nats {
    /// Connects; a connection that is lost later is made anew without end.
    #[doc(hidden)]
    pub async fn connect(&self, name: &str) -> Result<(async_nats::Client, watch::Receiver<Link>)> {
        let (addresses, options, whom) = self.options()?;
        let whom = format!("the NATS server at {} denies {whom}", self.shown());
        let (tell, link) = watch::channel(Link { up: true, made: 1, whom, ..Link::default() });
        let told = move |event| {
            tell.send_modify(|link| match event {
                // The first one is what `connect` has waited for.
                Event::Connected if !link.up => {
                    (link.up, link.made) = (true, link.made + 1);
                    link.denied.forget_inbox();
                }
                Event::Disconnected | Event::Closed => link.up = false,
                Event::ServerError(ServerError::Other(text)) => link.denied.hear(&text),
                _ => (),
            });
            std::future::ready(())
        };
        let options = options.name(name).event_callback(told).reconnect_delay_callback(|tries| {
            LONGEST_RETRY.min(RETRY * u32::try_from(tries).unwrap_or(u32::MAX))
        });
        let client = options.connect(addresses).await;
        let client = client.map_err(|source| Error::Connect { url: self.shown(), source })?;
        Ok((client, link))
    }
}
