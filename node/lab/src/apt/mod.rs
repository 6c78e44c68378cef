//! Debian's packages, downloaded and unpacked into the cache by the machine's
//! own apt, with lists of its own: nothing of the machine's packages changes.

mod sources;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::statvfs;

use crate::arch::Arch;
use crate::cache::{Cache, publish};
use crate::error::{Error, Result};
use crate::talk::Talk;
use crate::tied::{SETPRIV, tied};

/// Space that Debian's lists take at the most while they are read. On a full disk `apt-get update`
/// was seen not to end.
const LISTS_BYTES: u64 = 64 << 20;

/// The packages of one release of Debian.
pub(crate) struct Archive<'a> {
    cache: &'a Cache,
    talk: Talk<'a>,
    /// Its code name, e.g. `bookworm`.
    release: String,
    arch: Arch,
}

/// The release that this machine runs, by os-release(5), if it is Debian's.
pub(crate) fn own_release() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    (field("ID")? == "debian").then(|| field("VERSION_CODENAME"))?
}

impl<'a> Archive<'a> {
    pub(crate) fn new(cache: &'a Cache, talk: Talk<'a>, release: &str) -> Self {
        Archive { cache, talk, release: release.to_owned(), arch: Arch::own() }
    }

    /// Packages for a processor.
    pub(crate) fn of(self, arch: Arch) -> Self {
        Archive { arch, ..self }
    }

    /// Name of what is kept of it.
    fn kept(&self) -> String {
        match self.arch {
            Arch::Amd64 => self.release.clone(),
            Arch::Arm64 => format!("{}-{}", self.release, self.arch.name()),
        }
    }

    /// The folder with a package's files; what the cache has is taken, the
    /// network only asked for what it has not.
    pub(crate) fn unpacked(&self, package: &str) -> Result<PathBuf> {
        if let Some(folder) = self.in_cache(package) {
            return Ok(folder);
        }
        let _alone = self.cache.lock(&format!("{}-{package}", self.kept()))?;
        // Somebody else may have unpacked it while we waited.
        if let Some(folder) = self.in_cache(package) {
            return Ok(folder);
        }
        self.fetch(package)
    }

    /// Fetches the package as new as the archive has it.
    pub(crate) fn renewed(&self, package: &str) -> Result<PathBuf> {
        let _alone = self.cache.lock(&format!("{}-{package}", self.kept()))?;
        self.fetch(package)
    }

    /// Brings one file of a package in this version to `to`, without the rest of it.
    pub(crate) fn one_file(
        &self,
        (package, version): (&str, &str),
        path: &str,
        to: &Path,
    ) -> Result<()> {
        self.refresh()?;
        let work = self.cache.scratch()?;
        self.talk.say(format_args!("downloading {package} of Debian {}", self.release));
        let mut command = self.apt("apt-get");
        command.args(["download", &format!("{package}={version}")]).current_dir(work.path());
        self.finish(&mut command, package)?;
        let deb = debs(work.path())?.pop().ok_or_else(|| self.lacks(package, "nothing came"))?;
        self.talk.say(format_args!("unpacking {path}"));
        let half = work.path().join("half");
        let file = File::create(&half).map_err(Error::file("writing", &half))?;
        take(&deb, path, file).map_err(|reason| self.lacks(package, reason))?;
        let folder = to.parent().expect("it is below the cache");
        fs::create_dir_all(folder).map_err(Error::file("making", folder))?;
        fs::rename(&half, to).map_err(Error::file("writing", to))
    }

    /// The package that a meta-package such as `linux-image-amd64` stands for:
    /// the first one that its dependencies name with this prefix.
    pub(crate) fn stands_for(&self, package: &str, prefix: &str) -> Result<Option<String>> {
        let note = self.folder().join(format!("{package}.depends"));
        let depends = match fs::read_to_string(&note) {
            Ok(text) => text,
            Err(_) => {
                let text = self.depends(package)?;
                let folder = self.folder();
                fs::create_dir_all(&folder).map_err(Error::file("making", folder))?;
                fs::write(&note, &text).map_err(Error::file("writing", &note))?;
                text
            }
        };
        let names = depends.split(',').filter_map(|one| one.split_whitespace().next());
        Ok(names.map(str::to_owned).find(|name| name.starts_with(prefix)))
    }

    /// Forgets what meta-packages stand for, so that the archive is asked anew.
    pub(crate) fn forget(&self, package: &str) {
        let _ = fs::remove_file(self.folder().join(format!("{package}.depends")));
    }

