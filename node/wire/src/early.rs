//! Log that a kernel has kept and not yet handed over: until its module is loaded the
//! lines stand in its own memory only, where its printk puts them one after the other,
//! each with a number before it and filled up to eight bytes. Of a line whose level was
//! taken off its beginning the last two letters stand twice.

use std::ops::Range;
use std::time::SystemTime;

use memchr::memmem;

use crate::memory::Memory;

/// A line that every kernel's log begins with.
const MARK: &[u8] = b"Command line: ";
/// The faults that end a start.
const FAULTS: [&str; 4] = ["Oops: ", "BUG: ", PANIC, "kernel BUG at"];
/// Words of a kernel that executes nothing more, as `panic=0` is on its command line.
pub const PANIC: &str = "Kernel panic - not syncing: ";
/// Words of a kernel that found no rate for its only timer. It comes as far as its first
/// wait for a time, and stays there.
const NO_TIMER: &str = "APIC frequency too slow, disabling apic timer";
/// Range of the first piece in which a kernel lies, and its first log with it. What is behind may
/// be of earlier starts: their window, initramfs, files.
const KERNEL: Range<usize> = 16 << 20..96 << 20;
/// Bytes of it that are looked through at a time.
const PART_BYTES: usize = 1 << 20;
/// Bytes of an early kernel's log.
const LOG_BYTES: usize = 128 << 10;
/// A line with a kernel's whole command line in it.
const LONGEST_LINE: usize = 2560;
/// Shorter runs of letters are numbers that look so.
const SHORTEST: usize = 4;
/// Number of zeros behind the last line.
const REST: usize = 64;

/// The log of one start, which its kernel's command line names; others may lie about.
#[derive(Debug)]
pub struct Early {
    word: String,
    /// Its beginning in the first piece of memory, once that is known.
    at: Option<usize>,
}

impl Early {
    pub fn of(start: StartId) -> Self {
        Early { word: start.word(), at: None }
    }

    /// Its lines; none if the kernel has not come so far.
    pub fn log(&mut self, memory: &Memory) -> Vec<String> {
        self.at = self.at.or_else(|| place(memory, &self.word));
        let Some(at) = self.at else { return Vec::new() };
        let mut text = vec![0; LOG_BYTES.min(memory.bytes() - at)];
        memory.read(at, &mut text);
        lines(&text)
    }

    /// Log of a kernel that has panicked.
    pub fn panic(&mut self, memory: &Memory) -> Option<Vec<String>> {
        let lines = self.log(memory);
        lines.iter().any(|line| line.contains(PANIC)).then_some(lines)
    }
}

/// Tells a start of a node from those before it.
#[derive(Clone, Copy, Debug)]
pub struct StartId(u128);

impl StartId {
    /// Mark of a start that begins now.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        StartId(since.unwrap_or_default().as_nanos())
    }

    /// Word for the kernel's command line: one with a dot in it the kernel takes for a module's
    /// parameter, and does not hand on.
    pub fn word(self) -> String {
        format!("kumiki.start={:x}", self.0)
    }
}

/// Beginning of the log of a kernel that was given this word.
fn place(memory: &Memory, word: &str) -> Option<usize> {
    let end = KERNEL.end.min(memory.bytes());
    // A line that begins in a part is whole in what is read with it.
    let mut bytes = vec![0; PART_BYTES + LONGEST_LINE];
    (KERNEL.start..end).step_by(PART_BYTES).find_map(|from| {
        let length = bytes.len().min(end - from);
        let part = &mut bytes[..length];
        memory.read(from, part);
        let part = &*part;
        // The program has the mark, too, and a copy of the command line without it.
        let is_its = |&at: &usize| {
            let rest = &part[at..part.len().min(at + LONGEST_LINE)];
            let line = rest.split(|byte| !is_printable(byte)).next().unwrap_or_default();
            memmem::find(line, word.as_bytes()).is_some()
        };
        memmem::find_iter(part, MARK).find(is_its).map(|at| from + at)
    })
}

fn is_printable(byte: &u8) -> bool {
    byte.is_ascii_graphic() || *byte == b' '
}

pub fn lines(text: &[u8]) -> Vec<String> {
    let end = memmem::find(text, &[0; REST]).unwrap_or(text.len());
    let runs = text[..end].split(|byte| !is_printable(byte)).filter(|run| run.len() >= SHORTEST);
    runs.map(|run| String::from_utf8_lossy(run).into_owned()).collect()
}

/// Lines that tell most, so many: from the first fault on, or the last ones.
pub fn telling(lines: &[String], count: usize) -> &[String] {
    let is_fault = |line: &String| FAULTS.iter().any(|fault| line.contains(fault));
    let last = lines.len().saturating_sub(count);
    let begin = lines.iter().position(is_fault).unwrap_or(last);
    &lines[begin..lines.len().min(begin + count)]
}

/// True if the kernel that wrote these goes without a timer.
pub fn has_no_timer(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains(NO_TIMER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn early() -> Early {
        Early { word: "kumiki.start=1f".into(), at: None }
    }

    #[test]
    fn the_early_log_of_this_start_is_found_in_memory() {
        let memory = Memory::zeroed(24 << 20);
        assert!(early().log(&memory).is_empty());
        assert!(early().log(&Memory::zeroed(8 << 20)).is_empty());
        // The program's own, one of an earlier start, and a copy of the command line.
        memory.write((16 << 20) + 1, b"\x016Command line: %s\n\0");
        memory.write(17 << 20, b"\x01\0Command line: quiet kumiki.start=1e\0\0");
        memory.write(18 << 20, b"quiet kumiki.start=1f\0\0");
        assert!(early().log(&memory).is_empty());
        let at = (20 << 20) - 14;
        memory.write(at, b"\x01\0\0\0\0\0\0\0Command line: a kumiki.start=1f\0\0\0\0\0");
        memory.write(at + 48, b"\x02\x01\0\0\0\0\0\0BUG: it is\0\0\0\0\0\0\x03\0\0\0\0\0\0\0end\0");
        assert_eq!(early().log(&memory), ["Command line: a kumiki.start=1f", "BUG: it is"]);
    }

    #[test]
    fn a_panic_is_seen_as_it_is_written() {
        let memory = Memory::zeroed(24 << 20);
        let mut early = early();
        assert!(early.panic(&memory).is_none());
        memory.write(20 << 20, b"Command line: kumiki.start=1f\0\0");
        assert!(early.panic(&memory).is_none());
        memory.write((20 << 20) + 31, b"Kernel panic - not syncing: no memory\0");
        assert_eq!(early.panic(&memory).unwrap().len(), 2);
    }

    #[test]
    fn a_fault_is_shown_before_what_followed() {
        let lines = ["one", "Oops: int3: 0000", "RIP", "end"].map(str::to_owned);
        assert_eq!(telling(&lines, 2), &lines[1..3]);
        assert_eq!(telling(&lines[..1], 2), &lines[..1]);
        assert_eq!(telling(&lines[2..], 1), &lines[3..]);
    }

    #[test]
    fn a_kernel_without_a_timer_is_told() {
        let lines = ["one", "APIC frequency too slow, disabling apic timerer"].map(str::to_owned);
        assert!(has_no_timer(&lines) && !has_no_timer(&lines[..1]));
    }
}
