//! Stock kernels by name.

use std::fs;
use std::path::{Path, PathBuf};

use kumiki_boot::BzImage;

use crate::apt::{Archive, own_release};
use crate::arch::Arch;
use crate::cache::Cache;
use crate::debug;
use crate::error::{Error, Result};
use crate::modules::Modules;
use crate::talk::Talk;

/// Kernels with a short name: whose they are, and the package that always
/// depends on the newest of them.
const KNOWN: [(&str, &str, &str); 11] = [
    ("6.1", "bookworm", "linux-image-amd64"),
    ("6.1-cloud", "bookworm", "linux-image-cloud-amd64"),
    ("6.1-rt", "bookworm", "linux-image-rt-amd64"),
    ("6.12", "trixie", "linux-image-amd64"),
    ("6.12-cloud", "trixie", "linux-image-cloud-amd64"),
    ("6.12-rt", "trixie", "linux-image-rt-amd64"),
    // The newest that is made for a release.
    ("backports", "trixie-backports", "linux-image-amd64"),
    // Not those of a package, but built of it: they look for their own faults.
    ("6.1-debug", "bookworm", "linux-source-6.1"),
    ("6.12-debug", "trixie", "linux-source-6.12"),
    ("6.1-kcsan", "bookworm", "linux-source-6.1/kcsan"),
    ("6.12-kcsan", "trixie", "linux-source-6.12/kcsan"),
];

/// A kernel as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelName {
    release: String,
    package: String,
}

/// A stock kernel in the cache.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its version, as `uname -r` prints it.
    pub version: String,
    /// The bzImage as the package has it; arm64's Image.
    pub bzimage: PathBuf,
    /// The kernel uncompressed, an ELF file; arm64's Image, which is neither.
    pub vmlinux: PathBuf,
    /// Configuration with which it was built.
    pub config: PathBuf,
    pub(crate) name: KernelName,
    pub(crate) folder: PathBuf,
}

impl Default for KernelName {
    /// The stock kernel of this machine's Debian; elsewhere of Debian 13.
    fn default() -> Self {
        let own = own_release();
        let of_own = KNOWN.iter().find(|(_, release, _)| own.as_deref() == Some(release));
        let (_, release, package) = of_own.unwrap_or(&KNOWN[3]);
        KernelName::known(release, package)
    }
}

impl std::str::FromStr for KernelName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some((_, release, package)) = KNOWN.iter().find(|(short, ..)| *short == name) {
            return Ok(KernelName::known(release, package));
        }
        let unknown = || Error::UnknownKernel {
            name: name.to_owned(),
            known: KNOWN.map(|(short, ..)| short).join(", "),
        };
        let plain = |word: &str| {
            word.starts_with(|first: char| first.is_ascii_alphanumeric())
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        };
        let (release, package) = match name.split_once('/') {
            Some((release, package)) => (release.to_owned(), package),
            None => (own_release().ok_or_else(unknown)?, name),
        };
        if !package.starts_with("linux-image-") || !plain(package) || !plain(&release) {
            return Err(unknown());
        }
        Ok(KernelName { release, package: package.to_owned() })
    }
}

impl std::fmt::Display for KernelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = KNOWN.iter().find(|(_, r, p)| *r == self.release && *p == self.package);
        match short {
            Some((short, ..)) => f.write_str(short),
            None => write!(f, "{}/{}", self.release, self.package),
        }
    }
}

impl KernelName {
    /// Name of [`KNOWN`], for this machine's processor.
    fn known(release: &str, package: &str) -> Self {
        KernelName { release: release.to_owned(), package: package.to_owned() }.on(Arch::own())
    }

    /// Changes the processor of the kernel. Those that are built here are amd64's.
    #[must_use]
    pub fn on(self, arch: Arch) -> Self {
        let bare = [Arch::Amd64, Arch::Arm64]
            .iter()
            .find_map(|other| self.package.strip_suffix(other.name()));
        match bare {
            Some(bare) => KernelName { package: format!("{bare}{}", arch.name()), ..self },
            None => self,
        }
    }

    /// The processor that it is for.
    pub fn arch(&self) -> Arch {
        let arm = self.package.split('-').any(|word| word == Arch::Arm64.name());
        if arm { Arch::Arm64 } else { Arch::Amd64 }
    }

