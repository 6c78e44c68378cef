//! The host's signs of life, read by a node, and what they mean.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::abi;

use super::told::HostDescription;
use crate::{Error, ErrorKind, Result, Subject};

/// Interval between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// The page that the host's module keeps.
pub(super) struct Signs {
    memory: Memory,
}

/// One look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostState {
    /// Beats of each of its cpus, 0 of those off line.
    Beats(Vec<u64>),
    Panic(Panic),
    /// The host's module has gone.
    Gone,
}

/// End of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Panic {
    pub(super) message: String,
    pub(super) cpu: u32,
    pub(super) pid: u32,
    pub(super) task: String,
    /// Registers of its cpu: next instruction, and stack.
    pub(super) place: (u64, u64),
}

impl Signs {
    /// Takes a mapping of the page.
    pub(super) fn of(memory: Memory) -> Result<Self> {
        assert!(memory.bytes() >= abi::WATCH_BYTES, "signs have {:#x} bytes", abi::WATCH_BYTES);
        let signs = Signs { memory };
        let version = signs.u32(abi::WATCH_VERSION);
        if signs.is_there() && version == abi::VERSION {
            return Ok(signs);
        }
        Err(Error::refused(
            ErrorKind::Protocol,
            Subject::Module("osnode-watch".into()),
            format!(
                "no signs of life of version {} there: osnode-watch.ko is another one",
                abi::VERSION
            ),
        ))
    }

    fn u32(&self, at: usize) -> u32 {
        self.memory.u32(at).load(Ordering::Relaxed)
    }

    fn is_there(&self) -> bool {
        self.memory.u64(0).load(Ordering::Acquire) == abi::WATCH_MAGIC
    }

    pub(super) fn beats(&self) -> Vec<u64> {
        let at = |cpu| self.memory.u64(abi::WATCH_BEATS + 8 * cpu);
        (0..abi::WATCH_CPUS).map(|cpu| at(cpu).load(Ordering::Relaxed)).collect()
    }

    pub(super) fn look(&self) -> HostState {
        // Acquire: what a panic left was written before its word.
        let panicked =
            self.memory.u32(abi::WATCH_STATE).load(Ordering::Acquire) == abi::WATCH_PANIC;
        let seen =
            if panicked { HostState::Panic(self.panic()) } else { HostState::Beats(self.beats()) };
        // What was read was the module's if its page still is.
        fence(Ordering::Acquire);
        if self.is_there() { seen } else { HostState::Gone }
    }

    fn panic(&self) -> Panic {
        let word = |at| self.memory.u64(at).load(Ordering::Relaxed);
        Panic {
            message: self.text(abi::WATCH_MESSAGE, abi::MESSAGE_BYTES),
            cpu: self.u32(abi::WATCH_CPU),
            pid: self.u32(abi::WATCH_PID),
            task: self.text(abi::WATCH_COMM, abi::COMM_BYTES),
            place: (word(abi::WATCH_IP), word(abi::WATCH_SP)),
        }
    }

    fn text(&self, at: usize, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.memory.read(at, &mut bytes);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(length);
        String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned()
    }

    /// Reads the last word of the host.
    pub(super) fn host_description(&self) -> Result<HostDescription> {
        loop {
            let told = self.memory.u32(abi::WATCH_TOLD).load(Ordering::Acquire);
            let which = told as usize % 2;
            let length = self.u32(abi::WATCH_TEXT_BYTES + 4 * which) as usize;
            let mut text = vec![0; length.min(abi::TOLD_BYTES)];
            self.memory.read(abi::WATCH_TEXT + which * abi::TOLD_BYTES, &mut text);
            fence(Ordering::Acquire);
            // The next one may have been written here only after another one was told.
            if self.u32(abi::WATCH_TOLD) == told {
                return serde_json::from_slice(&text)
                    .map_err(|error| Error::Protocol(format!("what the host told: {error}")));
            }
        }
    }
}

/// Meaning of the signs of some time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Alive,
    /// This cpu stands still, or goes on, while others beat.
    Still(usize),
    Again(usize),
    Dead(Death),
    Gone,
}

/// Death of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Death {
    Panic(Panic),
    /// None of its cpus gave a sign for this long.
    Silence(Duration),
}

impl Death {
    pub(super) fn said(&self) -> String {
        match self {
            Death::Panic(Panic { message, cpu, pid, task, .. }) => {
                format!("panic on cpu {cpu}, task {task} ({pid}): {message}")
            }
            Death::Silence(time) => format!("no cpu has given a sign for {} s", time.as_secs()),
        }
    }
}

/// Watches how long cpus stand still. It counts looks, not time: a machine that was stopped as a
/// whole has missed both.
pub(super) struct Patience {
    looks: u32,
    after: Duration,
    /// Last beat of each cpu, and number of looks since it was new.
    cpus: Vec<(u64, u32)>,
}

impl Patience {
    pub(super) fn new(after: Duration) -> Self {
        let looks = after.as_millis().div_ceil(LOOK.as_millis()).max(1) as u32;
        Patience { looks, after, cpus: vec![(0, 0); abi::WATCH_CPUS] }
    }

