//! `cargo xtask dist --musl`: the programs as files that need nothing of the machine but its kernel.
//!
//! No target of Rust for musl is installed: its standard library is built from source, by the compiler whose
//! packages Debian has for that (`rustc-web`, `rust-web-src`), unpacked into the target folder; zig, whose
//! wheel has musl, links and compiles what is C. musl-gcc links programs, too, that cannot unwind.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use super::install::{self, PROFILE, PROGRAMS, place_of};
use super::size;
use crate::debian;
use crate::run::{cargo, program, read, root, run, target_folder};

const TARGET: &str = "x86_64-unknown-linux-musl";
/// Packages of the compiler; what they need of its own library and of LLVM is found by their names.
const COMPILER: [&str; 3] = ["rustc-web", "libstd-rust-web-dev", "rust-web-src"];
const NEEDED: [&str; 2] = ["libstd-rust-web", "libllvm"];
const ZIG: &str = "ziglang==0.17.1";

/// Drops what rustc says of libgcc and glibc, and the target, which zig has under another name.
const LINKER: &str = r#"#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
    word=$1
    shift
    n=$((n - 1))
    case "$word" in
    -m64 | -lgcc | -lgcc_eh | -lc | -Wl,--as-needed | --target=*) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec "@ZIG@" cc -target x86_64-linux-musl "$@"
"#;

/// Makes the tarball below `target/dist-files`, and tries it in a root that has nothing else.
pub(crate) fn dist() -> Result<ExitCode> {
    debian::install(debian::MUSL)?;
    let tools = Tools::ready()?;
    for (package, name, features) in PROGRAMS {
        let mut build = tools
            .cargo(&format!("build --package {package} --bin {name} --profile {PROFILE} --locked"));
        if !features.is_empty() {
            build.args(["--features", features]);
        }
        run(&mut build)?;
    }
    let name = format!("kumiki-{}-x86_64-linux-musl", install::version()?);
    let folder = target_folder()?.join("dist-files");
    let tree = folder.join(&name);
    let _ = fs::remove_dir_all(&tree);
    let built = tools.folder.join("built").join(TARGET).join(PROFILE);
    for (_, name, _) in PROGRAMS {
        let to = tree.join(place_of(name));
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::copy(built.join(name), &to).with_context(|| format!("copying {name}"))?;
        size::is_alone(&to)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(licence), tree.join(licence)).context("copying a licence")?;
    }
    size::at_most(&tree.join("bin/kumiki"), size::KUMIKI_STATIC)?;
    size::at_most(&tree.join(place_of(install::AGENT)), size::AGENT)?;
    tried(&tree)?;
    let tarball = folder.join(format!("{name}.tar.gz"));
    let mut tar = program("tar", ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--use-compress-program=gzip -9n", "-cf"]);
    run(tar.arg(&tarball).arg("-C").arg(&folder).arg(&name))?;
    println!("made {}", tarball.display());
    Ok(ExitCode::SUCCESS)
}

