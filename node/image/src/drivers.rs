//! The drivers that a node needs for its devices, of its own kernel's modules, with all
//! that they need, in the order in which they are loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kumiki_boot::{Initramfs, loaded_before, module_name};
use kumiki_node_wire::brought::{DRIVERS, ROOT, TRANSPORT, driver};

use crate::module_file::{modinfo, modinfos, module};
use crate::{Error, ErrorKind, Result, Subject};

const TRANSPORT_MODULE: &str = "osnode_virtio";

/// Kinds of devices, and the modules that they are driven by. A disk is of little use
/// without a file system.
const KINDS: [(&str, &[&str]); 7] = [
    (TRANSPORT, &["virtio_ring", "virtio"]),
    ("net", &["virtio_net"]),
    ("disk", &["virtio_blk", "ext4"]),
    ("share", &["virtiofs"]),
    ("vsock", &["vmw_vsock_virtio_transport"]),
    ("rng", &["virtio_rng"]),
    ("console", &["virtio_console"]),
];

const ROOT_MODULES: [&str; 5] = ["libnvdimm", "nd_e820", "nd_pmem", "erofs", "overlay"];

/// Refuses a kernel without what a root needs, before that is read, which takes long.
pub(crate) fn has_of_root(release: Option<&str>) -> Result<()> {
    let (kernel, release) = kernel_of(release)?;
    let mut order = Vec::new();
    ROOT_MODULES.iter().try_for_each(|name| kernel.in_order(name, release, &mut order))
}

/// Puts into a node's initramfs what it needs for its root.
pub(crate) fn add_of_root(initramfs: &mut Initramfs, release: Option<&str>) -> Result<()> {
    let (kernel, release) = kernel_of(release)?;
    initramfs.folder(DRIVERS)?;
    add_list(initramfs, (ROOT, &ROOT_MODULES), &kernel, release, &mut BTreeSet::new())
}

fn kernel_of(release: Option<&str>) -> Result<(KernelModules, &str)> {
    let release = release.ok_or_else(|| {
        Error::refused(
            ErrorKind::Invalid,
            Subject::Feature("the kernel's release".into()),
            "the kernel does not say its release, and a root needs its modules",
        )
    })?;
    let kernel = KernelModules::of(release).ok_or_else(|| {
        Error::refused(
            ErrorKind::NotFound,
            Subject::Folder(format!("/lib/modules/{release}").into()),
            format!(
                "a root needs modules of the node's kernel, and there are none in \
             /lib/modules/{release}: install linux-image-{release}, or bring them there"
            ),
        )
    })?;
    Ok((kernel, release))
}

/// Puts into a node's initramfs what it may need, if `osnode-virtio.ko` lies beside the
/// guest module. Kinds whose drivers this kernel does not have are left out.
pub(crate) fn add(
    initramfs: &mut Initramfs,
    guest_module: &Path,
    release: Option<&str>,
) -> Result<()> {
    let Some(ours) = beside(guest_module) else { return Ok(()) };
    let Some(release) = release else { return Ok(()) };
    let Some(kernel) = KernelModules::of(release) else { return Ok(()) };
    add_from(initramfs, &ours, &kernel, release)
}

fn add_from(
    initramfs: &mut Initramfs,
    ours: &Path,
    kernel: &KernelModules,
    release: &str,
) -> Result<()> {
    let (name, bytes) = module(ours, Some(release))?;
    if name != TRANSPORT_MODULE {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::File(ours.to_owned()),
            format!("{}: it is the module {name}", ours.display()),
        ));
    }
    initramfs.folder(DRIVERS)?;
    initramfs.file(&driver(TRANSPORT_MODULE), 0o644, &bytes)?;
    let mut there = BTreeSet::new();
    for (kind, wanted) in KINDS {
        if wanted.iter().all(|name| kernel.has(name)) {
            add_list(initramfs, (kind, wanted), kernel, release, &mut there)?;
        }
    }
    Ok(())
}

