//! The machine's energy counters: RAPL by powercap
//! (Documentation/power/powercap/powercap.rst), else a hwmon driver's
//! (Documentation/hwmon/sysfs-interface.rst, `energyN_input`). Both count
//! microjoules.

use std::fs;
use std::path::{Path, PathBuf};

use kumiki_measure::{Error, Result};

/// Counters that together cover each package once.
pub(super) struct Energy {
    counters: Vec<EnergyCounter>,
}

struct EnergyCounter {
    path: PathBuf,
    /// Value after which the counter begins again at 0, microjoules.
    range: Option<u64>,
}

impl Energy {
    /// The counters that this process may read; `None` without any. Reading
    /// RAPL takes root since Linux 5.10 (CVE-2020-8694).
    pub(super) fn find() -> Option<Self> {
        Self::below(Path::new("/sys/class"))
    }

    fn below(class: &Path) -> Option<Self> {
        let rapl = || {
            let packages = folders(&class.join("powercap"));
            packages.into_iter().filter(|zone| text(zone, "name").starts_with("package")).map(
                |zone| EnergyCounter {
                    range: text(&zone, "max_energy_range_uj").parse().ok(),
                    path: zone.join("energy_uj"),
                },
            )
        };
        let counters: Vec<EnergyCounter> = rapl().filter(|c| c.read().is_ok()).collect();
        let counters = if counters.is_empty() { hwmon(class) } else { counters };
        (!counters.is_empty()).then_some(Energy { counters })
    }

    /// The counts now, to be given to [`Energy::joules_since`].
    pub(super) fn read(&self) -> Result<Vec<u64>> {
        self.counters.iter().map(EnergyCounter::read).collect()
    }

    /// Joules since `before`.
    pub(super) fn joules_since(&self, before: &[u64]) -> Result<f64> {
        let now = self.read()?;
        let all = self.counters.iter().zip(before).zip(now);
        let used = all.map(|((counter, &before), now)| match counter.range {
            Some(range) if now < before => (range - before.min(range)) + now,
            _ => now.saturating_sub(before),
        });
        Ok(used.sum::<u64>() as f64 * 1e-6)
    }
}

impl EnergyCounter {
    fn read(&self) -> Result<u64> {
        let file = |source| Error::File { path: self.path.clone(), source };
        let text = fs::read_to_string(&self.path).map_err(file)?;
        let bad = || Error::Invalid(format!("{}: {text:?} is not a count", self.path.display()));
        text.trim().parse().map_err(|_| bad())
    }
}

/// All inputs, or only those of sockets where a driver also counts cores
/// (amd_energy).
fn hwmon(class: &Path) -> Vec<EnergyCounter> {
    let mut inputs = Vec::new();
    for chip in folders(&class.join("hwmon")) {
        for path in folders(&chip) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(which) = name.strip_suffix("_input").filter(|n| n.starts_with("energy"))
            else {
                continue;
            };
            let label = text(&chip, &format!("{which}_label"));
            let counter = EnergyCounter { path, range: None };
            if counter.read().is_ok() {
                inputs.push((label.starts_with("Esocket"), counter));
            }
        }
    }
    let sockets = inputs.iter().any(|(socket, _)| *socket);
    inputs.retain(|(socket, _)| *socket || !sockets);
    inputs.into_iter().map(|(_, counter)| counter).collect()
}

/// Entries of a folder, sorted; nothing if it cannot be read.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(files: &[(&str, &str)]) -> tempfile::TempDir {
        let class = tempfile::tempdir().unwrap();
        for file in files {
            put(&class, *file);
        }
        class
    }

    fn put(class: &tempfile::TempDir, (path, content): (&str, &str)) {
        let path = class.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{content}\n")).unwrap();
    }

    #[test]
    fn packages_count_once_and_wrap() {
        let class = class(&[
            ("powercap/intel-rapl:0/name", "package-0"),
            ("powercap/intel-rapl:0/energy_uj", "990"),
            ("powercap/intel-rapl:0/max_energy_range_uj", "1000"),
            ("powercap/intel-rapl:0:0/name", "core"),
            ("powercap/intel-rapl:0:0/energy_uj", "7"),
            ("powercap/intel-rapl:1/name", "package-1"),
            ("powercap/intel-rapl:1/energy_uj", "5"),
            ("hwmon/hwmon0/energy1_input", "1"),
        ]);
        let energy = Energy::below(class.path()).unwrap();
        let before = energy.read().unwrap();
        assert_eq!(before, [990, 5]);
        put(&class, ("powercap/intel-rapl:0/energy_uj", "40"));
        put(&class, ("powercap/intel-rapl:1/energy_uj", "105"));
        let joules = energy.joules_since(&before).unwrap();
        assert!((joules - 150e-6).abs() < 1e-12, "{joules}");
    }

    #[test]
    fn sockets_go_before_cores() {
        let files = [
            ("hwmon/hwmon0/name", "amd_energy"),
            ("hwmon/hwmon0/energy1_input", "3"),
            ("hwmon/hwmon0/energy1_label", "Ecore000"),
            ("hwmon/hwmon0/energy2_input", "9"),
            ("hwmon/hwmon0/energy2_label", "Esocket0"),
        ];
        assert_eq!(Energy::below(class(&files).path()).unwrap().counters.len(), 1);
        let class = class(&files[..3]);
        assert_eq!(Energy::below(class.path()).unwrap().read().unwrap(), [3]);
    }

    #[test]
    fn without_a_counter_there_is_no_figure() {
        assert!(Energy::below(class(&[]).path()).is_none());
        let unreadable = [("powercap/intel-rapl:0/name", "package-0")];
        assert!(Energy::below(class(&unreadable).path()).is_none());
    }
}
