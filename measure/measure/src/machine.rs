//! Where a run takes place: choice of the cpus, and what the result says of
//! the machine and its state.

use std::fs;
use std::path::Path;

use kumiki_sys::affinity;
use kumiki_sys::cpu::Features;
use kumiki_sys::topology::Topology;

use crate::case::Place;
use crate::error::{Error, Result};
use crate::meter::Meter;
use crate::round_trip::RoundTrip;
use crate::schema::Machine;

/// Chooses where to measure: `cpus` if given (one, or one and its partner),
/// else the last cpu that this process may use, away from the interrupts that
/// go to the first, and the cpu nearest to it on another core.
///
/// # Errors
/// A cpu that is offline or outside the allowed set, the same cpu twice, more
/// than two.
pub fn place(cpus: Option<&[usize]>, scratch: &Path) -> Result<Place> {
    let topology = Topology::read()?;
    let allowed = affinity::current()?;
    let (cpu, partner) = match cpus {
        None => {
            let cpu = allowed.iter().last().unwrap_or(0);
            (cpu, topology.nearest_core(cpu, &allowed).or_else(|| topology.nearest(cpu, &allowed)))
        }
        Some(&[cpu]) => (cpu, None),
        Some(&[cpu, partner]) if cpu != partner => (cpu, Some(partner)),
        Some(other) => {
            return Err(Error::Invalid(format!(
                "cpus {other:?}: give one cpu, or two different ones: the measuring cpu and its \
                 partner"
            )));
        }
    };
    for cpu in [cpu].into_iter().chain(partner) {
        // The kernel would also let a thread out of a set that `taskset` made.
        affinity::require(cpu, &allowed)?;
        drop(affinity::bind(cpu)?);
    }
    Ok(Place { cpu, partner, scratch: scratch.to_owned() })
}

/// Describes the machine as it is now.
pub fn describe(place: &Place, meter: &Meter) -> Result<Machine> {
    let topology = Topology::read()?;
    let features = Features::detect();
    let name = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let memory = fs::read_to_string("/proc/meminfo")
        .map_err(|e| Error::os("/proc/meminfo (`mount -t proc proc /proc` gives it)", e))?;
    Ok(Machine {
        hostname: text(name.nodename()),
        kernel: text(name.release()),
        kernel_version: text(name.version()),
        os: os_name(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
        cpu_model: features.brand.clone(),
        cpus: topology.online().len(),
        cpus_allowed: affinity::current()?.to_string(),
        cores: topology.cores(),
        threads_per_core: topology.threads_per_core(),
        numa_nodes: topology.numa_nodes(),
        memory_bytes: kib(&memory, "MemTotal:").unwrap_or(0),
        cache_bytes: topology.last_level_cache_bytes(),
        hypervisor: features.hypervisor.clone(),
        tsc_hz: meter.clock().is_tsc().then(|| meter.clock().hz()),
        clock: meter.clock().name().to_owned(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        boost: line("/sys/devices/system/cpu/cpufreq/boost").map(|word| word == "1"),
        transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|modes| chosen(&modes)),
        mitigations: mitigations(),
        load: fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| text.split(' ').next()?.parse().ok()),
        scratch: file_system(&place.scratch),
        round_trip_ns: round_trip_ns(place, meter)?,
    })
}

fn round_trip_ns(place: &Place, meter: &Meter) -> Result<Option<f64>> {
    let Some(partner) = place.partner else { return Ok(None) };
    let _bound = affinity::bind(place.cpu)?;
    Ok(RoundTrip::start(place.cpu, partner)?.measure(meter.clock()))
}

fn kib(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The word in brackets: `always [madvise] never`.
fn chosen(modes: &str) -> Option<String> {
    let (_, rest) = modes.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// `PRETTY_NAME` of os-release(5).
fn os_name(release: &str) -> String {
    release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned())
}

/// The kernel's defences against processor faults that cost something: lines of
/// `/sys/devices/system/cpu/vulnerabilities` that say "Mitigation".
fn mitigations() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return Vec::new();
    };
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            let measures = text.trim().strip_prefix("Mitigation:")?.trim().to_owned();
            Some(format!("{}: {measures}", entry.file_name().to_string_lossy()))
        })
        .collect();
    found.sort();
    found
}

/// Type and mount point of the file system that holds `path`: the longest
/// mount point above it (proc_pid_mountinfo(5)).
fn file_system(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mount_of(&table, &path).unwrap_or_else(|| "unknown".to_owned())
}

fn mount_of(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        Some((left.split(' ').nth(4)?, right.split(' ').next()?))
    });
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    // Of two mounts at one point the later one is seen.
    above.max_by_key(|(point, _)| point.len()).map(|(point, kind)| format!("{kind} at {point}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_read() {
        assert_eq!(kib("MemTotal:  24684092 kB\nMemFree: 1 kB\n", "MemFree:"), Some(1024));
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(
            os_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
            "Debian GNU/Linux 12"
        );
        assert_eq!(os_name(""), "unknown");
    }

    #[test]
    fn the_innermost_mount_counts() {
        let table = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 21 0:5 / /tmp rw shared:1 - tmpfs tmpfs rw\n\
            31 21 0:6 / /tmpfiles rw - xfs /dev/sdb rw\n";
        assert_eq!(mount_of(table, Path::new("/tmp/x")).as_deref(), Some("tmpfs at /tmp"));
        assert_eq!(mount_of(table, Path::new("/home")).as_deref(), Some("ext4 at /"));
        assert_eq!(mount_of("", Path::new("/")), None);
    }

    #[test]
    fn two_cpus_must_differ_and_exist() {
        let here = Path::new("/");
        let same = place(Some(&[0, 0]), here).unwrap_err().to_string();
        assert!(same.contains("[0, 0]"), "{same}");
        let far = place(Some(&[99_999]), here).unwrap_err().to_string();
        assert!(far.contains("99999"), "{far}");
        assert!(place(None, here).is_ok());
    }
}
