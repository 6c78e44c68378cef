//! Nodes that watch this machine's kernel: after each change they are told whose memory is whose, as they could not
//! ask when it is dead. What they write of it then has no memory of a node, and all of this machine's.

use kumiki_node_wire::device::Device;

/// Leaves word of the nodes and images that there are now. Who could not be told knows those of before: this is no
/// reason to undo anything.
pub(crate) fn tell() {
    let _ = kumiki_node_agent::watchman::tell();
}

/// Tells them as it goes, however what changes memory ends.
pub(crate) struct Telling;

impl Drop for Telling {
    fn drop(&mut self) {
        tell();
    }
}

/// Gives up a holding that would only be in the way: the caller's own error matters more than one of this.
pub(crate) fn abandon(device: &Device) {
    let _telling = Telling;
    let _ = device.release();
}

#[cfg(test)]
mod tests {
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
        sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut found);
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
}
