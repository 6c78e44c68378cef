//! Kinds and program parts that `kumiki place serve` has.

use bytes::Bytes;
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Memory, MemoryPool, Place, Result};
use serde::{Deserialize, Serialize};

use crate::part::{Durable, Part, Portable, Run};
use crate::place::parts::Parts;

/// A number that somebody counts with.
#[derive(Debug)]
pub struct Counter(
    /// Its value.
    pub i64,
);

impl Kind for Counter {
    const NAME: &'static str = "counter";
    type Spec = i64;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(from: i64, (): &mut ()) -> Result<Counter> {
        Ok(Counter(from))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: self.0.to_string(), bytes: size_of::<Counter>() as u64 }
    }
}

impl Portable for Counter {}

impl Durable for Counter {
    type State = i64;

    fn state(&self) -> i64 {
        self.0
    }

    fn restored(value: i64, (): &mut ()) -> Result<Counter> {
        Ok(Counter(value))
    }
}

/// Adds to a counter; gives the sum, which wraps around.
#[derive(Debug)]
pub struct Add;

impl Part for Add {
    type Kind = Counter;
    const NAME: &'static str = "add";
    type In = i64;
    type Out = i64;
}

impl Run for Add {
    fn run(counter: &mut Counter, (): &mut (), more: i64) -> i64 {
        counter.0 = counter.0.wrapping_add(more);
        counter.0
    }
}

/// Gives a counter's value.
#[derive(Debug)]
pub struct Get;

impl Part for Get {
    type Kind = Counter;
    const NAME: &'static str = "get";
    const CHANGES: bool = false;
    type In = ();
    type Out = i64;
}

impl Run for Get {
    fn run(counter: &mut Counter, (): &mut (), (): ()) -> i64 {
        counter.0
    }
}

/// A stretch of a memory's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Number of the frame of 4 KiB.
    pub frame: usize,
    /// Its first byte within the frame.
    pub at: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// Bytes to be written to a memory's frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Number of the frame of 4 KiB.
    pub frame: usize,
    /// Offset within the frame.
    pub at: usize,
    /// The bytes.
    pub bytes: Bytes,
}

/// A sentence for who asked for bytes beyond a frame.
fn beyond(memory: &Memory, frame: usize, at: usize, bytes: usize) -> String {
    format!(
        "{bytes} bytes from byte {at} of frame {frame} on are not within it: this memory has {} \
         frames of 4096 bytes",
        memory.len()
    )
}

/// Reads of a memory, within one frame.
#[derive(Debug)]
pub struct Read;

impl Part for Read {
    type Kind = Memory;
    const NAME: &'static str = "read";
    const CHANGES: bool = false;
    type In = Stretch;
    type Out = Result<Bytes, String>;
}

impl Run for Read {
    fn run(memory: &mut Memory, _: &mut MemoryPool, input: Stretch) -> Self::Out {
        let Stretch { frame, at, bytes } = input;
        let wrong = beyond(memory, frame, at, bytes);
        let end = at.checked_add(bytes);
        let found = memory.frame(frame).and_then(|frame| frame.get(at..end?));
        found.map(Bytes::copy_from_slice).ok_or(wrong)
    }
}

/// Writes to a memory, within one frame.
#[derive(Debug)]
pub struct Write;

impl Part for Write {
    type Kind = Memory;
    const NAME: &'static str = "write";
    type In = Written;
    type Out = Result<(), String>;
}

impl Run for Write {
    fn run(memory: &mut Memory, _: &mut MemoryPool, input: Written) -> Self::Out {
        let Written { frame, at, bytes } = input;
        let wrong = beyond(memory, frame, at, bytes.len());
        let end = at.checked_add(bytes.len());
        let found = memory.frame(frame).and_then(|frame| frame.get_mut(at..end?));
        found.map(|room| room.copy_from_slice(&bytes)).ok_or(wrong)
    }
}

/// All of these, and with the feature `run` processes.
pub fn parts() -> Parts {
    let parts = Parts::new()
        .durable::<Counter>()
        .part::<Add>()
        .part::<Get>()
        .kind::<Memory>()
        .part::<Read>()
        .part::<Write>();
    #[cfg(feature = "run")]
    let parts = crate::place::run::add_to(parts);
    parts
}
