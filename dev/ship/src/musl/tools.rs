//! What makes static programs: compiler, sources of Rust's library, linker.
//!
//! Where the compiler that runs us has the target (`rustup target add x86_64-unknown-linux-musl`), it is taken. Where it
//! has not, the standard library is built from source, by the compiler whose packages Debian has for that (`rustc-web`,
//! `rust-web-src`), unpacked into the target folder. zig, whose wheel has musl, compiles what is C, and links, where the
//! compiler has no lld with its target. musl-gcc links programs, too, that cannot unwind.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::arch::Arch;
use crate::debian;
use crate::run::{cargo, program, read, run, target_folder};

/// Packages of the compiler; what they need of its own library and of LLVM is found by their names.
const COMPILER: [&str; 3] = ["rustc-web", "libstd-rust-web-dev", "rust-web-src"];
const NEEDED: [&str; 2] = ["libstd-rust-web", "libllvm"];
const ZIG: &str = "ziglang==0.17.1";

/// Drops what rustc says of libgcc and glibc, and the target, which zig has under another name. The spawn server, which
/// has no C library and a layout of its own, is linked as elsewhere: zig knows no `-z noseparate-code`.
const LINKER: &str = r#"#!/bin/sh
case " $* " in
*" -nostartfiles "*) exec @GCC@ "$@" ;;
esac
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
exec "@ZIG@" cc -target @ARCH@-linux-musl "$@"
"#;

/// Links with the musl that Rust's own target has. lld keeps one of functions that are alike, and writes down addresses
/// to be put in place as a map of bits: zig takes neither wish.
const LLD: &str = r#"#!/bin/sh
case " $* " in
*" -nostdlib "*) exec @GCC@ "$@" ;;
esac
exec @GCC@ "-B@LLD@" -fuse-ld=lld -Wl,--pack-dyn-relocs=relr,--icf=all "$@"
"#;

/// Compiler, standard library's source, and linker, unpacked below the target folder.
pub(super) struct Tools {
    folder: PathBuf,
    arch: Arch,
    /// The compiler that runs us has the target.
    has_target: bool,
    /// Folder of the `ld.lld` beside that compiler, if it has the target, too.
    lld: Option<PathBuf>,
}

impl Tools {
    /// Has them ready for this processor, after fetching what is missing.
    pub(super) fn ready(arch: Arch) -> Result<Self> {
        debian::install("musl")?;
        if arch == Arch::Arm {
            debian::install("aarch64")?;
        }
        let folder = target_folder()?.join("musl");
        let has_target = has_target(arch)?;
        let lld = if has_target { lld()? } else { None };
        let tools = Tools { folder, arch, has_target, lld };
        fs::create_dir_all(&tools.folder)
            .with_context(|| format!("making {}", tools.folder.display()))?;
        if !tools.has_target && !tools.rustc().is_file() {
            tools.unpack()?;
        }
        if !tools.zig().is_file() {
            let mut pip = program("python3", ["-m", "pip", "install", "--quiet", "--target"]);
            run(pip.arg(tools.folder.join("zig")).arg(ZIG))?;
        }
        let zig = tools.zig();
        let zig = zig.to_str().context("the target folder's name is not UTF-8")?;
        let filled = |script: &str| {
            let script = script.replace("@ZIG@", zig).replace("@ARCH@", arch.name());
            script.replace("@GCC@", &arch.binutil("gcc"))
        };
        tools.script(&tools.compiler(), &filled(LINKER))?;
        if let Some(lld) = &tools.lld {
            let lld = lld.to_str().context("the compiler's folder has a name that is not UTF-8")?;
            tools.script(&tools.linker(), &filled(LLD).replace("@LLD@", lld))?;
        }
        tools.script("ar", &format!("#!/bin/sh\nexec \"{zig}\" ar \"$@\"\n"))?;
        Ok(tools)
    }

    pub(super) fn arch(&self) -> Arch {
        self.arch
    }

    /// Script that compiles C, and links where the compiler that runs us has no lld.
    fn compiler(&self) -> String {
        format!("cc-{}", self.arch.name())
    }

    fn linker(&self) -> String {
        if self.links_alike_once() { format!("ld-{}", self.arch.name()) } else { self.compiler() }
    }

    /// True where the linker leaves out what zig does not: programs are smaller.
    pub(super) fn links_alike_once(&self) -> bool {
        self.lld.is_some()
    }

    fn rustc(&self) -> PathBuf {
        self.folder.join("root/usr/bin/rustc")
    }

    fn zig(&self) -> PathBuf {
        self.folder.join("zig/ziglang/zig")
    }

    /// Writes a program of the shell beside them.
    pub(super) fn script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.join(name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&file, mode).with_context(|| format!("{}", file.display()))?;
        Ok(file)
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

    /// Folder of what cargo makes by a profile.
    pub(super) fn built(&self, profile: &str) -> PathBuf {
        self.folder.join("built").join(self.arch.with_musl()).join(profile)
    }

    /// C's compiler for musl.
    pub(super) fn cc(&self) -> Command {
        let mut command = Command::new(self.zig());
        command.args(["cc", "-target", &format!("{}-linux-musl", self.arch.name())]);
        command
    }

    /// The cargo that runs us, for that target, with the compiler that has it or can build its library.
    pub(super) fn cargo(&self, verb: &str, rest: &str) -> Command {
        let std = if self.has_target { "" } else { "-Zbuild-std=std,panic_unwind" };
        let target = self.arch.with_musl();
        let mut command = cargo(&format!("{verb} {std} --target {target} {rest}"));
        if !self.has_target {
            self.compiler_of_debian(&mut command);
        }
        let upper = target.to_uppercase().replace('-', "_");
        let lower = target.replace('-', "_");
        let at = |name: &str| self.folder.join(name);
        let own = if self.links_alike_once() { "yes" } else { "no" };
        let flags =
            format!("-C link-self-contained={own} -C target-feature=+crt-static -C strip=symbols");
        command
            .env("CARGO_TARGET_DIR", at("built"))
            .env("CARGO_INCREMENTAL", "0")
            .env(format!("CARGO_TARGET_{upper}_LINKER"), at(&self.linker()))
            .env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), flags)
            .env(format!("CC_{lower}"), at(&self.compiler()))
            .env(format!("AR_{lower}"), at("ar"));
        command
    }

    fn compiler_of_debian(&self, command: &mut Command) {
        let mut libraries = self.folder.join("root/usr/lib/x86_64-linux-gnu").into_os_string();
        // The cargo of rustup has said where its own compiler's are.
        if let Some(others) = env::var_os("LD_LIBRARY_PATH") {
            libraries.push(":");
            libraries.push(others);
        }
        // What a nightly compiler may.
        command.env("RUSTC", self.rustc()).env("RUSTC_BOOTSTRAP", "1");
        command.env("LD_LIBRARY_PATH", libraries);
    }
}

/// Folder with the `ld.lld` that lies beside the compiler that runs us, as rustup's has it.
fn lld() -> Result<Option<PathBuf>> {
    let library = read(&mut program("rustc", ["--print", "target-libdir"]))?;
    let folder = Path::new(library.trim()).with_file_name("bin").join("gcc-ld");
    Ok(folder.join("ld.lld").is_file().then_some(folder))
}

/// Asks the compiler that runs us for the target's library.
fn has_target(arch: Arch) -> Result<bool> {
    let target = arch.with_musl();
    let library = read(&mut program("rustc", ["--print", "target-libdir", "--target", &target]))?;
    Ok(Path::new(library.trim()).is_dir())
}
