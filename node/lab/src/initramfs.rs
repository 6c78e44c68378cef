//! The file system that a machine starts with: busybox, our agent, modules.

use std::path::Path;

use kumiki_boot::Placed;

use crate::error::Result;
use crate::modules::Loadable;

/// The agent's place in a machine.
pub(crate) const AGENT: &str = "/bin/kumiki";
/// Modules to load at the start, a line each: file, then parameters.
pub(crate) const MODULES: &str = "/lib/lab/modules";

const FOLDERS: [&str; 10] =
    ["/dev", "/proc", "/sys", "/run", "/mnt", "/root", "/etc", "/bin", "/usr", "/var"];
const LINKS: [(&str, &str); 4] =
    [("/sbin", "bin"), ("/usr/bin", "../bin"), ("/usr/sbin", "../bin"), ("/var/tmp", "../tmp")];
const FILES: [(&str, &str); 3] = [
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
    ("/etc/group", "root:x:0:\n"),
    ("/etc/hostname", "lab\n"),
];

/// Parts of a machine's file system.
pub(crate) struct Parts<'a> {
    /// The agent and its libraries.
    pub(crate) programs: &'a [Placed],
    pub(crate) busybox: &'a Path,
    /// Busybox that this machine's processor runs, of the same release: it lists the programs.
    pub(crate) lister: &'a Path,
    pub(crate) modules: &'a [Loadable],
    /// Any other files.
    pub(crate) files: &'a [Placed],
}

/// The archive, with the folders and devices that a kernel and programs expect.
pub(crate) fn compose(parts: &Parts<'_>) -> Result<Vec<u8>> {
    let mut initramfs = kumiki_boot::Initramfs::new();
    FOLDERS.iter().try_for_each(|folder| initramfs.folder(folder))?;
    initramfs.folder_for("/tmp", 0o1777)?;
    LINKS.iter().try_for_each(|(path, target)| initramfs.link(path, target))?;
    initramfs.device("/dev/console", 0o600, (5, 1))?;
    initramfs.device("/dev/null", 0o666, (1, 3))?;
    FILES.iter().try_for_each(|(path, text)| initramfs.file(path, 0o644, text.as_bytes()))?;
    // Later files replace earlier ones: no applet is to replace the agent.
    initramfs.busybox_listed(parts.busybox, parts.lister)?;
    initramfs.programs(parts.programs)?;
    let mut list = String::new();
    for module in parts.modules {
        let path = format!("/lib/lab/{}.ko", module.name);
        initramfs.file(&path, 0o644, &module.bytes)?;
        list += &format!("{path} {}\n", module.parameters);
    }
    initramfs.file(MODULES, 0o644, list.as_bytes())?;
    for file in parts.files {
        initramfs.file(&file.path.to_string_lossy(), 0o644, &file.bytes)?;
    }
    Ok(initramfs.finish()?)
}
