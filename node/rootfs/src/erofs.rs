//! A folder as an erofs image, by erofs-utils.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Error, Result};

const PLACES: [&str; 4] = [
    "/usr/bin/mkfs.erofs",
    "/usr/sbin/mkfs.erofs",
    "/sbin/mkfs.erofs",
    "/usr/local/bin/mkfs.erofs",
];
/// Each file's data on pages of its own, as memory that is mapped needs it.
const OPTIONS: [&str; 3] = ["-d1", "-Enoinline_data", "-U00000000-0000-0000-0000-000000000000"];

/// The program that makes images; an error says what to install. To be asked before an image is
/// read, which takes long.
pub fn mkfs() -> Result<&'static Path> {
    let program = PLACES.into_iter().map(Path::new).find(|path| path.exists());
    program.ok_or_else(|| Error::Unsupported {
        feature: "a root from a container image (mkfs.erofs)".into(),
        needs: "install the package erofs-utils".into(),
    })
}

/// Makes an image of a folder, uncompressed. Needs mkfs.erofs 1.5 or later, which Debian has
/// from 12 on.
pub fn erofs(folder: &Path, image: &Path) -> Result<()> {
    let program = mkfs()?;
    let mut command = Command::new(program);
    command.args(OPTIONS).arg(image).arg(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.output().map_err(|error| Error::file(program, error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
    Err(Error::Image {
        image: folder.display().to_string(),
        problem: format!("{} ended with {}: {last}", program.display(), output.status),
    })
}
