//! A client's lines to the places of another kernel, in memory that both see.
//!
//! ```text
//!   Line ── request, answer ────────── memory ──────────── lanes of n1.core0
//!    │                                                       │
//!   Lines ── opened, closed, awake ═══ stream ═══ relay ── socket
//! ```
//!
//! Which places there are, and that one or all have ended, comes by a stream to a [`relay`](crate::relay::relay), as
//! for [`attach`](crate::relay::attach::attach); it also wakes who sleeps. Calls go by the memory alone.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use kumiki_sys::shm::Window;

use crate::error::{Error, Result};
use crate::line::Line;
use crate::line::lane_stages::{LaneAnswer, Shared, Stage};
use crate::transport::memory;
use crate::wire::Why;
use crate::wire::lane::{LANE_BYTES, Lane, Word};
use crate::wire::secret;

/// Time for which an answer is waited for by default.
#[doc(hidden)]
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// Lines to the places of another kernel, for threads of this process: one for each 4 KiB of memory.
pub struct Lines {
    shared: Arc<Shared>,
    patience: Duration,
    reader: Option<JoinHandle<()>>,
}

impl Lines {
    /// Lines to those places whose names begin with `host` and a dot, by a stream to a
    /// [`relay`](crate::relay::relay) there, and by memory that begins at byte `base` of the one that the places were
    /// given (`Server::window`). No other client uses this part of it.
    ///
    /// # Errors
    /// [`Error::Host`]; [`Error::Io`]: no thread to be had, or less than one lane of memory.
    pub fn open(host: &str, stream: UnixStream, window: Window, base: u64) -> Result<Lines> {
        crate::wire::host::check_host(host)?;
        let failed = |source| Error::Io { what: format!("opening lines to {host}"), source };
        if window.len() < LANE_BYTES || base % (LANE_BYTES as u64) != 0 {
            let why = format!("{} bytes at {base:#x} are no whole lane", window.len());
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let to = stream.try_clone().map_err(failed)?;
        Lines::begin(Shared::new(host, to, window, base), stream).map_err(failed)
    }

    /// Waits so long for a place and for each answer on its lines, instead of ten seconds.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.patience = timeout;
    }

    /// Lines to a place of another process of this machine, by memory that it gives at its socket. None if nobody
    /// answers there; none within if it has no lines: it is passed on from another kernel, say.
    #[doc(hidden)]
    pub fn to_process(place: &str) -> Result<Option<Option<Lines>>> {
        let Some(offered) = memory::ask(place)? else { return Ok(None) };
        let Some((stream, window)) = offered else { return Ok(Some(None)) };
        let failed = |source| Error::Io { what: format!("opening lines to {place}"), source };
        let to = stream.try_clone().map_err(failed)?;
        let shared = Shared::to_place(place, to, window);
        Lines::begin(shared, stream).map(|lines| Some(Some(lines))).map_err(failed)
    }

    /// Begins to hear what comes by a stream.
    fn begin(shared: Shared, stream: UnixStream) -> io::Result<Lines> {
        let shared = Arc::new(shared);
        let its = Arc::clone(&shared);
        let read = move || its.take(&stream);
        let name = "kumiki-lines".to_owned();
        let reader = kumiki_crew::with_signals_blocked(|| Builder::new().name(name).spawn(read));
        Ok(Lines { shared, patience: PATIENCE, reader: Some(reader?) })
    }

    /// True if there is such a place now.
    #[doc(hidden)]
    pub fn has(&self, place: &str) -> bool {
        self.shared.state().places.contains_key(place)
    }

    /// The places that there are now.
    pub fn places(&self) -> Vec<String> {
        self.shared.state().places.keys().cloned().collect()
    }

    /// The places that there are, when all have been told that there were when these lines were opened.
    pub fn all_places(&self) -> Vec<String> {
        let now = Instant::now();
        let deadline = now.checked_add(self.patience).unwrap_or(now + FOR_EVER);
        self.shared.wait(deadline, |state| (state.is_told || state.has_ended).then_some(()));
        self.places()
    }

    /// Opens a line to a place, which is waited for if it is not there yet. A line has one call at a time;
    /// threads have one each.
    ///
    /// # Errors
    /// [`Error::Gone`]: there is no such place; [`Error::NotSent`]: that is not known yet;
    /// [`Error::Unanswered`]: it has not opened the line in time; [`Error::Refused`]: all lanes are in use, or the place has no
    /// lines.
    pub fn line(&self, place: &str) -> Result<Line> {
        let now = Instant::now();
        let deadline = now.checked_add(self.patience).unwrap_or(now + FOR_EVER);
        let gone = || Error::Gone { place: place.to_owned() };
        let number = self.shared.wait(deadline, |state| match state.places.get(place) {
            Some(number) => Some(Some(*number)),
            None => state.has_ended.then_some(None),
        });
        let number = match number {
            Some(number) => number.ok_or_else(gone)?,
            // Which places there are may still be on its way: nothing is known of this one.
            None if !self.shared.state().is_told => {
                let patience = self.patience;
                let why = format!("which places there are has not been told within {patience:?}");
                return Err(Error::NotSent { place: place.to_owned(), why });
            }
            None => return Err(gone()),
        };
        // Who had the lane before is to guess none of this one's requests.
        let first = secret::number("a line's first request")? as u32;
        let free = self.shared.wait(deadline, |state| {
            let free = state.lanes.iter().position(|lane| matches!(lane, Stage::Free));
            // One that closes will be free.
            let closes = state.lanes.iter().any(|lane| matches!(lane, Stage::Closing { .. }));
            match free {
                Some(index) => {
                    let gone = Arc::new(AtomicBool::new(false));
                    let its = Arc::clone(&gone);
                    let said = LaneAnswer::Nothing;
                    state.lanes[index] = Stage::Used { place: number, said, gone: its, long: None };
                    Some(Some((index, gone)))
                }
                None => (!closes).then_some(None),
            }
        });
        let Some((index, gone_flag)) = free.flatten() else {
            let all = self.shared.state().lanes.len();
            let text =
                format!("all {all} lines are in use: drop one, or open them by another stream");
            return Err(Error::Refused { place: place.to_owned(), why: Why::Full, text });
        };
        let lane = Lane::at(&self.shared.window, (index * LANE_BYTES) as u64);
        let lane = lane.expect("there are as many lanes as the memory has");
        let shared = Arc::clone(&self.shared);
        // From here on it is given back whatever happens.
        let mut line = Line::new(shared, place.into(), lane, index, gone_flag, first);
        line.set_timeout(self.patience);
        let word = Word::Open { at: self.shared.place_of(index), first: line.first };
        self.shared.say(number, &word);
        let said = self.shared.wait(deadline, |state| match &state.lanes[index] {
            Stage::Used { said: LaneAnswer::Nothing, .. } => None,
            Stage::Used { said, .. } => Some(Some(said.clone())),
            _ => Some(None),
        });
        match said {
            Some(Some(LaneAnswer::Opened { life })) => {
                line.life = life;
                Ok(line)
            }
            Some(Some(LaneAnswer::Refused(text))) => {
                Err(Error::Refused { place: place.to_owned(), why: Why::NoPart, text })
            }
            Some(_) => Err(gone()),
            None => Err(Error::Unanswered {
                place: place.to_owned(),
                why: format!("it has not opened a line within {:?}", self.patience),
            }),
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.shared.to().shutdown(Shutdown::Both);
        // A panic of it was written when it came.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("places", &self.places()).finish_non_exhaustive()
    }
}
