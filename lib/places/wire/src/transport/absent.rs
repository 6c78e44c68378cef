//! Places that are not there, where a server does not say so: somebody hears all subjects, and answers nothing.
//!
//! As long as nobody listens at a name, NATS says at once that there is no responder. With a tap on `>` it never does.
//! A place beats every two seconds; one of which three beats are missing, and that does not answer, is not there. That
//! decides over what has no effect alone, and not where the beats cannot be heard.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::transport::denied::Doing;
use crate::transport::nats::{Link, refused};
use crate::wire::beat::{BEAT, BEATS};

/// Time in which a place that is there is heard of three times.
const HEARD: Duration = BEAT.saturating_mul(3).saturating_add(Duration::from_millis(500));

/// Waits until it is plain that a place is not there; for ever if it is, or if nobody can tell. It begins to listen after
/// `patience`.
pub async fn absent(
    nats: &async_nats::Client,
    link: &watch::Receiver<Link>,
    place: &str,
    patience: Duration,
) {
    sleep(patience).await;
    let mut link = link.clone();
    loop {
        let Ok(up) =
            link.wait_for(|link| link.up).await.map(|link| (link.made, link.denied.count()))
        else {
            break;
        };
        let (made, since) = up;
        let subject = format!("{BEATS}{place}");
        let Ok(mut beats) = nats.subscribe(subject.clone()).await else { break };
        let mut denials = link.clone();
        let denied = [(Doing::Subscribe, &*subject)];
        tokio::select! {
            _ = beats.next() => break,
            _ = refused(&mut denials, since, &denied) => break,
            // On another connection it is listened for anew.
            changed = link.wait_for(|link| !link.up || link.made != made) => if changed.is_err() { break },
            () = sleep(HEARD) => return,
        }
    }
    std::future::pending().await
}
