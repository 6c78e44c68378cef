//! Time that a control group leaves its threads: cpus' worth of it, whatever cpus they may use.
//!
//! Read from `cpu.max` of the group and of all above it (version 2 of cgroups,
//! Documentation/admin-guide/cgroup-v2.rst); the least holds. Version 1 is not looked at.

use std::fs;
use std::path::Path;

/// Cpus' worth of time that this process may use at most; `None` without a limit.
///
/// ```
/// let cpus = kumiki_sys::quota::cpus().map_or("as many as there are".to_owned(), |n| n.to_string());
/// println!("cpus' worth of time: {cpus}");
/// ```
pub fn cpus() -> Option<f64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    least(&groups, Path::new("/sys/fs/cgroup"))
}

/// Threads that a quota lets run at the same time: one more than whole cpus where there is a part.
pub fn threads() -> Option<usize> {
    cpus().map(whole)
}

fn whole(cpus: f64) -> usize {
    (cpus.ceil() as usize).max(1)
}

/// The least quota of the group that `groups` names, below `root`, and of those above it.
fn least(groups: &str, root: &Path) -> Option<f64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = root.join(path.trim_start_matches('/'));
    let up = own.ancestors().take_while(|group| group.starts_with(root));
    let quotas = up.filter_map(|group| quota(&fs::read_to_string(group.join("cpu.max")).ok()?));
    quotas.reduce(f64::min)
}

/// Cpus' worth of `cpu.max`: microseconds, or `max`, of each period.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_groups_above_holds() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            fs::create_dir_all(root.path().join(path)).unwrap();
            fs::write(root.path().join(path).join("cpu.max"), text).unwrap();
        };
        put("a", "150000 100000\n");
        put("a/b", "max 100000\n");
        put("a/c", "50000 100000\n");
        let of = |path: &str| least(&format!("1:name=systemd:/\n0::{path}\n"), root.path());
        assert_eq!((of("/a"), of("/a/b"), of("/a/c")), (Some(1.5), Some(1.5), Some(0.5)));
        assert_eq!((of("/"), of("/none"), least("3:cpu:/x\n", root.path())), (None, None, None));
    }

    #[test]
    fn a_part_of_a_cpu_is_a_thread_and_what_is_no_quota_is_none() {
        assert_eq!([0.5, 1.0, 1.5, 2.0].map(whole), [1, 1, 2, 2]);
        for text in ["max 100000", "", "x 1", "100000", "100000 0", "0 100000"] {
            assert_eq!(quota(text), None, "{text:?}");
        }
    }
}
