//! What a client knows of its lanes to places of another kernel: by the stream that tells of places that come and
//! go, and by which words about lanes are said and heard.
//!
//! ```text
//!        line                 its line has gone             closed, or its place gone
//! Free ───────▶ Used: said? ───────────────────▶ Closing ───────────────────────────▶ Free
//!                  ╰── its place has gone ──▶ Gone ── its line, too ────────────────▶ Free
//! ```
//!
//! Messages of the stream are untrusted: a name must be one that may be had there, and a word one that may
//! follow, of the place that has the lane; all else is dropped, and bytes that are no frame end the stream.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use kumiki_sys::shm::Window;

use crate::transport::bundle::{self, RELAY};
use crate::transport::passed::{self, HEAD};
use crate::transport::sockets;
use crate::wire;
use crate::wire::lane::{LANE_BYTES, LANES, Word};

/// Places of one stream at a time, at most.
const MOST_PLACES: usize = 1024;

/// The other end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Far {
    /// A relay of many places: its frames have a place's number before all else.
    Relay,
    /// One place, number 0, at its socket.
    Place,
}

/// State that the lines and the stream's reader share.
#[derive(Debug)]
pub struct Shared {
    prefix: String,
    far: Far,
    pub window: Arc<Window>,
    /// Its beginning in the memory of the places.
    base: u64,
    to: Mutex<UnixStream>,
    state: Mutex<State>,
    /// Anything has come by the stream.
    pub changed: Condvar,
}

#[derive(Debug, Default)]
pub struct State {
    /// Places that there are, with their numbers.
    pub places: BTreeMap<String, u32>,
    pub lanes: Vec<Stage>,
    /// True once the first ones have been announced.
    pub is_told: bool,
    pub has_ended: bool,
}

/// A lane, as this side knows it.
#[derive(Clone, Debug)]
pub enum Stage {
    Free,
    Used {
        place: u32,
        said: LaneAnswer,
        gone: Arc<AtomicBool>,
        /// An answer that the line had no room for.
        long: Option<Bytes>,
    },
    /// Its line has gone, and the place has not said that it does not touch it any more.
    Closing {
        place: u32,
    },
    /// Its place has ended, and its line not.
    Gone,
}

/// A place's last word on a lane.
#[derive(Clone, Debug)]
pub enum LaneAnswer {
    Nothing,
    Opened { life: u64 },
    Refused(String),
}

impl State {
    /// The place's last word on a used lane; none of one that has gone.
    pub fn said(&self, lane: usize) -> Option<&LaneAnswer> {
        match &self.lanes[lane] {
            Stage::Used { said, .. } => Some(said),
            _ => None,
        }
    }

    /// Takes the answer that a lane had no room for, if it is there.
    pub fn long(&mut self, lane: usize) -> Option<Bytes> {
        match &mut self.lanes[lane] {
            Stage::Used { long, .. } => long.take(),
            _ => None,
        }
    }

    /// A place has ended, or all have.
    fn gone(&mut self, is_of: impl Fn(u32) -> bool) {
        for lane in &mut self.lanes {
            match lane {
                Stage::Used { place, gone, .. } if is_of(*place) => {
                    // Relaxed: who finds it takes the lock before it acts on it.
                    gone.store(true, Ordering::Relaxed);
                    *lane = Stage::Gone;
                }
                Stage::Closing { place } if is_of(*place) => *lane = Stage::Free,
                _ => {}
            }
        }
    }

    /// Hears a place's word on a lane of its own.
    fn heard(&mut self, place: u32, lane: usize, word: Word) {
        match (self.lanes.get_mut(lane), word) {
            (Some(Stage::Used { place: its, said, long, .. }), word) if *its == place => match word
            {
                Word::Opened { life, .. } if matches!(said, LaneAnswer::Nothing) => {
                    *said = LaneAnswer::Opened { life };
                }
                Word::Refused { why, .. } => *said = LaneAnswer::Refused(why),
                Word::Long { answer, .. } => *long = Some(answer),
                _ => {}
            },
            (Some(lane @ Stage::Closing { .. }), Word::Closed { .. }) => {
                if matches!(lane, Stage::Closing { place: its } if *its == place) {
                    *lane = Stage::Free;
                }
            }
            _ => {}
        }
    }
}

impl Shared {
    /// Begins with a stream's other end and a window, which begins at `base` of what the places have.
    pub fn new(host: &str, to: UnixStream, window: Window, base: u64) -> Shared {
        let lanes = vec![Stage::Free; window.len() / LANE_BYTES];
        Shared {
            prefix: format!("{host}."),
            far: Far::Relay,
            window: Arc::new(window),
            base,
            to: Mutex::new(to),
            state: Mutex::new(State { lanes, ..State::default() }),
            changed: Condvar::new(),
        }
    }

