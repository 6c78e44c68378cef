//! Room on the disks that tests write to: where there is none they fail, and say so each in its own way or
//! not at all.

use std::path::Path;

use anyhow::{Context, Result};

use crate::run::target_folder;

/// Less is none: one program of the tests has more than a tenth of it.
const LEAST: u64 = 1_000_000_000;

/// A sentence about a disk of the tests that is full, or nearly.
pub(super) fn missing() -> Result<Option<String>> {
    for folder in [target_folder()?, std::env::temp_dir()] {
        if let Some(sentence) = missing_in(&folder, LEAST)? {
            return Ok(Some(sentence));
        }
    }
    Ok(None)
}

fn missing_in(folder: &Path, least: u64) -> Result<Option<String>> {
    // It is made by the first build.
    let there = folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    let disk = rustix::fs::statvfs(there)
        .with_context(|| format!("asking for the room of {}", there.display()))?;
    let left = disk.f_bavail * disk.f_frsize;
    let megabytes = |bytes| bytes / 1_000_000;
    Ok((left < least).then(|| {
        format!(
            "the disk of {} has {} MB left: tests need {} MB at least, a whole run about {} GB below the target folder",
            there.display(),
            megabytes(left),
            megabytes(least),
            WHOLE_GB
        )
    }))
}

/// Size of all that `cargo xtask test` builds in a fresh clone.
const WHOLE_GB: u32 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_named() {
        let folder = std::env::temp_dir().join("not/there/yet");
        assert_eq!(missing_in(&folder, 0).unwrap(), None);
        let sentence = missing_in(&folder, u64::MAX).unwrap().unwrap();
        let there = std::env::temp_dir();
        assert!(sentence.starts_with(&format!("the disk of {}", there.display())), "{sentence}");
    }
}
