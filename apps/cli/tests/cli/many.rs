//! `kumiki many` and `kumiki measure many` where there are too few cpus for a curve.

use crate::common::Home;

#[test]
fn on_few_cpus_it_has_nothing_to_say_and_writes_nothing() {
    let home = Home::new();
    let one = kumiki_sys::affinity::current().unwrap().first().unwrap().to_string();
    for words in [&["many", "-o", "kept.json"][..], &["measure", "many", "--json"]] {
        let kumiki = ["-c", &one, env!("CARGO_BIN_EXE_kumiki")];
        let output = home.run_by("taskset", &[&kumiki[..], words].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout.is_empty(), "{said}");
        assert!(said.contains("from 4 cpus on, and this process may use 1"), "{said}");
    }
    assert!(!home.path("kept.json").exists());
}
