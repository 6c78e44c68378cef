//! `kumiki duel`: two machines that are visited in turns, and gone when it has ended.

use std::process::Command;

use serde_json::Value;

use crate::Host;
use crate::pool::{Kind, Turn};

fn kumiki(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kumiki")).args(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_kernel_against_itself_is_run_in_turns_and_nothing_is_left() {
    // Where no machine can be had, there is no duel.
    let Some(host) = Host::shared(Kind::Debian12) else { return };
    let kernel = host.ok("uname -r");
    host.leave();
    let _turn = Turn::wait();
    let words = ["duel", "6.1", "6.1", "--for", "8s", "--json", "--", "sh", "-c", "uname -r"];
    let (code, said, why) = kumiki(&words);
    assert!(matches!(code, Some(0 | 1 | 3)), "{code:?} {why}");
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["kernels"], serde_json::json!([kernel.trim(), kernel.trim()]));
    let outcome = &told["outcomes"][0][1];
    let pairs = outcome["pairs"].as_array().unwrap();
    assert!(
        pairs.iter().flat_map(|pair| pair.as_array().unwrap()).all(|run| run["end"] == "success")
    );
    // Both have printed the same kernel's version, by the clock of this machine.
    assert!(!pairs.is_empty() && pairs[0][0]["output"] == pairs[0][1]["output"], "{outcome}");
    assert_eq!(outcome["by"], "wall");
    let words = outcome["a"]["words"].to_string();
    let name = words.split('"').find(|word| word.starts_with("duel-")).expect("a machine's name");
    let (_, machines, _) = kumiki(&["lab", "ls"]);
    assert!(!machines.contains(name), "{machines}");
}