    fn archive<'a>(&self, cache: &'a Cache, talk: Talk<'a>) -> Archive<'a> {
        Archive::new(cache, talk, &self.release).of(self.arch())
    }

    /// The kernel itself, downloaded if the cache has it not.
    pub fn get(&self, cache: &Cache, talk: Talk<'_>) -> Result<Kernel> {
        let archive = self.archive(cache, talk);
        if self.is_built_here() {
            let folder = debug::built(&archive, cache, &self.package, talk)?;
            return self.kernel_in(&folder, cache, talk);
        }
        let package = self.concrete(&archive)?;
        self.kernel_in(&archive.unpacked(&package)?, cache, talk)
    }

    /// Fetches the kernel as new as the archive has it.
    pub fn renew(&self, cache: &Cache, talk: Talk<'_>) -> Result<Kernel> {
        if self.is_built_here() {
            return self.get(cache, talk);
        }
        let archive = self.archive(cache, talk);
        archive.forget(&self.package);
        let package = self.concrete(&archive)?;
        self.kernel_in(&archive.renewed(&package)?, cache, talk)
    }

    /// True if no package has it.
    pub(crate) fn is_built_here(&self) -> bool {
        self.package.starts_with(debug::SOURCE)
    }

    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    fn concrete(&self, archive: &Archive<'_>) -> Result<String> {
        // linux-image-6.1.0-56-amd64 is one itself, linux-image-amd64 is not.
        let rest = self.package.trim_start_matches("linux-image-");
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(self.package.clone());
        }
        let image = archive.stands_for(&self.package, "linux-image-")?;
        Ok(image.unwrap_or_else(|| self.package.clone()))
    }

    fn kernel_in(&self, folder: &Path, cache: &Cache, talk: Talk<'_>) -> Result<Kernel> {
        let (version, bzimage, config) = files_in(folder).ok_or_else(|| {
            Error::malformed(
                folder.display(),
                "the package has neither /boot/vmlinuz-VERSION nor \
                 /usr/lib/modules/VERSION/vmlinuz",
            )
        })?;
        let package = folder.file_name().unwrap_or_default();
        let name = Path::new("vmlinux").join(package);
        let uncompressed = || {
            cache.file(&name, || {
                talk.say(format_args!("uncompressing the kernel {version}"));
                let bytes = fs::read(&bzimage).map_err(Error::file("reading", &bzimage))?;
                // QEMU starts an ELF file with a PVH note directly: emulated, the kernel's
                // own decompressor takes longer than all else up to user space.
                let kernel = BzImage::parse(&bytes).and_then(|image| image.decompress());
                kernel.map_err(|why| Error::malformed(bzimage.display(), why))
            })
        };
        let vmlinux = match self.arch() {
            Arch::Amd64 => uncompressed()?,
            // QEMU starts it as it is.
            Arch::Arm64 => bzimage.clone(),
        };
        Ok(Kernel {
            config,
            folder: folder.to_owned(),
            name: self.clone(),
            bzimage,
            vmlinux,
            version,
        })
    }
}

/// A kernel's version, itself and its configuration, in a package's files: below /boot, or since
/// Linux 7 beside its modules.
fn files_in(folder: &Path) -> Option<(String, PathBuf, PathBuf)> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let boot = folder.join("boot");
    let named = names(&boot).into_iter();
    if let Some(version) =
        named.filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_owned())).next()
    {
        let file = |name: &str| boot.join(format!("{name}-{version}"));
        return Some((version.clone(), file("vmlinuz"), file("config")));
    }
    let modules = folder.join("usr/lib/modules");
    let version =
        names(&modules).into_iter().find(|name| modules.join(name).join("vmlinuz").exists())?;
    let own = modules.join(&version);
    Some((version, own.join("vmlinuz"), own.join("config")))
}

impl Kernel {
    /// The file that QEMU starts. One with KASAN calls it at its PVH entry, before there is any
    /// shadow memory: it is started as a boot loader does.
    pub(crate) fn started(&self) -> &Path {
        if self.name.is_built_here() { &self.bzimage } else { &self.vmlinux }
    }

