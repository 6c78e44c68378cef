//! The package for Python on musl: its library of musl, loaded as Python's ctypes loads it by a program in C on
//! Debian's own musl, which for another processor runs in the emulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::{install, size, wheel};
use super::tools::Tools;
use crate::arch::Arch;
use crate::arm::{self, EMULATOR};
use crate::capi;
use crate::debian;
use crate::run::{program, read, root, run};

/// musl of zig's wheel is a 1.2.
fn platform(arch: Arch) -> String {
    format!("musllinux_1_2_{}", arch.name())
}

/// Makes it.
pub(super) fn wheel(tools: &Tools, folder: &Path) -> Result<PathBuf> {
    debian::install("dist")?;
    let profile = install::PROFILE;
    let words =
        format!("--package kumiki-capi --lib --crate-type staticlib --profile {profile} --locked");
    run(&mut tools.cargo("rustc", &words))?;
    let made = tempfile::tempdir().context("a folder for the library of musl")?;
    let library = made.path().join("libkumiki.so");
    // No program of musl was linked with the names of before.
    capi::link_shared(&mut tools.cc(), &tools.built(profile).join("libkumiki_c.a"), &library)?;
    run(program(&tools.arch().binutil("strip"), ["--strip-unneeded"]).arg(&library))?;
    size::at_most(&library, size::LIBRARY)?;
    let needs = read(program("readelf", ["--dynamic"]).arg(&library))?;
    let others = needs.lines().filter(|line| line.contains("(NEEDED)") && !line.contains("[libc."));
    let others: Vec<_> = others.collect();
    ensure!(others.is_empty(), "the library of musl needs more than musl: {}", others.join(", "));
    tried(tools, &library, made.path())?;
    let platform = platform(tools.arch());
    let file = wheel::packed(&library, &platform, folder)?;
    size::at_most(&file, size::WHEEL)?;
    wheel::taken_for(&file, &platform)?;
    Ok(file)
}

/// Runs a program in C that loads it, in the loader of Debian's musl.
fn tried(tools: &Tools, library: &Path, folder: &Path) -> Result<()> {
    fs::write(folder.join("user.c"), USER).context("writing a program in C")?;
    let user = folder.join("user");
    let mut cc = tools.cc();
    // Without -O zig adds checks, which call what Debian's musl has not got.
    cc.args(["-O1", "-dynamic", "-I"]).arg(root().join("lib/capi/include"));
    run(cc.arg(folder.join("user.c")).arg("-o").arg(&user))?;
    run(loader(tools.arch())?.arg(&user).arg(library))
}

/// Loader of Debian's musl, which runs a program.
fn loader(arch: Arch) -> Result<Command> {
    let name = format!("lib/ld-musl-{}.so.1", arch.name());
    let (root, mut command) = match arch {
        Arch::X86 => (PathBuf::from("/"), Command::new(format!("/{name}"))),
        Arch::Arm => {
            let root = arm::debian_of_it()?;
            let mut command = program(EMULATOR, ["-L"]);
            command.arg(&root).arg(root.join(&name));
            (root, command)
        }
    };
    let loader = root.join(name);
    ensure!(loader.exists(), "Debian's package musl has no {}", loader.display());
    command.env_remove("LD_LIBRARY_PATH");
    Ok(command)
}

/// Loads the library after the program's start, where musl refuses one that asks for memory of threads which it has made
/// already. 2,000 names, ten times, for which threads are started; a child by the server, but in the emulator, which
/// could not start it.
const USER: &str = r#"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kumiki/files.h>
#include <kumiki/spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define N 2000

static int child_by_the_server(void *library)
{
    int (*start)(void) = dlsym(library, "kumiki_spawn_start_server");
    int (*spawnp)(pid_t *, const char *, const kumiki_spawn_file_actions_t *, const kumiki_spawnattr_t *, char *const[],
                  char *const[]) = dlsym(library, "kumiki_spawnp");
    char *argv[] = { "true", NULL }, *envp[] = { NULL };
    pid_t child;
    int status;
    if (!start || !spawnp || start() != 0 || spawnp(&child, "true", NULL, NULL, argv, envp) != 0)
        return 0;
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    static char names[N * 9];
    static int errors[N];
    int (*stat_many)(int, const char *, size_t, size_t, int, struct kumiki_files_stat *, int *);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    char *end = names;
    int failed = -1;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (int n = 0; n < N; n++)
        end = stpcpy(end, n % 2 ? "/" : "/nowhere") + 1;
    stat_many = dlsym(library, "kumiki_files_stat");
    for (int round = 0; stat_many && round < 10; round++) {
        failed = stat_many(AT_FDCWD, names, end - names, N, 0, NULL, errors);
        for (int n = 0; failed == N / 2 && n < N; n++)
            if (errors[n] != (n % 2 ? 0 : ENOENT))
                failed = -1;
    }
    if (failed != N / 2) {
        fprintf(stderr, "of %d names %d failed\n", N, failed);
        return 2;
    }
#ifdef __x86_64__
    if (!child_by_the_server(library)) {
        fprintf(stderr, "no child by the server\n");
        return 3;
    }
#else
    (void)child_by_the_server;
#endif
    return 0;
}
"#;
