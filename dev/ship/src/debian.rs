//! Debian packages that chores need, installed when they are missing.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run::{program, run, succeeds};

/// A package and what would be missing without it.
#[derive(Debug)]
pub struct Package {
    /// Or several, of which each release has one: `a | b`.
    pub name: &'static str,
    pub reason: &'static str,
}

/// What the tests of places on other machines need, those of programs that serve, and those of
/// container images.
pub const WORKSPACE: &[Package] = &[
    Package { name: "erofs-utils", reason: "container images are made file systems by it" },
    Package { name: "gcc", reason: "a client of kumiki-kv in C, with" },
    Package { name: "git", reason: "a script that compares two commits is tried on some" },
    Package { name: "libarchive-tools", reason: "bsdtar's archives are read as tar reads them" },
    Package { name: "libhiredis-dev", reason: "Redis' own library for clients" },
    Package { name: "libredis-perl", reason: "a client of kumiki-kv in Perl" },
    Package { name: "nats-server", reason: "places of other machines are behind it" },
    Package { name: "openssl", reason: "certificates for a NATS server that asks for a client's" },
    Package { name: "php-cli", reason: "a client of kumiki-kv in PHP, with" },
    Package { name: "php-redis", reason: "what its sessions and caches use" },
    Package { name: "pkg-config", reason: "finds libhiredis-dev" },
    Package { name: "python3", reason: "makes archives of all forms for the tests of images" },
    Package { name: "python3-redis", reason: "a client of kumiki-kv in Python" },
    Package {
        name: "redis-tools",
        reason: "redis-cli and redis-benchmark try kumiki-kv, and redis itself, which is its \
                 redis-check-rdb by another name, says what answers must be",
    },
    Package { name: "rsync", reason: "it copies the same with calls asked ahead and without" },
    Package { name: "ruby-redis", reason: "a client of kumiki-kv in Ruby" },
    Package { name: "strace", reason: "a program whose calls are asked ahead runs in it" },
    Package { name: "xz-utils", reason: "packs archives for the tests of images" },
    Package { name: "zstd", reason: "the same" },
];

/// More of them, for the long tests of programs that serve.
pub const CLIENTS: &[Package] = &[
    Package { name: "default-jdk-headless", reason: "clients of kumiki-kv in Java, fetched by" },
    Package { name: "maven", reason: "this" },
    Package { name: "dpkg-dev", reason: "unpacks the source of redis, whose own tests hold" },
    Package { name: "golang-go", reason: "clients of kumiki-kv in Go" },
    // Where Node.js is not Debian's, it brings npm along.
    Package { name: "npm | nodejs", reason: "clients of kumiki-kv in JavaScript" },
    Package { name: "python3-venv", reason: "the newest clients of kumiki-kv in Python" },
    Package { name: "tcl", reason: "redis' own tests are written in it" },
];

/// What the tests of the report's page need.
pub const PAGE: &[Package] = &[
    Package { name: "chromium", reason: "the report's page is tested in a real browser" },
    Package { name: "fonts-liberation", reason: "glyphs for the pages that the browser draws" },
];

/// What the tests of the interface for C need.
pub const CAPI: &[Package] = &[
    Package { name: "cmake", reason: "a program finds libkumiki by it" },
    Package { name: "g++", reason: "the headers are for C++, too" },
    Package { name: "gcc", reason: "the interface for C is tested by programs in C" },
    Package { name: "git", reason: "it tells what an installation leaves in a clone" },
    Package { name: "libc6-dev", reason: "the C library's headers, for the same" },
    Package { name: "librocksdb-dev", reason: "the file system for RocksDB is built against it" },
    Package { name: "make", reason: "builds that" },
    Package { name: "pkg-config", reason: "these programs find libkumiki by it" },
    Package { name: "python3", reason: "the package for Python is tested in it" },
    Package { name: "python3-numexpr", reason: "its threads are known to that package" },
    Package { name: "python3-numpy", reason: "that package gives arrays of it" },
    Package { name: "python3-pip", reason: "that package is installed by it" },
    Package { name: "python3-pytest", reason: "that package has a plugin for it" },
    Package { name: "python3-setuptools", reason: "that package is built by it" },
    Package { name: "python3-wheel", reason: "the same" },
    Package {
        name: "libpython3.11-testsuite | libpython3.13-testsuite",
        reason: "CPython's own tests of subprocess hold for the package for Python",
    },
    Package { name: "rocksdb-tools", reason: "db_bench and ldb run on that file system" },
    Package { name: "valgrind", reason: "a program with libkumiki runs in it" },
];

