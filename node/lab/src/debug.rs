//! A kernel that looks for its own faults (KASAN or KCSAN, lockdep, objects in use), built once
//! from Debian's source into the cache.
//!
//! The build stays where it was begun, so one that was interrupted goes on where it
//! stopped. What modules are built against stays as well; it is their headers.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use crate::apt::Archive;
use crate::cache::Cache;
use crate::chroot;
use crate::error::{Error, Result};
use crate::talk::Talk;

/// Beginning of the names of packages of kernels' sources.
pub(crate) const SOURCE: &str = "linux-source-";

/// Options of each; all others are off.
const OPTIONS: &str = include_str!("debug.config");
/// Options of a kernel that looks at memory; of a name without a `/`.
const KASAN: &str = include_str!("debug-kasan.config");
/// Options of a kernel that looks for races, which excludes the former.
const KCSAN: &str = include_str!("debug-kcsan.config");
/// Packages that a kernel's build needs beside those of a module's.
const PACKAGES: [&str; 10] = [
    "bc",
    "bison",
    "flex",
    "gcc",
    "gzip",
    "libc6-dev",
    "libelf-dev",
    "tar",
    "xz-utils",
    "zlib1g-dev",
];

/// Script in the root, for the package of the source: unpacks, and chooses the options.
const PREPARE: &str = r#"
mkdir -p /boot /usr/src/debug && cd /usr/src
if [ -e "$0.tar.xz" ]; then
    tar --extract --file "$0.tar.xz" --directory debug --strip-components 1 \
        --exclude '*/drivers/gpu/drm/amd/include/asic_reg'
    rm "$0.tar.xz"
fi
cd debug
make KCONFIG_ALLCONFIG=/usr/src/debug.config allnoconfig > /dev/null
# An option that depends on another one is dropped in silence.
grep '^CONFIG' ../debug.config | grep -vxFf .config && exit 1
exit 0"#;
/// Builds it, as far as that has not been done before.
const BUILD: &str = r#"
cd /usr/src/debug
export KBUILD_BUILD_USER=kumiki KBUILD_BUILD_HOST=lab
exec nice -n 19 make -j "$(nproc)" bzImage modules > ../debug.log 2>&1"#;
/// Puts it where a package has its parts, and removes what no module needs to be built; last
/// comes what says that it is there.
const FINISH: &str = r#"
cd /usr/src/debug
version=$(make -s kernelrelease)
mkdir -p "/usr/lib/modules/$version/kernel"
cp modules.builtin "/usr/lib/modules/$version/"
cp .config "/boot/config-$version"
ln -sfn debug "/usr/src/linux-headers-$version"
cp arch/x86/boot/bzImage /boot/half
find . -type f \( -name '*.[acoS]' -o -name '.*.cmd' -o -name 'vmlinux' -o -name '.tmp_*' \) \
    ! -path './scripts/*' ! -path './tools/*' -delete
mv /boot/half "/boot/vmlinuz-$version""#;

/// The package of the source and the options of a kernel of this name: `PACKAGE`, or
/// `PACKAGE/kcsan`.
fn source_and_options(name: &str) -> (&str, String) {
    match name.split_once('/') {
        None => (name, [OPTIONS, KASAN].concat()),
        Some((package, _)) => (package, [OPTIONS, KCSAN].concat()),
    }
}

/// The folder with the kernel, as a package of it would have.
pub(crate) fn built(
    archive: &Archive<'_>,
    cache: &Cache,
    name: &str,
    talk: Talk<'_>,
) -> Result<PathBuf> {
    let (package, wanted) = source_and_options(name);
    let mut hash = DefaultHasher::new();
    (&wanted, PACKAGES).hash(&mut hash);
    let name = format!("{package}-{:08x}", hash.finish() as u32);
    let packages: Vec<&str> = [package].into_iter().chain(PACKAGES).collect();
    let root = chroot::with(archive, &name, &packages)?;
    let _alone = cache.lock(&format!("debug-{name}"))?;
    let boot = fs::read_dir(root.join("boot")).into_iter().flatten().flatten();
    if boot.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-")) {
        return Ok(root);
    }
    let options = root.join("usr/src/debug.config");
    fs::write(&options, wanted).map_err(Error::file("writing", &options))?;
    let step = |script: &str, doing: &str| {
        let mut command = chroot::entering(&root);
        command.args(["bash", "-ec", script, package]);
        chroot::said(command, doing)
    };
    talk.say(format_args!("unpacking {package}"));
    step(PREPARE, "configuring a kernel, of whose options these do not hold,")?;
    talk.say(format_args!(
        "building a kernel that looks for its own faults: half an hour or more, once; one that is \
         interrupted goes on next time"
    ));
    let log = root.join("usr/src/debug.log");
    step(BUILD, &format!("building a kernel, see {},", log.display()))?;
    step(FINISH, "installing a kernel")?;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_is_asked_for_twice_nor_left_open() {
        let source = "linux-source-6.12";
        for (name, looks) in [(source, "KASAN"), ("linux-source-6.12/kcsan", "KCSAN")] {
            let (package, options) = source_and_options(name);
            assert_eq!(package, source);
            let mut seen = std::collections::BTreeSet::new();
            let lines = options.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            for line in lines {
                let (name, value) = line.split_once('=').unwrap();
                assert!(name.starts_with("CONFIG_") && !value.is_empty(), "{line}");
                assert!(seen.insert(name), "{line}");
            }
            // The last is what uncompressing a kernel asks of it.
            let needed = [looks, "PROVE_LOCKING", "KALLSYMS_ALL", "RELOCATABLE"];
            for option in needed.map(|name| format!("CONFIG_{name}")) {
                assert!(seen.contains(&*option), "{option}");
            }
            assert!(!(seen.contains("CONFIG_KASAN") && seen.contains("CONFIG_KCSAN")));
        }
    }
}