    /// Times that it may take longer to start than one as a package has it: one that looks at each
    /// access to memory was still finding its devices after three minutes, on a busy machine.
    pub(crate) fn slowness(&self) -> u32 {
        if self.name.is_built_here() { 6 } else { 1 }
    }

    /// Files of these modules of its package, and of all that they need, with their places
    /// in a machine, for [`Config::files`](crate::Config::files). What this kernel has built
    /// in, or not at all, is left out.
    pub fn driver_files(&self, names: &[&str]) -> Result<Vec<(PathBuf, PathBuf)>> {
        self.modules()?.files(names)
    }

    /// Finds the same uncompressed with all its symbols, for `crash` and other debuggers: of a package
    /// of almost a gigabyte, downloaded if the cache has it not.
    pub fn symbols(&self, cache: &Cache, talk: Talk<'_>) -> Result<PathBuf> {
        let package = self.folder.file_name().unwrap_or_default().to_string_lossy();
        let malformed = || Error::malformed(&package, "it is no package's name and version");
        let (name, rest) = package.split_once('_').ok_or_else(malformed)?;
        let (version, _) = rest.rsplit_once('_').ok_or_else(malformed)?;
        let place = cache.folder().join("symbols").join(&*package);
        let _alone = cache.lock(&format!("symbols-{package}"))?;
        if !place.exists() {
            let path = format!("./usr/lib/debug/boot/vmlinux-{}", self.version);
            let archive = self.name.archive(cache, talk);
            archive.one_file((&format!("{name}-dbg"), version), &path, &place)?;
        }
        Ok(place)
    }

    /// The modules of its package.
    pub(crate) fn modules(&self) -> Result<Modules> {
        let usr = self.folder.join("usr/lib/modules").join(&self.version);
        let folder =
            if usr.exists() { usr } else { self.folder.join("lib/modules").join(&self.version) };
        Modules::read(&self.version, &folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_found_below_boot_or_beside_its_modules() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        assert_eq!(files_in(at), None);
        let own = at.join("usr/lib/modules/7.3.4-amd64");
        fs::create_dir_all(&own).unwrap();
        assert_eq!(files_in(at), None);
        fs::write(own.join("vmlinuz"), "").unwrap();
        let found = files_in(at).unwrap();
        assert_eq!(found, ("7.3.4-amd64".into(), own.join("vmlinuz"), own.join("config")));
        let boot = at.join("boot");
        fs::create_dir_all(&boot).unwrap();
        fs::write(boot.join("vmlinuz-6.1"), "").unwrap();
        assert_eq!(files_in(at).unwrap().2, boot.join("config-6.1"));
    }

    #[test]
    fn a_kernel_has_the_name_of_its_processor() {
        let name: KernelName = "6.12-cloud".parse().unwrap();
        let (amd64, arm64) = (name.clone().on(Arch::Amd64), name.on(Arch::Arm64));
        assert_eq!((&*arm64.package, arm64.arch()), ("linux-image-cloud-arm64", Arch::Arm64));
        assert_eq!((&*amd64.package, amd64.arch()), ("linux-image-cloud-amd64", Arch::Amd64));
        assert_eq!(arm64.to_string().parse::<KernelName>().unwrap(), arm64);
        let built: KernelName = "6.1-debug".parse().unwrap();
        assert_eq!(built.clone().on(Arch::Arm64), built);
    }

    #[test]
    fn short_names_and_packages_name_kernels() {
        let cloud: KernelName = "6.12-cloud".parse().unwrap();
        assert_eq!((&*cloud.release, &*cloud.package), ("trixie", "linux-image-cloud-amd64"));
        assert_eq!(cloud.to_string(), "6.12-cloud");
        let debug: KernelName = "6.12-debug".parse().unwrap();
        assert!(debug.is_built_here() && !cloud.is_built_here());
        assert_eq!(debug.to_string(), "6.12-debug");
        let one: KernelName = "sid/linux-image-7.0.1-amd64".parse().unwrap();
        assert_eq!(one.to_string(), "sid/linux-image-7.0.1-amd64");
        for bad in
            ["5.10", "", "/", "trixie/", "trixie/bash", "../linux-image-x", "a b/linux-image-x"]
        {
            let error = bad.parse::<KernelName>().unwrap_err().to_string();
            assert!(error.contains("6.12-cloud"), "{bad}: {error}");
        }
    }
}