    /// Unpacks these packages and all that they need into one folder that can
    /// be entered with chroot(2); `finish` adds what their scripts would have.
    pub(crate) fn root_with(
        &self,
        name: &str,
        packages: &[&str],
        finish: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let target = self.folder().join(format!("root-{name}"));
        let _alone = self.cache.lock(&format!("{}-root-{name}", self.kept()))?;
        if target.exists() {
            return Ok(target);
        }
        self.refresh()?;
        self.talk.say(format_args!(
            "downloading {} of Debian {}",
            packages.join(" "),
            self.release
        ));
        let work = self.cache.scratch()?;
        let mut command = self.apt("apt-get");
        let archives = format!("Dir::Cache::archives={}", work.path().display());
        command.args(["-o", &archives, "-o", "Debug::NoLocking=true"]);
        command.args(["install", "--download-only", "--yes", "--no-install-recommends"]);
        fs::create_dir(work.path().join("partial"))
            .map_err(Error::file("making", work.path().join("partial")))?;
        self.finish(command.args(packages), &packages.join(" "))?;
        let root = self.cache.scratch()?;
        let mut debs = debs(work.path())?;
        // It has the links /bin, /lib, … that others' files are unpacked through.
        debs.sort_by_key(|deb| !deb.to_string_lossy().contains("/base-files_"));
        for deb in debs {
            unpack(&deb, root.path())?;
        }
        finish(root.path())?;
        publish(root, &target)?;
        Ok(target)
    }

    fn folder(&self) -> PathBuf {
        self.cache.folder().join("packages").join(self.kept())
    }

    /// The newest of a package's versions in the cache.
    fn in_cache(&self, package: &str) -> Option<PathBuf> {
        let entries = fs::read_dir(self.folder()).ok()?.flatten();
        let of_package = entries.filter(|entry| {
            let name = entry.file_name().into_string().unwrap_or_default();
            name.split_once('_').is_some_and(|(name, _)| name == package)
        });
        let newest =
            of_package.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok());
        Some(newest?.path())
    }

    fn fetch(&self, package: &str) -> Result<PathBuf> {
        self.refresh()?;
        let work = self.cache.scratch()?;
        let depends =
            if package.starts_with(IMAGE) { self.depends(package)? } else { String::new() };
        self.talk.say(format_args!("downloading {package} of Debian {}", self.release));
        let mut command = self.apt("apt-get");
        command.arg("download").arg(package).args(parts(package, &depends));
        self.finish(command.current_dir(work.path()), package)?;
        let debs = debs(work.path())?;
        let is_own = |deb: &&PathBuf| {
            let name = deb.file_name().unwrap_or_default().to_string_lossy();
            name.split_once('_').is_some_and(|(name, _)| name == package)
        };
        let own = debs.iter().find(is_own).ok_or_else(|| self.lacks(package, "nothing came"))?;
        let name = own.file_stem().unwrap_or_default().to_string_lossy().replace("%3a", ":");
        let target = self.folder().join(name);
        if !target.exists() {
            let root = self.cache.scratch()?;
            debs.iter().try_for_each(|deb| unpack(deb, root.path()))?;
            publish(root, &target)?;
        }
        Ok(target)
    }

    fn depends(&self, package: &str) -> Result<String> {
        self.refresh()?;
        let mut command = self.apt("apt-cache");
        command.args(["show", "--no-all-versions", package]);
        let shown = self.finish(&mut command, package)?;
        let field = shown.lines().find_map(|line| line.strip_prefix("Depends: "));
        Ok(field.unwrap_or_default().to_owned())
    }

    /// Reads the archive's lists, unless that was done within the hour.
    fn refresh(&self) -> Result<()> {
        let root = self.root();
        let _alone = self.cache.lock(&format!("{}-lists", self.kept()))?;
        let done = root.join("refreshed");
        let age =
            fs::metadata(&done).and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
        if age.is_some_and(|age| age.as_secs() < 3600) {
            return Ok(());
        }
        let apt = Path::new("/etc/apt");
        let own = own_release();
        let from = own.as_deref().unwrap_or(&self.release);
        let sources = sources::for_release(&sources::of_machine(apt), from, &self.release);
        if sources.is_empty() {
            let reason = format!(
                "no source in {0}/sources.list or {0}/sources.list.d serves the suite {from}; \
                 a lab takes Debian's packages from the sources that the machine itself uses",
                apt.display()
            );
            return Err(self.lacks("everything", reason));
        }
        let free = statvfs(self.cache.folder()).map(|disk| disk.f_bavail * disk.f_frsize);
        if let Ok(free) = free
            && free < LISTS_BYTES
        {
            let reason = format!(
                "{} has {free} bytes free, and {LISTS_BYTES} are needed to work with them; \
                 XDG_CACHE_HOME names another folder for the lab's cache",
                self.cache.folder().display()
            );
            return Err(self.lacks("the package lists", reason));
        }
        for folder in ["state/lists/partial", "cache/archives/partial", "sources.list.d"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(Error::file("making", &folder))?;
        }
        let write = |name: &str, text: &str| {
            let file = root.join(name);
            fs::write(&file, text).map_err(Error::file("writing", &file))
        };
        write("status", "")?;
        write("sources.list.d/debian.sources", &sources::written(&sources))?;
        self.talk.say(format_args!("reading the package lists of Debian {}", self.release));
        self.finish(self.apt("apt-get").arg("update"), "the package lists")?;
        write("refreshed", "")
    }

    fn root(&self) -> PathBuf {
        self.cache.folder().join("apt").join(self.kept())
    }

    /// apt with everything that it writes inside the cache; apt.conf(5).
    fn apt(&self, program: &str) -> Command {
        let root = self.root();
        let mut command = tied(program);
        let mut set = |name: &str, value: &dyn std::fmt::Display| {
            command.arg("-o").arg(format!("{name}={value}"));
        };
        set("Dir::State", &root.join("state").display());
        set("Dir::State::status", &root.join("status").display());
        set("Dir::Cache", &root.join("cache").display());
        // Backports stand behind the release's own packages, unless one asks for them.
        if self.release.ends_with("-backports") {
            set("APT::Default-Release", &self.release);
        }
        set("Dir::Etc::SourceList", &"/dev/null");
        set("Dir::Etc::SourceParts", &root.join("sources.list.d").display());
        set("APT::Architecture", &self.arch.name());
        set("APT::Architectures", &self.arch.name());
        set("Acquire::Languages", &"none");
        set("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", &"false");
        set("APT::Update::Error-Mode", &"any");
        // Its own user may not write where we have it write.
        set("APT::Sandbox::User", &"root");
        command.stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
        command
    }

    /// Runs apt to the end and hands back what it printed.
    fn finish(&self, command: &mut Command, package: &str) -> Result<String> {
        let output = command.output().map_err(|error| Error::Program {
            program: SETPRIV.to_owned(),
            reason: format!("{error}; a lab runs apt by it, it is in util-linux"),
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(6).collect();
        let reason = format!(
            "{}; it is looked for in {} and, with the network, in the sources of {}",
            said.join("; "),
            self.folder().display(),
            self.root().join("sources.list.d/debian.sources").display()
        );
        Err(self.lacks(package, reason))
    }

    fn lacks(&self, package: &str, reason: impl ToString) -> Error {
        Error::Package {
            package: package.to_owned(),
            release: self.release.clone(),
            reason: reason.to_string(),
        }
    }
}

const IMAGE: &str = "linux-image-";

/// Packages that a kernel's is divided into, since Linux 7: of the same version by name.
fn parts<'a>(image: &str, depends: &'a str) -> impl Iterator<Item = &'a str> {
    let version = image.strip_prefix(IMAGE).map(str::to_owned);
    let names = depends.split([',', '|']).filter_map(|one| one.split_whitespace().next());
    names.filter(move |name| {
        let part = ["linux-base-", "linux-binary-", "linux-modules-"];
        part.iter().any(|part| name.strip_prefix(part) == version.as_deref() && version.is_some())
    })
}

