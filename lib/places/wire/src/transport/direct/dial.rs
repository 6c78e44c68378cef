//! A client's side: it connects to the address that a place has told.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::transport::direct::key::pinned;
use crate::transport::direct::{ADMISSION, GREETING, prepare};
use crate::transport::near::Near;
use crate::transport::sockets;
use crate::wire::DirectOffer;

/// Bytes of a message, at most, whatever a place says.
const MOST: usize = 64 << 20;

/// Connects to a place, and is let in by its token; a sentence that says why not.
pub async fn dial(offer: &DirectOffer) -> Result<Near, String> {
    let Ok(address) = offer.address.parse::<SocketAddr>() else {
        return Err(format!("it says to listen at {:?}, which is no address", offer.address));
    };
    match timeout(GREETING, greet(address, offer)).await {
        Ok(greeted) => greeted.map_err(|why| format!("connecting to {address}: {why}")),
        Err(_) => Err(format!("connecting to {address}: no answer in {} s", GREETING.as_secs())),
    }
}

async fn greet(address: SocketAddr, offer: &DirectOffer) -> Result<Near, String> {
    let said = |error: io::Error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            "who listens there has another key than the place has told by NATS".to_owned()
        }
        _ => error.to_string(),
    };
    let config = pinned(&offer.key).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(address).await.map_err(said)?;
    prepare(&stream).map_err(said)?;
    let name = ServerName::IpAddress(address.ip().into());
    let stream = TlsConnector::from(config).connect(name, stream).await.map_err(said)?;
    let (from, mut to) = tokio::io::split(stream);
    sockets::write(&mut to, ADMISSION, &offer.token).await.map_err(said)?;
    let mut from = BufReader::new(from);
    match sockets::read(&mut from).await.map_err(said)? {
        Some((ADMISSION, message)) if message.is_empty() => {}
        _ => return Err("it does not let this client in".to_owned()),
    }
    let most = usize::try_from(offer.most).unwrap_or(MOST).min(MOST);
    Ok(Near::over(from, to, most))
}
