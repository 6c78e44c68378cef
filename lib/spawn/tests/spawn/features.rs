//! What a program links that only spawns.

use std::process::Command;

/// Crates of `kumiki` with these features, as cargo lists them.
fn linked(features: &str) -> String {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--locked", "--package", "kumiki", "--edges", "normal"]);
    tree.args(["--features", features, "--prefix", "none"]);
    let output = tree.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Implementations of serde_json's would make types ambiguous in its own code.
#[test]
fn no_resource_is_linked_where_none_is_asked_for() {
    let has = |features: &str| {
        let all = linked(features);
        ["kumiki-spawn ", "kumiki-resource ", "serde_json "].map(|name| all.contains(name))
    };
    assert_eq!(has("spawn"), [true, false, false]);
    assert_eq!(has("spawn,resource"), [true, true, true]);
}
