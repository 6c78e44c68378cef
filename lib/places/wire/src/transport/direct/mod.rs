//! A client's own connection to a place of another machine: TLS 1.3 over TCP, beside the NATS server.
//!
//! ```text
//!  client ── Direct, by NATS ──▶ place        who may publish to its subject may ask
//!         ◀── address, key, token ──
//!         ══ TLS: the key is this one ═══▶    nobody else can be in between
//!         ── frame 0: the token ─────────▶    taken once; else the connection ends
//!         ◀── frame 0 ────────────────────
//!         ── frames: number, message ────▶    as at a socket of one machine
//! ```
//! A place's key is drawn when it begins to listen, and is never written. The client knows it by NATS, so that neither side
//! has a certificate or an authority: the key stands where a certificate does (RFC 7250). The connection holds for a
//! while after the last token, which the client asks for by NATS: who may not publish there any more loses it.

mod admit;
mod dial;
mod key;
mod listen;
mod tokens;

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

pub use admit::{AdmittedReader, AdmittedWriter, admit};
pub use dial::dial;
pub use key::PlaceKey;
pub use listen::{Ask, AtOnce, Back, Direct, Letter, ListenAt, OpenPort};
pub use tokens::{TOKEN, Tokens};

/// Number of frames with a token, and of the empty one that answers the first of them.
pub const ADMISSION: u64 = 0;
/// Time for which somebody may greet, and have sent a token.
pub const GREETING: Duration = Duration::from_secs(5);

/// Time for which the other side may leave what was sent unheard, ms: then the connection ends.
const UNHEARD_MS: u32 = 5000;
/// Pause before the system asks whether a silent side is there, and between two such questions.
const SILENT: Duration = Duration::from_secs(10);

/// Has messages leave at once, and the connection end when the other side has vanished.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENT)?;
    sockopt::set_tcp_keepintvl(stream, SILENT)?;
    Ok(sockopt::set_tcp_user_timeout(stream, UNHEARD_MS)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::transport::sockets;
    use crate::wire::DirectOffer;

    /// Answers one connection by this key, and gives what has come before it ended.
    async fn one(listener: TcpListener, key: PlaceKey) -> Option<Vec<u8>> {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = key.acceptor().accept(stream).await.ok()?;
        let mut heard = vec![0; 12 + TOKEN];
        stream.read_exact(&mut heard).await.ok()?;
        stream.write_all(&crate::transport::passed::frame(ADMISSION, &[])).await.ok()?;
        let (number, message) = sockets::read(&mut stream).await.ok()??;
        sockets::write(&mut stream, number, &message).await.ok()?;
        Some(heard)
    }

    async fn listening() -> (TcpListener, DirectOffer, PlaceKey) {
        let (listener, key) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), PlaceKey::draw().unwrap());
        let offer = DirectOffer {
            address: listener.local_addr().unwrap().to_string(),
            key: key.public().clone(),
            token: Bytes::from(vec![7; TOKEN]),
            holds_ms: 60_000,
            most: 1000,
        };
        (listener, offer, key)
    }

    #[tokio::test]
    async fn who_has_the_key_is_spoken_to_and_nobody_else() {
        let (listener, offer, key) = listening().await;
        let far = tokio::spawn(one(listener, key));
        let near = Arc::new(dial(&offer).await.unwrap());
        let answer = near.ask(b"a message").await;
        assert!(
            matches!(&answer, crate::transport::near::Sent::Answered(bytes) if bytes == "a message")
        );
        let heard = far.await.unwrap().unwrap();
        assert_eq!(heard, crate::transport::passed::frame(ADMISSION, &[7; TOKEN]));
        near.ended().await;

        // Another key is at the address: nothing was said to it, the token neither.
        let (listener, offer, _) = listening().await;
        let far = tokio::spawn(one(listener, PlaceKey::draw().unwrap()));
        let refused = dial(&offer).await.unwrap_err();
        assert!(refused.contains("another key"), "{refused}");
        assert_eq!(far.await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_offer_that_says_nothing_of_use_is_refused_in_words() {
        let (_listener, offer, _) = listening().await;
        for (address, why) in [("localhost:1", "no address"), ("127.0.0.1:1", "127.0.0.1:1")] {
            let offer = DirectOffer { address: address.to_owned(), ..offer.clone() };
            let said = dial(&offer).await.unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