/// A list of modules by its name, and those that are not `there` yet.
fn add_list(
    initramfs: &mut Initramfs,
    (kind, wanted): (&str, &[&str]),
    kernel: &KernelModules,
    release: &str,
    there: &mut BTreeSet<String>,
) -> Result<()> {
    let mut order = Vec::new();
    for name in wanted {
        kernel.in_order(name, release, &mut order)?;
    }
    let mut list = String::new();
    for (name, bytes) in order {
        list += &format!("{name}\n");
        if there.insert(name.clone()) {
            initramfs.file(&driver(&name), 0o644, &bytes)?;
        }
    }
    if kind == TRANSPORT {
        list += &format!("{TRANSPORT_MODULE}\n");
    }
    initramfs.file(&format!("{DRIVERS}/{kind}"), 0o644, list.as_bytes())?;
    Ok(())
}

fn beside(guest_module: &Path) -> Option<PathBuf> {
    let name = guest_module.file_name()?.to_str()?.replacen("osnode-guest", "osnode-virtio", 1);
    Some(guest_module.with_file_name(name)).filter(|path| path.exists() && path != guest_module)
}

/// Drivers of a kernel: files by the modules' names, and what is built in.
struct KernelModules {
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl KernelModules {
    fn of(release: &str) -> Option<Self> {
        let places = ["/lib/modules", "/usr/lib/modules"];
        let folder = places.map(|place| Path::new(place).join(release));
        folder.iter().find_map(|folder| Self::read(folder))
    }

    fn read(folder: &Path) -> Option<Self> {
        let mut files = BTreeMap::new();
        collect(&folder.join("kernel"), &mut files);
        let text = fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let builtin: BTreeSet<_> =
            text.lines().filter_map(|line| module_name(Path::new(line))).collect();
        (!files.is_empty()).then_some(KernelModules { files, builtin })
    }

    fn has(&self, name: &str) -> bool {
        self.builtin.contains(name) || self.files.contains_key(name)
    }

    /// This module behind all that it needs, beside what is in `order`.
    fn in_order(
        &self,
        name: &str,
        release: &str,
        order: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<()> {
        if self.builtin.contains(name) || order.iter().any(|(other, _)| other == name) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| {
            Error::refused(ErrorKind::NotFound, Subject::Module(name.to_owned()), format!(
                "kernel {release} has no module {name} in /lib/modules, and another one needs it"
            ))
        })?;
        let (_, bytes) = module(path, Some(release))?;
        let depends = modinfo(&bytes, "depends").unwrap_or_default();
        let softdep = modinfos(&bytes, "softdep").join(" ");
        for needed in loaded_before(&depends, &softdep, |name| self.files.contains_key(name)) {
            self.in_order(&needed, release, order)?;
        }
        order.push((name.to_owned(), bytes));
        Ok(())
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, files);
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ko(name: &str, more: &str) -> Vec<u8> {
        format!("\x7fELF\0name={name}\0vermagic=6.1.0 SMP\0{more}\0").into_bytes()
    }

    #[test]
    fn drivers_come_behind_what_they_need_and_soft_dependencies_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("modules.builtin", b"kernel/drivers/virtio/virtio.ko\n");
        write("kernel/net/virtio_net.ko", &ko("virtio_net", "depends=net_failover,virtio"));
        write("kernel/net/net-failover.ko", &ko("net_failover", "depends=failover"));
        write("kernel/net/failover.ko", &ko("failover", "depends="));
        write("kernel/fs/ext4.ko", &ko("ext4", "depends=jbd2\0softdep=pre: crc32c"));
        write("kernel/fs/jbd2.ko", &ko("jbd2", "depends="));
        write("kernel/crypto/crc32c_generic.ko", &ko("crc32c_generic", "depends="));
        let sums = "depends=jbd2\0softdep=pre: crc32c\0softdep=pre: xxhash64 post: late";
        write("kernel/fs/btrfs.ko", &ko("btrfs", sums));
        write("kernel/lib/xxhash64.ko", &ko("xxhash64", "depends="));
        let kernel = KernelModules::read(folder.path()).unwrap();
        let order = |name: &str| {
            let mut order = Vec::new();
            kernel.in_order(name, "6.1.0", &mut order).unwrap();
            order.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(order("virtio_net"), ["failover", "net_failover", "virtio_net"]);
        assert_eq!(order("ext4"), ["jbd2", "crc32c_generic", "ext4"]);
        assert_eq!(order("btrfs"), ["jbd2", "crc32c_generic", "xxhash64", "btrfs"]);
        assert!(kernel.has("virtio") && !kernel.has("virtiofs"));
        assert!(kernel.in_order("fuse", "6.1.0", &mut Vec::new()).is_err());
    }
}
