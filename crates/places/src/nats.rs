//! The connection to a NATS server.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{ConnectOptions, Event};
use tokio::sync::watch;

use crate::error::{Error, Result};

/// Between two tries to connect anew, at most.
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// Wait after each of the first failures, times their number.
const RETRY: Duration = Duration::from_millis(50);

/// Where a NATS server is, and as whom to speak to it.
#[derive(Clone, Debug)]
pub struct Nats {
    /// `nats://HOST:PORT`, `tls://…`; several with commas between.
    pub url: String,
    /// A file of credentials, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
}

/// State of the connection: how often it was made, and whether it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) up: bool,
    pub(crate) made: u64,
}

impl Nats {
    /// A server without credentials.
    pub fn at(url: impl Into<String>) -> Nats {
        Nats { url: url.into(), credentials: None }
    }

    /// Connects; a connection that is lost later is made anew without end.
    pub(crate) async fn connect(
        &self,
        name: &str,
    ) -> Result<(async_nats::Client, watch::Receiver<Link>)> {
        let (tell, link) = watch::channel(Link { up: true, made: 1 });
        let told = move |event| {
            tell.send_modify(|link| match event {
                // The first one is what `connect` has waited for.
                Event::Connected if !link.up => *link = Link { up: true, made: link.made + 1 },
                Event::Disconnected | Event::Closed => link.up = false,
                _ => (),
            });
            std::future::ready(())
        };
        let mut options =
            ConnectOptions::new().name(name).event_callback(told).reconnect_delay_callback(
                |tries| LONGEST_RETRY.min(RETRY * u32::try_from(tries).unwrap_or(u32::MAX)),
            );
        if let Some(path) = &self.credentials {
            options = options.credentials_file(path).await.map_err(|source| Error::Io {
                what: format!("reading the credentials {}", path.display()),
                source,
            })?;
        }
        let urls: Vec<&str> = self.url.split(',').map(str::trim).collect();
        let client = options.connect(urls).await;
        let client = client.map_err(|source| Error::Connect { url: self.url.clone(), source })?;
        Ok((client, link))
    }
}
