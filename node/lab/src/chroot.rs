//! Roots of Debian's packages in the cache, in which kernels and their modules are built by
//! the compiler that is theirs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::apt::Archive;
use crate::error::{Error, Result};
use crate::tied::tied;

/// Packages that a build needs beside sources, or headers and the compiler that these depend on.
const TOOLS: [&str; 12] = [
    "base-files",
    "bash",
    // `as` and `ld` by these names: since Linux 7 headers depend on a compiler that brings none.
    "binutils",
    "coreutils",
    "dash",
    "diffutils",
    "findutils",
    "grep",
    "make",
    "mawk",
    "perl-base",
    "sed",
];
/// Names that maintainers' scripts would have made, and what they stand for.
const LINKS: [(&str, &str); 2] = [("bin/sh", "dash"), ("usr/bin/awk", "mawk")];

/// The root of this name, with these packages and what any build needs.
pub(crate) fn with(archive: &Archive<'_>, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let packages: Vec<&str> = packages.iter().copied().chain(TOOLS).collect();
    archive.root_with(name, &packages, finished)
}

fn finished(root: &Path) -> Result<()> {
    for (name, target) in LINKS {
        let link = root.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(target, &link).map_err(Error::file("making", &link))?;
        }
    }
    for folder in ["dev", "tmp"] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).map_err(Error::file("making", &folder))?;
        let open = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(&folder, open).map_err(Error::file("opening", &folder))?;
    }
    Ok(())
}

/// Newer kernels' objtool reads its own limits in /proc.
const WITH_DEVICES: &str = r#"
mkdir -p "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@""#;
/// The one device that a build needs, where nothing can be mounted.
const WITH_NULL: &str = r#"
[ -c "$0/dev/null" ] || { rm -f "$0/dev/null" && mknod -m 666 "$0/dev/null" c 1 3; } || exit
exec chroot "$0" "$@""#;

/// True if root has mounts of its own here: not in a chroot whose `/` is no mount, nor in most
/// containers.
fn may_mount() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "true"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A command inside this root, with the machine's devices. A user who is not
/// root is so in a name space of the command's own.
pub(crate) fn entering(root: &Path) -> Command {
    let mut command = if rustix::process::geteuid().is_root() && !may_mount() {
        let mut command = tied("sh");
        command.args(["-c", WITH_NULL]);
        command
    } else {
        let mut command = tied("unshare");
        if !rustix::process::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c", WITH_DEVICES]);
        command
    };
    command.arg(root);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    command.stdin(Stdio::null());
    command
}

/// Runs a command in a root to its end, and hands back what it said.
pub(crate) fn said(mut command: Command, doing: &str) -> Result<String> {
    let failed = |reason: String| Error::Program { program: doing.to_owned(), reason };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    if output.status.success() { Ok(said) } else { Err(failed(format!("it failed:\n{said}"))) }
}