fn debs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::file("reading", folder))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|e| e == "deb")).collect())
}

/// Writes a file of a package, by its path there, to `to`; why not.
fn take(deb: &Path, path: &str, to: File) -> std::result::Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut all = tied("dpkg-deb");
    all.arg("--fsys-tarfile").arg(deb).stdin(Stdio::null()).stderr(Stdio::null());
    let mut all = all.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let from = all.stdout.take().expect("it is a pipe");
    let mut one = tied("tar");
    // The first of this name is the only one: what follows is not read.
    one.args(["--extract", "--to-stdout", "--occurrence=1", path]).stdin(from).stdout(to);
    let output = one.stderr(Stdio::piped()).output().map_err(failed)?;
    // With our end of the pipe: what is left of the package is nobody's.
    drop(one);
    let _ = all.wait();
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{path}: {}", said.trim()))
}

fn unpack(deb: &Path, target: &Path) -> Result<()> {
    let failed = |reason: String| Error::Program { program: "dpkg-deb".to_owned(), reason };
    let mut command = tied("dpkg-deb");
    command.arg("--extract").arg(deb).arg(target).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    // A full disk is a line for each file.
    let said = String::from_utf8_lossy(&output.stderr);
    let (first, more) = (said.lines().next().unwrap_or_default(), said.lines().skip(1).count());
    let more = if more == 0 { String::new() } else { format!(", and {more} lines more") };
    let status = output.status;
    Err(failed(format!("unpacking {} ended with {status}: {first}{more}", deb.display())))
}
/// A folder with these packages of a Debian release and all that they need, unpacked: for
/// programs that a test runs in a machine and that this one's release does not have.
pub fn debian_root(
    cache: &Cache,
    release: &str,
    packages: &[&str],
    talk: Talk<'_>,
) -> Result<PathBuf> {
    let packages: Vec<_> = ["base-files"].iter().chain(packages).copied().collect();
    let name = packages[1..].join("-");
    Archive::new(cache, talk, release).root_with(&name, &packages, |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_divided_comes_with_its_parts() {
        let depends = "dracut | initramfs-tools (>= 0.120), linux-base-7.3.4-amd64 (= 7.3.4-1), \
                       linux-binary-7.3.4-amd64 (= 7.3.4-1), linux-modules-7.3.4-amd64 (= 7.3.4-1), \
                       linux-base (>= 4.3)";
        let of = |image| parts(image, depends).collect::<Vec<_>>();
        assert_eq!(
            of("linux-image-7.3.4-amd64"),
            ["linux-base-7.3.4-amd64", "linux-binary-7.3.4-amd64", "linux-modules-7.3.4-amd64"]
        );
        assert!(of("linux-image-6.1.0-56-amd64").is_empty() && of("dkms").is_empty());
    }
}
