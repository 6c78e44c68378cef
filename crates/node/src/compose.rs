//! A node's initramfs: a base, the agent, its module, and the user's overlay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kumiki_boot::Initramfs;
use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::{Error, Result};

/// Where the agent and its module lie in a node.
pub(crate) const AGENT: &str = "/bin/kumiki";
pub(crate) const GUEST_MODULE: &str = "/lib/kumiki/osnode-guest.ko";

const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];

/// What an image's initramfs is made of.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// An initrd to begin with; else a static busybox of the host.
    pub initrd: Option<PathBuf>,
    /// A cpio archive that is unpacked over everything else.
    pub overlay: Option<PathBuf>,
    /// `osnode-guest.ko`, built for the node's kernel; looked for if not given.
    pub guest_module: Option<PathBuf>,
}

impl Base {
    /// The initramfs for a kernel of this release.
    pub(crate) fn compose(&self, release: Option<&str>) -> Result<Vec<u8>> {
        let mut initramfs = Initramfs::new();
        match &self.initrd {
            Some(path) => initramfs.archive(&read(path)?)?,
            None => busybox(&mut initramfs)?,
        }
        let agent = read(Path::new("/proc/self/exe"))?;
        if !is_static(&agent) {
            return Err(Error::Unsupported {
                feature: "this kumiki as a node's agent".into(),
                needs: "it is linked dynamically and a node has no libraries: build it with \
                        RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target \
                        x86_64-unknown-linux-gnu"
                    .into(),
            });
        }
        initramfs.file(AGENT, 0o755, &agent)?;
        // The first process has no console, and Rust programs want three
        // descriptors before they begin.
        initramfs.device("/dev/null", 0o666, (1, 3))?;
        initramfs.file(GUEST_MODULE, 0o644, &read(&self.guest_module(release)?)?)?;
        if let Some(overlay) = &self.overlay {
            initramfs.archive(&read(overlay)?)?;
        }
        Ok(initramfs.finish()?)
    }

    fn guest_module(&self, release: Option<&str>) -> Result<PathBuf> {
        if let Some(path) = &self.guest_module {
            return Ok(path.clone());
        }
        let folders = release.map(|release| {
            ["updates/dkms", "updates", "extra"]
                .map(|folder| Path::new("/lib/modules").join(release).join(folder))
        });
        let places = folders.iter().flatten().map(|folder| folder.join("osnode-guest.ko"));
        places.into_iter().find(|path| path.exists()).ok_or_else(|| {
            Error::Refused(format!(
                "no osnode-guest.ko for kernel {} in /lib/modules: without it a restart of the \
                 node restarts the machine; build kernel/osnode for that kernel and give the \
                 file with --guest-module",
                release.unwrap_or("(it does not say its release)")
            ))
        })
    }
}

/// Busybox with a link for each of its programs.
fn busybox(initramfs: &mut Initramfs) -> Result<()> {
    let path = BUSYBOX.map(Path::new).into_iter().find(|path| path.exists());
    let bytes = path.map(read).transpose()?.filter(|bytes| is_static(bytes));
    let (Some(path), Some(bytes)) = (path, bytes) else {
        return Err(Error::Refused(
            "no static busybox at /bin/busybox for the node's programs: install busybox-static, \
             or give an initrd with --initrd"
                .into(),
        ));
    };
    initramfs.file("/bin/busybox", 0o755, &bytes)?;
    let listed = Command::new(path).arg("--list").output();
    let listed = listed.map_err(|error| Error::file(path, error))?;
    for program in String::from_utf8_lossy(&listed.stdout).lines() {
        if program != "busybox" {
            initramfs.link(&format!("/bin/{program}"), "busybox")?;
        }
    }
    ["/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/etc"]
        .into_iter()
        .try_for_each(|folder| initramfs.folder(folder))?;
    Ok(())
}

/// Whether a program needs no loader and no libraries.
fn is_static(program: &[u8]) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(program) else { return false };
    let headers = header.endian().and_then(|endian| {
        let headers = header.program_headers(endian, program)?;
        Ok(headers.iter().any(|header| header.p_type(endian) == PT_INTERP))
    });
    headers == Ok(false)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::file(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        // Test programs are dynamic, as long as nobody asks for another target.
        let this = read(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(is_static(&this), cfg!(target_feature = "crt-static"));
        assert!(!is_static(b"#!/bin/sh\n"));
    }

    #[test]
    fn a_missing_guest_module_says_why_it_is_needed() {
        let error = Base::default().guest_module(Some("0.0.0-none")).unwrap_err().to_string();
        assert!(error.contains("0.0.0-none") && error.contains("--guest-module"), "{error}");
    }
}
