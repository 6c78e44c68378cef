//! A ring of bytes in the shared window: one writer, one reader, in two kernels.
//!
//! `head` is what was written, `tail` what was read; both count for ever. The
//! writer fills bytes, then stores `head` with Release, which the reader loads
//! with Acquire; the reader takes bytes, then stores `tail` with Release, which
//! the writer loads with Acquire before it fills the same bytes again. What the
//! other side wrote is a claim: a distance beyond the ring's size is an error.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::Memory;
use crate::module::abi::{RING_BYTES, RING_TAIL};
use crate::{Error, Result};

/// A ring's place in a window.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    window: &'a Memory,
    /// Offset of its head's word.
    head_at: usize,
    /// Offset of its bytes.
    bytes_at: usize,
}

impl<'a> Ring<'a> {
    pub fn new(window: &'a Memory, head_at: usize, bytes_at: usize) -> Self {
        Ring { window, head_at, bytes_at }
    }

    fn head(&self) -> &'a AtomicU32 {
        self.window.u32(self.head_at)
    }

    fn tail(&self) -> &'a AtomicU32 {
        self.window.u32(self.head_at + RING_TAIL)
    }

    /// Bytes between tail and head, one of which the other side wrote.
    fn used(head: u32, tail: u32) -> Result<usize> {
        let used = head.wrapping_sub(tail) as usize;
        if used > RING_BYTES {
            return Err(Error::Protocol(format!(
                "a ring of {RING_BYTES} bytes in which {used} are used"
            )));
        }
        Ok(used)
    }

    /// Bytes that [`write`](Self::write) would take now.
    pub fn free(&self) -> Result<usize> {
        // The head is ours; the reader's Release on the tail gives us its bytes.
        let (head, tail) =
            (self.head().load(Ordering::Relaxed), self.tail().load(Ordering::Acquire));
        Ok(RING_BYTES - Self::used(head, tail)?)
    }

    /// Bytes that can be read now.
    pub fn available(&self) -> Result<usize> {
        // The tail is ours; the writer's Release on the head gives us its bytes.
        let (head, tail) =
            (self.head().load(Ordering::Acquire), self.tail().load(Ordering::Relaxed));
        Self::used(head, tail)
    }

    /// Writes the parts one after the other, all or nothing; whether there was room.
    pub fn write(&self, parts: &[&[u8]]) -> Result<bool> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.free()? {
            return Ok(false);
        }
        let mut head = self.head().load(Ordering::Relaxed);
        for part in parts {
            let at = head as usize % RING_BYTES;
            let (end, start) = part.split_at(part.len().min(RING_BYTES - at));
            self.window.write(self.bytes_at + at, end);
            self.window.write(self.bytes_at, start);
            head = head.wrapping_add(part.len() as u32);
        }
        // Release: the bytes are there before the head says so.
        self.head().store(head, Ordering::Release);
        Ok(true)
    }

    /// Copies bytes from `offset` beyond the tail; they must be available.
    pub fn peek(&self, offset: usize, into: &mut [u8]) {
        let at = (self.tail().load(Ordering::Relaxed) as usize + offset) % RING_BYTES;
        let middle = into.len().min(RING_BYTES - at);
        let (end, start) = into.split_at_mut(middle);
        self.window.read(self.bytes_at + at, end);
        self.window.read(self.bytes_at, start);
    }

    /// Gives `length` bytes back to the writer.
    pub fn consume(&self, length: usize) {
        let tail = self.tail().load(Ordering::Relaxed);
        // Release: our reads are over before the writer may fill the bytes again.
        self.tail().store(tail.wrapping_add(length as u32), Ordering::Release);
    }

    /// Empties it, while nobody uses it.
    pub fn reset(&self) {
        self.head().store(0, Ordering::Relaxed);
        self.tail().store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const HEAD_AT: usize = 0x40;
    const BYTES_AT: usize = 0x1000;

    fn window() -> Memory {
        Memory::zeroed((BYTES_AT + RING_BYTES) as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_a_queue_of_bytes(
            steps in prop::collection::vec((0..RING_BYTES, 0..RING_BYTES), 1..20), start: u32,
        ) {
            let window = window();
            let ring = Ring::new(&window, HEAD_AT, BYTES_AT);
            ring.head().store(start, Ordering::Relaxed);
            ring.tail().store(start, Ordering::Relaxed);
            let mut model = VecDeque::new();
            let mut next = 0u8;
            for (write, read) in steps {
                let bytes: Vec<u8> = (0..write).map(|_| { next = next.wrapping_mul(5).wrapping_add(1); next }).collect();
                let (a, b) = bytes.split_at(write / 3);
                let fits = write <= RING_BYTES - model.len();
                prop_assert_eq!(ring.write(&[a, b]).unwrap(), fits);
                if fits {
                    model.extend(bytes);
                }
                prop_assert_eq!(ring.available().unwrap(), model.len());
                let mut out = vec![0; read.min(model.len())];
                ring.peek(0, &mut out);
                ring.consume(out.len());
                prop_assert!(out.into_iter().eq(model.drain(..read.min(model.len()))));
            }
        }
    }

    #[test]
    fn what_crosses_between_threads_arrives_whole() {
        let window = window();
        let ring = Ring::new(&window, HEAD_AT, BYTES_AT);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..20_000u32 {
                    let bytes = n.to_le_bytes().repeat(16);
                    while !ring.write(&[&bytes]).unwrap() {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..20_000u32 {
                while ring.available().unwrap() < 64 {
                    std::thread::yield_now();
                }
                let mut bytes = [0; 64];
                ring.peek(0, &mut bytes);
                ring.consume(64);
                assert_eq!(bytes.to_vec(), n.to_le_bytes().repeat(16));
            }
        });
    }

    #[test]
    fn an_impossible_distance_is_an_error_on_either_side() {
        let window = window();
        let ring = Ring::new(&window, HEAD_AT, BYTES_AT);
        ring.head().store(RING_BYTES as u32 + 1, Ordering::Relaxed);
        assert!(ring.available().is_err());
        assert!(ring.free().unwrap_err().to_string().contains("65537"));
        assert!(ring.write(&[b"x"]).is_err());
    }
}