    /// Begins with a place's socket and the memory that it has given.
    pub fn to_place(place: &str, to: UnixStream, window: Window) -> Shared {
        let shared = Shared { far: Far::Place, ..Shared::new("", to, window, 0) };
        {
            let mut state = shared.state();
            state.places.insert(place.to_owned(), 0);
            state.is_told = true;
        }
        shared
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn to(&self) -> MutexGuard<'_, UnixStream> {
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Place of a lane in the memory of the places.
    pub fn place_of(&self, lane: usize) -> u64 {
        self.base + (lane * LANE_BYTES) as u64
    }

    /// Waits until something is so; none at the deadline.
    pub fn wait<T>(
        &self,
        until: Instant,
        mut is: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(found) = is(&mut state) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says a word to the place that uses a lane.
    pub fn say_on(&self, lane: usize, word: &Word) {
        let place = match &self.state().lanes[lane] {
            Stage::Used { place, .. } | Stage::Closing { place } => *place,
            Stage::Free | Stage::Gone => return,
        };
        self.say(place, word);
    }

    /// Says a word to a place. If it does not leave, the stream has ended, and its reader knows.
    pub fn say(&self, place: u32, word: &Word) {
        let Ok(message) = wire::message(word) else { return };
        let place = place.to_le_bytes();
        let place = if self.far == Far::Relay { &place[..] } else { &[] };
        let frame = [place, &passed::frame(LANES, &message)].concat();
        let mut to = self.to();
        if to.write_all(&frame).is_err() {
            // Half a frame is no frame: nothing else is to follow it.
            let _ = to.shutdown(Shutdown::Both);
        }
    }

    /// A line has gone: its lane is free as soon as the place does not touch it any more.
    pub fn close(&self, lane: usize) {
        let mut state = self.state();
        let place = match &state.lanes[lane] {
            Stage::Used { place, .. } => *place,
            _ => {
                state.lanes[lane] = Stage::Free;
                return;
            }
        };
        state.lanes[lane] = Stage::Closing { place };
        drop(state);
        self.say(place, &Word::Close { at: self.place_of(lane) });
    }

    /// Takes frames until the stream ends, or is none. Then all places have.
    pub fn take(&self, stream: &UnixStream) {
        let mut from = BufReader::new(stream);
        while let Ok((place, number, message)) = frame(self.far, &mut from) {
            let mut state = self.state();
            if place == RELAY && self.far == Far::Relay {
                self.relayed(&mut state, &message);
            } else if number == LANES {
                let word = wire::parse::<Word>(&message).ok();
                if let Some((lane, word)) = word.and_then(|word| Some((self.lane_of(&word)?, word)))
                {
                    state.heard(place, lane, word);
                }
            }
            drop(state);
            self.changed.notify_all();
        }
        self.end();
    }

    /// Hears the relay's word on places.
    fn relayed(&self, state: &mut State, message: &[u8]) {
        match wire::parse::<bundle::RelayMessage>(message) {
            Ok(bundle::RelayMessage::There { number, place }) => {
                let may_be = sockets::is_name(&place) && place.starts_with(&self.prefix);
                let is_new = state.places.values().all(|its| *its != number);
                if may_be && is_new && state.places.len() < MOST_PLACES {
                    state.places.entry(place).or_insert(number);
                }
            }
            Ok(bundle::RelayMessage::Gone { number }) => {
                state.places.retain(|_, its| *its != number);
                state.gone(|place| place == number);
            }
            Ok(bundle::RelayMessage::Told) => state.is_told = true,
            // A later version's.
            Err(_) => {}
        }
    }

    /// The lane that a word is about.
    fn lane_of(&self, word: &Word) -> Option<usize> {
        let (Word::Memory { at, .. }
        | Word::Long { at, .. }
        | Word::Open { at, .. }
        | Word::Opened { at, .. }
        | Word::Refused { at, .. }
        | Word::Awake { at, .. }
        | Word::Close { at }
        | Word::Closed { at }) = word;
        usize::try_from(at.checked_sub(self.base)? / LANE_BYTES as u64).ok()
    }

    /// The stream has ended, and all places with it.
    fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.places.clear();
        state.gone(|_| true);
        drop(state);
        self.changed.notify_all();
    }
}

/// Reads a frame: its place, its number, its message.
fn frame(far: Far, from: &mut impl Read) -> io::Result<(u32, u64, Vec<u8>)> {
    let mut place = [0; 4];
    if far == Far::Relay {
        from.read_exact(&mut place)?;
    }
    let mut head = [0; HEAD];
    from.read_exact(&mut head)?;
    let (number, length) = passed::head_of(head)?;
    Ok((u32::from_le_bytes(place), number, passed::message(length, from)?))
}