/// What the suites of other projects need, and those suites.
pub const PEERS: &[Package] = &[
    Package { name: "gcc", reason: "glibc's and gnulib's tests are programs in C" },
    Package { name: "glibc-source", reason: "glibc's own tests of posix_spawn" },
    Package { name: "gnulib", reason: "gnulib's tests of posix_spawn" },
    Package { name: "libc6-dev", reason: "the C library's headers, for both" },
    Package {
        name: "libpython3.11-testsuite | libpython3.13-testsuite",
        reason: "CPython's own tests of subprocess, asyncio and multiprocessing",
    },
    Package { name: "python3", reason: "they run in it" },
    Package { name: "util-linux", reason: "tests run as another user by its setpriv" },
    Package { name: "xz-utils", reason: "unpacks glibc's source" },
];

/// Packages that the long tests need beside those: PyTorch, as Debian builds it, has no part for graphics processors.
pub const LONG: &[Package] = &[Package {
    name: "python3-torch",
    reason: "its loader of data starts processes by the package for Python",
}];

/// Packages that the suites of programs that walk trees need; their sources are fetched by the tests.
pub const AHEAD_SUITES: &[Package] = &[
    Package { name: "dpkg-dev", reason: "unpacks the sources of rsync, tar, coreutils and git" },
    Package { name: "gcc", reason: "builds them, with" },
    Package { name: "libc6-dev", reason: "the C library's headers, and" },
    Package { name: "make", reason: "this" },
    Package { name: "perl", reason: "coreutils' and git's tests are run by it, too" },
    Package { name: "zlib1g-dev", reason: "git is built with it" },
];

/// Packages for installing what is shipped.
pub const INSTALL: &[Package] = &[
    Package { name: "binutils", reason: "its strip and objdump" },
    Package { name: "help2man", reason: "makes the manual page of kumiki-du" },
];

/// More of them, for the tarball and the wheel.
pub const DIST: &[Package] = &[
    Package { name: "pkg-config", reason: "a tarball's libkumiki is found by it" },
    Package { name: "python3", reason: "the package for Python" },
    Package { name: "python3-pip", reason: "that package's wheel is made by it" },
    Package { name: "python3-setuptools", reason: "the same" },
    Package { name: "python3-venv", reason: "the wheel is tried in an environment of its own" },
    Package { name: "python3-wheel", reason: "the same as setuptools" },
];

/// Packages that make programs of musl, beside what is downloaded and unpacked.
pub const MUSL: &[Package] = &[
    Package { name: "binutils", reason: "its readelf says whether a program is alone" },
    Package { name: "gcc", reason: "links what runs while the programs are built" },
    Package { name: "busybox-static", reason: "the shell of a root that has no glibc" },
    Package { name: "musl", reason: "its loader runs a program with libkumiki of musl" },
    Package { name: "python3-pip", reason: "fetches zig's wheel" },
];

/// More of them, for Debian's packages.
pub const DEB: &[Package] = &[
    Package { name: "debhelper", reason: "debian/rules is made of it" },
    Package { name: "dh-dkms", reason: "the modules' sources go through it" },
    Package { name: "dh-python", reason: "the package for Python goes through it" },
    Package { name: "dpkg-dev", reason: "its dpkg-buildpackage" },
    Package { name: "lintian", reason: "judges the packages" },
];

/// The same for tests in machines of their own. Kernels, headers and compilers
/// for them are not installed: a lab unpacks those into its cache.
pub const LAB: &[Package] = &[
    Package { name: "crash", reason: "finds its way in what a node kept of a host that died" },
    Package { name: "dpkg", reason: "unpacks the packages of a lab's kernels" },
    Package { name: "makedumpfile", reason: "reads what a node kept of a host that died" },
    Package { name: "qemu-system-x86", reason: "a lab is a machine of it" },
    Package { name: "util-linux", reason: "a lab's QEMU ends with the lab by its setpriv" },
];

