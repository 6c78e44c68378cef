//! Whatever changes whose memory it is tells the nodes that watch this machine.

use std::fs;
use std::path::Path;

/// Calls by which memory changes hands, and what has to stand in the same file.
const CHANGES: [&str; 7] = [
    ".release()",
    "release_if(",
    ".memory_back()",
    ".piece_back(",
    ".claim(",
    ".memory(size",
    ".memory_aligned(",
];

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            // The kernel's release is another thing.
            let text = text.replace(".kernel.release()", "");
            found.push((path.display().to_string(), text));
        }
    }
}

#[test]
fn who_changes_whose_memory_it_is_tells() {
    let mut found = Vec::new();
    for folder in ["/src", "/../image/src"] {
        sources(Path::new(&format!("{}{folder}", env!("CARGO_MANIFEST_DIR"))), &mut found);
    }
    let changes = |text: &str| CHANGES.iter().any(|call| text.contains(call));
    let tells = |text: &str| text.contains("watchmen::tell()") || text.contains("Telling");
    let silent: Vec<_> = found
        .iter()
        .filter(|(_, text)| changes(text) && !tells(text))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
    assert!(found.iter().filter(|(_, text)| changes(text)).count() > 4);
}
