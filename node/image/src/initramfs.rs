//! A node's initramfs: a base, the agent, its module, and the user's overlay.

use std::path::{Path, PathBuf};

use kumiki_boot::{Initramfs, KernelConfig, packing};
use kumiki_node_devices::program;
use kumiki_node_wire::AGENT;
use kumiki_node_wire::brought::{GUEST_MODULE, MODULES, PROGRAM};

use crate::drivers;
use crate::module_file::{modinfo, module, read};
use crate::root::RootOf;
use crate::{Error, ErrorKind, Result, Subject};

/// Folder of programs that somebody wants there: the first that a shell looks in.
const PROGRAMS: &str = "/usr/local/bin";

const BUSYBOX: [&str; 2] = ["/bin/busybox", "/usr/bin/busybox"];

/// Files that go with an image's kernel: mostly what its initramfs is made of.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// An initrd to begin with; else a static busybox of the host.
    pub initrd: Option<PathBuf>,
    /// A cpio archive that is unpacked over everything else.
    pub overlay: Option<PathBuf>,
    /// The configuration that the kernel was built with; looked for if not given.
    pub config: Option<PathBuf>,
    /// `osnode-guest.ko`, built for the node's kernel; looked for if not given.
    pub guest_module: Option<PathBuf>,
    /// Modules of the node's kernel that are loaded after it, in this order.
    pub modules: Vec<PathBuf>,
    /// Programs of this machine that its nodes have in /usr/local/bin, with their libraries.
    pub programs: Vec<PathBuf>,
    /// A container image that is the root of its nodes' programs.
    pub root: Option<RootOf>,
}

impl Base {
    /// The initramfs for a kernel of this release, with the program of its root, if it has one.
    /// Returns it with the memory that its files take once they are unpacked.
    pub fn compose(&self, release: Option<&str>, program: Option<&[u8]>) -> Result<(Vec<u8>, u64)> {
        let mut initramfs = Initramfs::new();
        match &self.initrd {
            Some(path) => archive(&mut initramfs, path)?,
            None => busybox(&mut initramfs)?,
        }
        let agent = program::find(program::AGENT)?;
        initramfs.programs(&kumiki_boot::with_libraries(&agent, Path::new(AGENT))?)?;
        for path in &self.programs {
            let name = path.file_name().ok_or_else(|| {
                Error::refused(
                    ErrorKind::Invalid,
                    Subject::File(path.clone()),
                    format!("{}: it names no program", path.display()),
                )
            })?;
            let place = Path::new(PROGRAMS).join(name);
            initramfs.programs(&kumiki_boot::with_libraries(path, &place)?)?;
        }
        // The first process has no console, and Rust programs want three
        // descriptors before they begin.
        initramfs.device("/dev/null", 0o666, (1, 3))?;
        let path = self.guest_module(release)?;
        initramfs.file(GUEST_MODULE, 0o644, &guest_module(&path, release)?)?;
        for (n, (name, bytes)) in modules(&self.modules, release)?.into_iter().enumerate() {
            initramfs.file(&format!("{MODULES}/{n:03}-{name}.ko"), 0o644, &bytes)?;
        }
        drivers::add(&mut initramfs, &path, release)?;
        if let Some(program) = program {
            drivers::add_of_root(&mut initramfs, release)?;
            initramfs.file(PROGRAM, 0o644, program)?;
        }
        if let Some(overlay) = &self.overlay {
            archive(&mut initramfs, overlay)?;
        }
        let unpacked_bytes = initramfs.unpacked_bytes();
        Ok((initramfs.finish()?, unpacked_bytes))
    }

    /// Refuses a kernel that was built without what a node needs, by the file given
    /// or by one where distributions put it. Returns which one; none if there is none.
    pub fn check_config(
        &self,
        kernel_file: &Path,
        release: Option<&str>,
    ) -> Result<Option<String>> {
        let found = match &self.config {
            Some(path) => Some(path.clone()),
            None => {
                let places = release.map(|release| config_places(kernel_file, release));
                places.into_iter().flatten().find(|path| path.exists())
            }
        };
        let Some(path) = found else { return Ok(None) };
        let place = path.display().to_string();
        self.accept(&of_file(&path)?, kernel_file, &place)?;
        Ok(Some(place))
    }