/// The same for those that run the tests for aarch64.
pub const AARCH64: &[Package] = &[
    Package { name: "gcc-aarch64-linux-gnu", reason: "links the tests for aarch64" },
    Package { name: "libc6-dev-arm64-cross", reason: "the C library that they are linked with" },
    Package { name: "qemu-user-static", reason: "runs them" },
];

impl Package {
    fn alternatives(&self) -> impl Iterator<Item = &'static str> {
        self.name.split(" | ")
    }

    /// The one that this release has, as far as the index knows.
    fn here(&self) -> &'static str {
        let is_known = |name: &&str| succeeds(&mut program("apt-cache", ["show", name]));
        self.alternatives()
            .find(is_known)
            .or_else(|| self.alternatives().next())
            .unwrap_or_default()
    }
}

/// Installs what is missing: as root, or through a `sudo` that asks nothing.
/// Elsewhere than on Debian it says what it would have installed.
pub fn install(packages: &[Package]) -> Result<()> {
    if !succeeds(&mut program("dpkg-query", ["--version"])) {
        eprintln!("not a Debian system; these need to be installed:");
        packages.iter().for_each(|p| eprintln!("  {}: {}", p.name, p.reason));
        return Ok(());
    }
    let missing: Vec<_> =
        packages.iter().filter(|package| !package.alternatives().any(installed)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    for Package { name, reason } in &missing {
        eprintln!("installing {name}: {reason}");
    }
    let names = || missing.iter().map(|package| package.here()).collect::<Vec<_>>();
    let before = names();
    let apt = Apt::find(&before)?;
    let known = before.iter().all(|name| succeeds(&mut program("apt-cache", ["show", name])));
    if known && apt.install(&before).is_ok() {
        return Ok(());
    }
    // The index is absent, or so old that the archive has dropped its files.
    apt.update()?;
    apt.install(&names())
}

fn installed(package: &str) -> bool {
    let mut query = program("dpkg-query", ["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

/// How this user may run `apt-get`.
struct Apt {
    sudo: bool,
}

impl Apt {
    fn find(names: &[&str]) -> Result<Self> {
        if rustix::process::geteuid().is_root() {
            return Ok(Apt { sudo: false });
        }
        if succeeds(&mut program("sudo", ["--non-interactive", "true"])) {
            return Ok(Apt { sudo: true });
        }
        bail!(
            "Debian packages are needed that are not installed, and neither root nor a sudo \
             without a password is at hand; run: sudo {}",
            install_line(names).join(" ")
        )
    }

    fn update(&self) -> Result<()> {
        run(&mut self.command(&["apt-get", "update"]))
    }

    fn install(&self, names: &[&str]) -> Result<()> {
        run(&mut self.command(&install_line(names)))
    }

    fn command(&self, line: &[&str]) -> Command {
        let prefix: &[&str] = if self.sudo { &["sudo", "--non-interactive"] } else { &[] };
        // Through `env`, because sudo passes no variables on.
        let quiet = ["env", "DEBIAN_FRONTEND=noninteractive"];
        let words: Vec<_> = prefix.iter().chain(&quiet).chain(line).copied().collect();
        program(words[0], words[1..].iter().copied())
    }
}

fn install_line<'a>(names: &[&'a str]) -> Vec<&'a str> {
    // A fresh machine may be upgrading itself: wait for its lock, seconds.
    let wait = ["--option", "DPkg::Lock::Timeout=300"];
    let words = ["apt-get", "install", "--yes", "--no-install-recommends"];
    words.into_iter().chain(wait).chain(names.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::text;

    #[test]
    fn a_user_with_sudo_passes_the_frontend_through_it() {
        let line = text(&Apt { sudo: true }.command(&install_line(&["chromium"])));
        assert_eq!(
            line,
            "sudo --non-interactive env DEBIAN_FRONTEND=noninteractive \
             apt-get install --yes --no-install-recommends --option DPkg::Lock::Timeout=300 chromium"
        );
    }

    #[test]
    fn root_needs_no_sudo() {
        let line = text(&Apt { sudo: false }.command(&["apt-get", "update"]));
        assert_eq!(line, "env DEBIAN_FRONTEND=noninteractive apt-get update");
    }

    #[test]
    fn a_package_that_does_not_exist_is_not_installed() {
        assert!(!installed("no-such-package-in-any-archive"));
    }
}
