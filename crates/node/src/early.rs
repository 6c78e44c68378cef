//! What a kernel has logged and not yet handed over: until its module is loaded the
//! lines stand in its own memory only, where its printk puts them one after the other,
//! each with a number before it and filled up to eight bytes. Of a line whose level was
//! taken off its beginning the last two letters stand twice.

use std::ops::Range;

use memchr::memmem;

use crate::memory::Memory;

/// A line that every kernel's log begins with.
const MARK: &[u8] = b"Command line: ";
/// The faults that end a start.
const FAULTS: [&str; 4] = ["Oops: ", "BUG: ", "Kernel panic", "kernel BUG at"];
/// What a kernel says that found no rate for its only timer. It comes as far as its first
/// wait for a time, and stays there.
const NO_TIMER: &str = "APIC frequency too slow, disabling apic timer";
/// Where in the first piece a kernel lies, and its first log with it. What is behind may
/// be of earlier starts: their window, initramfs, files.
const KERNEL: Range<usize> = 16 << 20..96 << 20;
/// As much of a log as an early kernel has.
const LOG_BYTES: usize = 128 << 10;
/// Shorter runs of letters are numbers that look so.
const SHORTEST: usize = 4;
/// So many zeros lie behind the last line.
const REST: usize = 64;

/// The lines in the first piece of a node's memory; none if there are none.
pub(crate) fn log(memory: &Memory) -> Vec<String> {
    let mut kernel = vec![0; KERNEL.end.min(memory.bytes()).saturating_sub(KERNEL.start)];
    if kernel.is_empty() {
        return Vec::new();
    }
    memory.read(KERNEL.start, &mut kernel);
    // The program has the mark with a `%` behind it.
    let begin = memmem::find_iter(&kernel, MARK)
        .filter(|&found| {
            let next = kernel.get(found + MARK.len());
            next.is_some_and(|letter| letter.is_ascii_graphic() && *letter != b'%')
        })
        .last();
    let Some(begin) = begin else { return Vec::new() };
    lines(&kernel[begin..kernel.len().min(begin + LOG_BYTES)])
}

pub(crate) fn lines(text: &[u8]) -> Vec<String> {
    let end = memmem::find(text, &[0; REST]).unwrap_or(text.len());
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let runs = text[..end].split(|byte| !printable(byte)).filter(|run| run.len() >= SHORTEST);
    runs.map(|run| String::from_utf8_lossy(run).into_owned()).collect()
}

/// So many lines that tell most: from the first fault on, or the last ones.
pub(crate) fn telling(lines: &[String], count: usize) -> &[String] {
    let is_fault = |line: &String| FAULTS.iter().any(|fault| line.contains(fault));
    let last = lines.len().saturating_sub(count);
    let begin = lines.iter().position(is_fault).unwrap_or(last);
    &lines[begin..lines.len().min(begin + count)]
}

/// Whether the kernel that wrote these goes without a timer.
pub(crate) fn has_no_timer(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains(NO_TIMER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_early_log_is_found_in_memory() {
        let memory = Memory::zeroed(24 << 20);
        assert!(log(&memory).is_empty());
        assert!(log(&Memory::zeroed(8 << 20)).is_empty());
        memory.write((16 << 20) + 1, b"\x016Command line: %s\n\0");
        assert!(log(&memory).is_empty());
        let at = (20 << 20) - 14;
        memory.write(at, b"\x01\0\0\0\0\0\0\0Command line: quiet\0\0\0\0\0");
        memory.write(at + 32, b"\x02\x01\0\0\0\0\0\0BUG: it is\0\0\0\0\0\0\x03\0\0\0\0\0\0\0end\0");
        assert_eq!(log(&memory), ["Command line: quiet", "BUG: it is"]);
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