    /// Checks the configuration that an uncompressed kernel carries within.
    pub fn check_own_config(&self, kernel_file: &Path, kernel: &[u8]) -> Result<Option<String>> {
        let Some(config) = KernelConfig::within(kernel) else { return Ok(None) };
        let place = "the kernel itself";
        self.accept(&config, kernel_file, place)?;
        Ok(Some(place.to_owned()))
    }

    fn accept(&self, config: &KernelConfig, kernel_file: &Path, place: &str) -> Result<()> {
        let refused = |error| {
            Error::refused(
                ErrorKind::Invalid,
                Subject::File(kernel_file.to_owned()),
                format!("{}, by {place}: {error}", kernel_file.display()),
            )
        };
        config.check(None).map_err(refused)?;
        for path in self.initrd.iter().chain(&self.overlay) {
            let packed = packing(&read(path)?).map_err(|error| of(path, &error))?;
            config.check(packed).map_err(refused)?;
        }
        Ok(())
    }

    fn guest_module(&self, release: Option<&str>) -> Result<PathBuf> {
        if let Some(path) = &self.guest_module {
            return Ok(path.clone());
        }
        let folders = release.map(|release| {
            ["updates/dkms", "updates", "extra"]
                .map(|folder| Path::new("/lib/modules").join(release).join(folder))
        });
        // A distribution that compresses its modules has DKMS do so, too.
        let names = ["", ".xz", ".zst", ".gz"].map(|end| format!("osnode-guest.ko{end}"));
        let mut places =
            folders.iter().flatten().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        places.find(|path| path.exists()).ok_or_else(|| {
            Error::refused(
                ErrorKind::NotFound, Subject::Module("osnode-guest".into()),
                format!(
                    "no osnode-guest.ko for kernel {} in /lib/modules: without it a restart of the \
                 node restarts the machine; build node/kernel/osnode for that kernel (DKMS does) or \
                 give the file with --guest-module",
                    release.unwrap_or("(it does not say its release)")
                ),
            )
        })
    }
}

fn archive(initramfs: &mut Initramfs, path: &Path) -> Result<()> {
    initramfs.archive(&read(path)?).map_err(|error| of(path, &error))
}

/// Refusal of a file, by its fault.
fn of(path: &Path, error: &kumiki_boot::Error) -> Error {
    Error::refused(
        ErrorKind::Invalid,
        Subject::File(path.to_owned()),
        format!("{}: {error}", path.display()),
    )
}

fn of_file(path: &Path) -> Result<KernelConfig> {
    let text = String::from_utf8_lossy(&read(path)?).into_owned();
    KernelConfig::parse(&text).map_err(|error| {
        Error::refused(
            ErrorKind::Invalid,
            Subject::File(path.to_owned()),
            format!("{}: {error}", path.display()),
        )
    })
}

/// Paths at which distributions put a kernel's configuration: beside it, or with its modules.
fn config_places(kernel_file: &Path, release: &str) -> Vec<PathBuf> {
    let real = kernel_file.canonicalize().unwrap_or_default();
    let beside = [kernel_file, &real].map(|file| file.parent().unwrap_or(Path::new("")));
    let folders = beside.into_iter().chain([Path::new("/boot")]);
    let mut places: Vec<_> =
        folders.map(|folder| folder.join(format!("config-{release}"))).collect();
    places.push(Path::new("/lib/modules").join(release).join("config"));
    places
}

