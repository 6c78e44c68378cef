//! The near end of a process at a place: its frames, by calls of which each runs once.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use kumiki_stream::frame::Header;
use kumiki_stream::{Kind, Link, Paired};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::client::Client;
use crate::error::{Error, Result};
use crate::place::run::{Give, Process, Take, Taken, Wish};
use crate::reference::Reference;

/// Longest wait of one call at the place.
const WAIT: Duration = Duration::from_secs(3);
/// Frames that wait to be given, at most.
const FRAMES: usize = 16;

fn broken(error: impl Into<std::io::Error>) -> Error {
    Error::Io { what: "carrying a process' streams".to_owned(), source: error.into() }
}

/// Error for what a place has said, and should not have.
fn said(error: kumiki_stream::Error) -> Error {
    broken(std::io::Error::other(error))
}

/// Carries frames between a process at a place and the other end of `far`, until the process has ended or that
/// end was dropped. It ends `far`.
///
/// # Errors
/// As of calls; a place that says what it may not.
pub async fn carry(client: &Client, process: &Reference<Process>, far: Paired) -> Result<()> {
    let far = Ends(Arc::new(far));
    let (tell, given) = channel(FRAMES);
    let from = Arc::clone(&far.0);
    let pass = move || while pass_one(&from, &tell) {};
    Builder::new().name("kumiki-given".to_owned()).spawn(pass).map_err(broken)?;
    tokio::select! {
        carried = take(client, process, &far.0) => carried,
        carried = give(client, process, given) => carried,
    }
}

/// A stream that ends with this value, though a thread may hold it.
struct Ends(Arc<Paired>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Passes on a frame, or waits for one; whether there may be another.
fn pass_one(from: &Paired, tell: &Sender<Vec<u8>>) -> bool {
    match from.receive() {
        Ok(Some((kind, body))) => {
            let frame = Header::frame(kind, &body);
            frame.is_ok_and(|frame| tell.blocking_send(frame).is_ok())
        }
        Ok(None) => from.wait(&[], None).is_ok(),
        Err(_) => false,
    }
}

/// Gives the process one frame that is no data.
///
/// # Errors
/// As of calls.
pub async fn tell(
    client: &Client,
    process: &Reference<Process>,
    kind: Kind,
    what: &impl serde::Serialize,
) -> Result<()> {
    let body = kumiki_stream::frame::encode(what).map_err(said)?;
    let frame = Header::frame(kind, &body).map_err(broken)?;
    refused(client.call::<Give>(process, frame.into()).await?)
}

fn refused(answer: std::result::Result<(), String>) -> Result<()> {
    answer.map_err(|why| broken(std::io::Error::other(why)))
}

async fn take(client: &Client, process: &Reference<Process>, far: &Paired) -> Result<()> {
    let wish = Wish { wait_ms: WAIT.as_millis() as u64, most: Some(client.room()) };
    loop {
        let Taken { frames, over } = client.call::<Take>(process, wish).await?;
        let mut rest = &frames[..];
        while let Some((header, body)) = Header::read(&mut rest).map_err(said)? {
            far.send(header.kind, &body).map_err(said)?;
            if header.kind == Kind::Close {
                return Ok(());
            }
        }
        if over {
            return Ok(());
        }
    }
}

async fn give(
    client: &Client,
    process: &Reference<Process>,
    mut given: Receiver<Vec<u8>>,
) -> Result<()> {
    let mut next = given.recv().await;
    while let Some(mut frames) = next.take() {
        // Those that wait go together, as far as there is room.
        while let Ok(more) = given.try_recv() {
            if frames.len() + more.len() > client.room() {
                next = Some(more);
                break;
            }
            frames.extend(more);
        }
        refused(client.call::<Give>(process, frames.into()).await?)?;
        if next.is_none() {
            next = given.recv().await;
        }
    }
    Ok(())
}
