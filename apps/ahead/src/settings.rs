//! Bounds, from `KUMIKI_AHEAD`, which `kumiki ahead` sets: `names=4096,bytes=67108864,threads=32`. Tests have all
//! folders taken for cold (`cold=1`); who opens what another process does, which has slept, says so (`echo=1`).
//!
//! Read without memory of the heap: it is not there yet.

use std::ffi::CStr;

/// The variable's name.
const VARIABLE: &CStr = c"KUMIKI_AHEAD";
/// The most threads; beside them is the one that starts them.
const MOST_THREADS: u32 = 64;
const MOST_NAMES: u32 = 65_536;

/// Bounds of what is asked ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Names asked that the program has not come to yet.
    pub(crate) names: u32,
    /// Bytes of files read that it has not come to yet.
    pub(crate) bytes: u64,
    pub(crate) threads: u32,
    /// No folder is found warm.
    pub(crate) is_all_cold: bool,
    /// This process opens what another one has opened, which has slept for it.
    pub(crate) is_echo: bool,
}

impl Settings {
    const DEFAULT: Self =
        Settings { names: 4096, bytes: 64 << 20, threads: 32, is_all_cold: false, is_echo: false };

    /// Reads those of the environment, or takes what is usual.
    pub(crate) fn read() -> Self {
        // SAFETY: a name that ends with a zero. Who changes the environment meanwhile must not start programs
        // or fork, as of any program; this is read at the start and in a child that has one thread.
        let text = unsafe { libc::getenv(VARIABLE.as_ptr()) };
        if text.is_null() {
            return Self::DEFAULT;
        }
        // SAFETY: a variable's value, which ends with a zero.
        Self::of(unsafe { CStr::from_ptr(text) }.to_bytes())
    }

    /// Reads a text; what it does not say, or says in a way that is not known, is as usual.
    fn of(text: &[u8]) -> Self {
        let mut settings = Self::DEFAULT;
        for word in text.split(|byte| *byte == b',') {
            let mut parts = word.splitn(2, |byte| *byte == b'=');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            let value = std::str::from_utf8(value).ok().and_then(|value| value.parse::<u64>().ok());
            let Some(value) = value else { continue };
            let small = u32::try_from(value).unwrap_or(u32::MAX);
            match name {
                b"names" => settings.names = small.clamp(1, MOST_NAMES),
                b"bytes" => settings.bytes = value,
                b"threads" => settings.threads = small.min(MOST_THREADS),
                b"cold" => settings.is_all_cold = value != 0,
                b"echo" => settings.is_echo = value != 0,
                _ => {}
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_taken_within_bounds_and_the_rest_is_as_usual() {
        let usual = Settings::DEFAULT;
        assert_eq!(Settings::of(b""), usual);
        assert_eq!(Settings::of(b"names=10"), Settings { names: 10, ..usual });
        assert_eq!(
            Settings::of(b"threads=0,names=0,bytes=5"),
            Settings { names: 1, bytes: 5, threads: 0, ..usual }
        );
        assert_eq!(Settings::of(b"threads=999").threads, MOST_THREADS);
        for wrong in [&b"names"[..], b"names=", b"names=-1", b"names=x", b"=5", b",,", b"\xff=\xff"]
        {
            assert_eq!(Settings::of(wrong), usual, "{wrong:?}");
        }
    }
}