/// A static busybox with a link for each of its programs.
fn busybox(initramfs: &mut Initramfs) -> Result<()> {
    let path = BUSYBOX.map(Path::new).into_iter().find(|path| path.exists()).ok_or_else(|| {
        Error::refused(
            ErrorKind::NotFound,
            Subject::File("/bin/busybox".into()),
            "no static busybox at /bin/busybox for the node's programs: install busybox-static, \
             or give an initrd with --initrd",
        )
    })?;
    initramfs.busybox(path)?;
    let mut folders = ["/proc", "/sys", "/dev", "/tmp", "/run", "/root", "/etc"].into_iter();
    Ok(folders.try_for_each(|folder| initramfs.folder(folder))?)
}

/// The guest module's file; another one would not do.
fn guest_module(path: &Path, release: Option<&str>) -> Result<Vec<u8>> {
    let (name, bytes) = module(path, release)?;
    if name != "osnode_guest" {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::File(path.to_owned()),
            format!("{}: it is the module {name}: osnode_guest is needed", path.display()),
        ));
    }
    Ok(bytes)
}

/// Modules with their names, each behind those that it needs.
fn modules(paths: &[PathBuf], release: Option<&str>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut modules: Vec<(String, Vec<u8>)> = Vec::new();
    for path in paths {
        let (name, bytes) = module(path, release)?;
        let depends = modinfo(&bytes, "depends").unwrap_or_default();
        let is_there =
            |needed: &str| modules.iter().any(|(name, _)| *name == needed.replace('-', "_"));
        let missing = depends.split(',').find(|needed| !needed.is_empty() && !is_there(needed));
        if let Some(needed) = missing {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::Module(needed.to_owned()),
                format!(
                    "{}: the module {name} needs {needed}: give that one's file before it",
                    path.display()
                ),
            ));
        }
        modules.push((name, bytes));
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_module_is_the_one_needed_and_of_this_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("osnode-guest.ko");
        let is = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            guest_module(&path, Some("6.1.0-9-amd64")).map_err(|error| error.to_string())
        };
        let good = b"\x7fELF\0license=GPL\0name=osnode_guest\0vermagic=6.1.0-9-amd64 SMP\0";
        assert_eq!(is(good).unwrap(), good);
        let other = is(b"\x7fELF\0name=osnode_guest\0vermagic=6.1.0-99-amd64 SMP\0").unwrap_err();
        assert!(other.contains("built for kernel 6.1.0-99-amd64, and this one is"), "{other}");
        let host = is(b"\x7fELF\0name=osnode\0vermagic=6.1.0-9-amd64 SMP\0").unwrap_err();
        assert!(host.contains("the module osnode: osnode_guest is needed"), "{host}");
        assert!(is(b"\x7fELF\0name=").unwrap_err().contains("having no name"));
        assert!(is(b"text").unwrap_err().contains("no kernel module"));
    }

    #[test]
    fn a_module_comes_behind_what_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, depends: &str| {
            let path = folder.path().join(name);
            let text = format!("\x7fELF\0name={name}\0depends={depends}\0vermagic=6.1.0 SMP\0");
            fs::write(&path, text).unwrap();
            path
        };
        let [a, b] = [file("first_one", ""), file("second", "first-one")];
        let names = |paths: &[PathBuf]| {
            let found = modules(paths, Some("6.1.0")).map_err(|error| error.to_string());
            found.map(|found| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[a.clone(), b.clone()]).unwrap(), ["first_one", "second"]);
        assert!(names(&[b, a.clone()]).unwrap_err().contains("second needs first-one"));
        let other = modules(&[a], Some("6.12.0")).unwrap_err().to_string();
        assert!(other.contains("built for kernel 6.1.0, and this one is 6.12.0"), "{other}");
    }

    #[test]
    fn a_file_that_is_no_archive_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("files.tar");
        fs::write(&path, "text").unwrap();
        let error = archive(&mut Initramfs::new(), &path).unwrap_err().to_string();
        assert!(error.contains("files.tar: at byte 0 is neither a cpio archive"), "{error}");
    }

    #[test]
    fn a_missing_guest_module_says_why_it_is_needed() {
        let error = Base::default().guest_module(Some("0.0.0-none")).unwrap_err().to_string();
        assert!(error.contains("0.0.0-none") && error.contains("--guest-module"), "{error}");
    }
}
