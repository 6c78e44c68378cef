//! Peak memory of the tool itself, beside what its cases ask for.

use std::fs;

/// Watches the peak resident set of this process, visit by visit.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    bytes: Option<u64>,
}

impl Peak {
    /// Forgets the peak until now, so that the next visit has its own
    /// (`/proc/PID/clear_refs`, proc(5)).
    pub(crate) fn begin(&mut self) {
        // Not fatal: the peak is then that of all visits until now, and only
        // overstates the tool's share.
        let _ = fs::write("/proc/self/clear_refs", "5");
    }

    /// Ends a visit of a case that asked for `asked_bytes` in this process.
    pub(crate) fn end(&mut self, asked_bytes: u64) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(peak) = peak_resident_bytes(&status) {
            self.bytes = self.bytes.max(Some(peak.saturating_sub(asked_bytes)));
        }
    }

    /// Counts what another process of the tool had.
    pub(crate) fn add(&mut self, bytes: Option<u64>) {
        self.bytes = self.bytes.max(bytes);
    }

    /// The largest until now.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.bytes
    }
}

fn peak_resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_high_water_mark() {
        let status = "Name:\tkumiki\nVmPeak:\t  9000 kB\nVmHWM:\t    1234 kB\nVmRSS:\t 1000 kB\n";
        assert_eq!(peak_resident_bytes(status), Some(1234 * 1024));
        assert_eq!(peak_resident_bytes("Name:\tkumiki\n"), None);
    }

    #[test]
    fn what_was_asked_for_is_not_the_tools() {
        let mut peak = Peak::default();
        peak.begin();
        peak.end(0);
        let all = peak.bytes().expect("/proc/self/status");
        assert!(all > 64 * 1024);
        let mut peak = Peak::default();
        peak.end(u64::MAX);
        assert_eq!(peak.bytes(), Some(0));
    }
}
