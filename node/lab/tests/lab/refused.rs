//! What no machine can be is refused before anything is downloaded or started.

use kumiki_lab::{Cache, Machine, Talk};

use crate::config;

#[test]
fn no_cpu_too_little_memory_and_too_long_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path()).unwrap();
    let says = |change: fn(&mut kumiki_lab::Config)| {
        let mut config = config();
        change(&mut config);
        Machine::start(&cache, &config, Talk::nowhere()).expect_err("it is refused").to_string()
    };
    assert!(says(|config| config.cpus = 0).contains("1 to 288"));
    assert!(says(|config| config.cpus = 1000).contains("1000 cpus"));
    assert!(says(|config| config.memory_bytes = 1 << 20).contains("192 MiB at least"));
    let long = says(|config| config.append = vec!["a".repeat(2000)]);
    assert!(long.contains("bytes of kernel command line") && long.contains("2047"), "{long}");
}