    pub(super) fn judge(&mut self, seen: HostState) -> Verdict {
        let beats = match seen {
            HostState::Gone => return Verdict::Gone,
            HostState::Panic(panic) => return Verdict::Dead(Death::Panic(panic)),
            HostState::Beats(beats) => beats,
        };
        let mut verdict = Verdict::Alive;
        let mut someone = false;
        for (cpu, (now, (last, still))) in beats.into_iter().zip(&mut self.cpus).enumerate() {
            if now == 0 || now != *last {
                if *still >= self.looks && now != 0 {
                    verdict = Verdict::Again(cpu);
                }
                (*last, *still) = (now, 0);
            } else {
                *still = still.saturating_add(1);
                if *still == self.looks {
                    verdict = Verdict::Still(cpu);
                }
            }
            someone |= now != 0 && *still < self.looks;
        }
        if someone { verdict } else { Verdict::Dead(Death::Silence(self.after)) }
    }
}

#[cfg(test)]
mod tests {
    use kumiki_boot::Piece;

    use super::*;

    fn signs() -> Memory {
        let memory = Memory::zeroed(abi::WATCH_BYTES as u64);
        memory.u64(0).store(abi::WATCH_MAGIC, Ordering::Relaxed);
        memory.u32(abi::WATCH_VERSION).store(abi::VERSION, Ordering::Relaxed);
        memory
    }

    #[test]
    fn a_page_is_the_modules_as_long_as_it_says_so() {
        let memory = signs();
        memory.u64(abi::WATCH_BEATS + 8).store(5, Ordering::Relaxed);
        let signs = Signs::of(memory).unwrap();
        let HostState::Beats(beats) = signs.look() else { panic!("{:?}", signs.look()) };
        assert_eq!(beats[..3], [0, 5, 0]);
        signs.memory.write(abi::WATCH_MESSAGE, b"sysrq triggered crash\n\0");
        signs.memory.write(abi::WATCH_COMM, b"sh\0");
        signs.memory.u32(abi::WATCH_PID).store(77, Ordering::Relaxed);
        signs.memory.u32(abi::WATCH_STATE).store(abi::WATCH_PANIC, Ordering::Relaxed);
        let HostState::Panic(panic) = signs.look() else { panic!("{:?}", signs.look()) };
        assert_eq!(
            Death::Panic(panic).said(),
            "panic on cpu 0, task sh (77): sysrq triggered crash"
        );
        signs.memory.u64(0).store(0, Ordering::Relaxed);
        assert_eq!(signs.look(), HostState::Gone);
        let error = Signs::of(signs.memory).err().unwrap().to_string();
        assert!(error.contains("no signs of life of version"), "{error}");
    }

    #[test]
    fn the_last_text_is_read() {
        let told = |direct_map| HostDescription {
            vmcoreinfo: "A=1\n".into(),
            direct_map,
            ram: vec![Piece { address: 0x1000, bytes: 0x1000 }],
            apart: vec![],
            nodes: vec![],
        };
        let signs = Signs::of(signs()).unwrap();
        assert!(signs.host_description().unwrap_err().to_string().contains("what the host told"));
        for (number, which) in [(1_u32, 1), (2, 0)] {
            let text = serde_json::to_vec(&told(u64::from(number))).unwrap();
            signs.memory.write(abi::WATCH_TEXT + which * abi::TOLD_BYTES, &text);
            let length = signs.memory.u32(abi::WATCH_TEXT_BYTES + 4 * which);
            length.store(text.len() as u32, Ordering::Relaxed);
            signs.memory.u32(abi::WATCH_TOLD).store(number, Ordering::Relaxed);
            assert_eq!(signs.host_description().unwrap(), told(u64::from(number)));
        }
    }

    #[test]
    fn a_host_is_dead_when_no_cpu_beats_and_not_when_one_does() {
        let mut patience = Patience::new(LOOK * 3);
        let mut judge = |beats: &[u64]| {
            let mut all = vec![0; abi::WATCH_CPUS];
            all[..beats.len()].copy_from_slice(beats);
            patience.judge(HostState::Beats(all))
        };
        for beat in 1..4 {
            assert_eq!(
                judge(&[beat, 7]),
                if beat == 4 { Verdict::Still(1) } else { Verdict::Alive }
            );
        }
        assert_eq!(judge(&[4, 7]), Verdict::Still(1));
        assert_eq!(judge(&[5, 7]), Verdict::Alive);
        assert_eq!(judge(&[5, 8]), Verdict::Again(1));
        // The first goes off line, the other stands still.
        assert_eq!(judge(&[0, 8]), Verdict::Alive);
        assert_eq!(judge(&[0, 8]), Verdict::Alive);
        assert_eq!(judge(&[0, 8]), Verdict::Dead(Death::Silence(LOOK * 3)));
        assert_eq!(patience.judge(HostState::Gone), Verdict::Gone);
    }
}
