//! A place's side: who connects is greeted, and let in by a token.

use std::time::Instant;

use tokio::io::{AsyncReadExt, BufReader, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::transport::direct::{ADMISSION, PlaceKey, TOKEN, Tokens, prepare};
use crate::transport::passed::{HEAD, head_within};
use crate::transport::sockets;

/// Frames of a client that was let in.
pub type AdmittedReader = BufReader<ReadHalf<TlsStream<TcpStream>>>;
/// The way back to it.
pub type AdmittedWriter = WriteHalf<TlsStream<TcpStream>>;

/// Has a client show its token, and gives when that was given; none of who has none.
pub async fn admit(
    stream: TcpStream,
    key: &PlaceKey,
    tokens: &Tokens,
) -> Option<(AdmittedReader, AdmittedWriter, Instant)> {
    prepare(&stream).ok()?;
    let stream = key.acceptor().accept(stream).await.ok()?;
    let (from, mut to) = tokio::io::split(stream);
    let mut from = BufReader::new(from);
    // No more is read of who is not known.
    let mut head = [0; HEAD];
    from.read_exact(&mut head).await.ok()?;
    let (ADMISSION, TOKEN) = head_within(head, TOKEN).ok()? else { return None };
    let mut token = [0; TOKEN];
    from.read_exact(&mut token).await.ok()?;
    let given = tokens.take(&token, Instant::now())?;
    sockets::write(&mut to, ADMISSION, &[]).await.ok()?;
    Some((from, to, given))
}