/// Runs the programs in a root with nothing but them, what the kernel shows, and a folder to write to.
fn tried(tree: &Path) -> Result<()> {
    const ENTER: &str = r#"
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/proc" "$1/sys" "$1/dev" "$1/tmp" "$1/kumiki"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /dev "$1/dev"
cp -r "$2/." "$1/kumiki"
root=$1
shift 2
in_root() { chroot "$root" /kumiki/bin/"$@"; }
in_root kumiki --version
in_root kumiki doctor >"$root/tmp/doctor"
[ -s "$root/tmp/doctor" ]
in_root kumiki ab --for 2s -- /kumiki/bin/kumiki --version --- /kumiki/bin/kumiki --version
in_root kumiki report --quick --output /tmp/report.html
[ -s "$root/tmp/report.html" ]
in_root kumiki-du -s /kumiki
in_root kumiki-httpd --version
in_root kumiki-kv --version
"#;
    let folder = tempfile::tempdir().context("a folder for a root with nothing in it")?;
    let words = ["--mount", "--pid", "--fork", "--kill-child", "--propagation=private"];
    let mut there = program("unshare", words);
    there.args(["sh", "-c", ENTER, "enter"]).arg(folder.path()).arg(tree);
    run(there.env("HOME", "/tmp").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
}

/// Compiler, standard library's source, and linker, unpacked below the target folder.
pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    pub(crate) fn ready() -> Result<Self> {
        let folder = target_folder()?.join("musl");
        let tools = Tools { folder };
        fs::create_dir_all(&tools.folder)
            .with_context(|| format!("making {}", tools.folder.display()))?;
        if !tools.rustc().is_file() {
            tools.unpack()?;
        }
        if !tools.zig().is_file() {
            let mut pip = program("python3", ["-m", "pip", "install", "--quiet", "--target"]);
            run(pip.arg(tools.folder.join("zig")).arg(ZIG))?;
        }
        let zig = tools.zig();
        let zig = zig.to_str().context("the target folder's name is not UTF-8")?;
        tools.script("cc", &LINKER.replace("@ZIG@", zig))?;
        tools.script("ar", &format!("#!/bin/sh\nexec \"{zig}\" ar \"$@\"\n"))?;
        Ok(tools)
    }

    fn rustc(&self) -> PathBuf {
        self.folder.join("root/usr/bin/rustc")
    }

    fn zig(&self) -> PathBuf {
        self.folder.join("zig/ziglang/zig")
    }

    fn script(&self, name: &str, text: &str) -> Result<()> {
        let file = self.folder.join(name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&file, mode).with_context(|| format!("{}", file.display()))
    }

    /// Downloads the packages and unpacks them: nothing of the system changes.
    fn unpack(&self) -> Result<()> {
        let depends = ["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-enhances"];
        let all = read(program("apt-cache", depends).args(COMPILER))?;
        let is_needed = |line: &&str| NEEDED.iter().any(|begin| line.starts_with(begin));
        let mut packages: Vec<_> = all.lines().filter(is_needed).chain(COMPILER).collect();
        packages.sort_unstable();
        packages.dedup();
        let debs = self.folder.join("debs");
        fs::create_dir_all(&debs).with_context(|| format!("making {}", debs.display()))?;
        run(program("apt-get", ["download"]).args(&packages).current_dir(&debs))?;
        for deb in crate::capi::files_in(&debs)? {
            run(program("dpkg-deb", ["--extract"]).arg(&deb).arg(self.folder.join("root")))?;
        }
        ensure!(self.rustc().is_file(), "{packages:?} have no {}", self.rustc().display());
        fs::remove_dir_all(&debs).context("removing the packages")
    }

    /// The cargo that runs us, with that compiler, for that target.
    pub(crate) fn cargo(&self, words: &str) -> Command {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let mut command =
            cargo(&format!("{verb} -Zbuild-std=std,panic_unwind --target {TARGET} {rest}"));
        let upper = TARGET.to_uppercase().replace('-', "_");
        let lower = TARGET.replace('-', "_");
        let at = |name: &str| self.folder.join(name);
        let mut libraries = at("root/usr/lib/x86_64-linux-gnu").into_os_string();
        // The cargo of rustup has said where its own compiler's are.
        if let Some(others) = env::var_os("LD_LIBRARY_PATH") {
            libraries.push(":");
            libraries.push(others);
        }
        command
            .env("RUSTC", self.rustc())
            // What a nightly compiler may.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("LD_LIBRARY_PATH", libraries)
            .env("CARGO_TARGET_DIR", at("built"))
            .env("CARGO_INCREMENTAL", "0")
            .env(format!("CARGO_TARGET_{upper}_LINKER"), at("cc"))
            .env(
                format!("CARGO_TARGET_{upper}_RUSTFLAGS"),
                "-C link-self-contained=no -C target-feature=+crt-static -C strip=symbols",
            )
            .env(format!("CC_{lower}"), at("cc"))
            .env(format!("AR_{lower}"), at("ar"));
        command
    }
}
