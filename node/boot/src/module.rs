//! Kernel modules: the name of the one that a file has, and which are loaded before it.

use std::path::Path;

/// Name of the module in a file, packed or not: `virtio-rng.ko.xz` has `virtio_rng`.
pub fn module_name(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let (stem, packed) = name.split_once(".ko")?;
    (packed.is_empty() || packed.starts_with('.')).then(|| stem.replace('-', "_"))
}

/// Modules that are loaded before one, by what its `.modinfo` says (kernel/module/main.c, kmod's
/// `modules.softdep`).
///
/// Those of `depends` (`ring-a,pci`) are needed. Those that `softdep` has before it
/// (`pre: crc32c post: later`) are wanted as far as `is_there` knows them: some name an algorithm,
/// whose plain form is a module such as `crc32c_generic`.
pub fn loaded_before(depends: &str, softdep: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let needed =
        depends.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_"));
    let mut names: Vec<String> = needed.collect();
    let mut before = false;
    for word in softdep.split_whitespace() {
        match word {
            "pre:" => before = true,
            "post:" => before = false,
            name if before => {
                let name = name.trim_start_matches("crypto-").replace('-', "_");
                let plain = format!("{name}_generic");
                names.extend([name, plain].into_iter().find(|name| is_there(name)));
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_name_has_the_module_s() {
        let name = |file: &str| module_name(Path::new(file));
        for file in ["a/virtio-rng.ko", "virtio-rng.ko.xz", "virtio_rng.ko.zst"] {
            assert_eq!(name(file).as_deref(), Some("virtio_rng"), "{file}");
        }
        assert_eq!(name("modules.kobold"), None);
        assert_eq!(name("modules.builtin"), None);
    }

    #[test]
    fn what_a_module_needs_and_wants_before_it_is_read() {
        let there = ["crc32c_generic", "sha1_x", "xxhash64"];
        let before = |depends: &str, softdep: &str| {
            loaded_before(depends, softdep, |name| there.contains(&name))
        };
        assert_eq!(before("ring-a,pci", ""), ["ring_a", "pci"]);
        let softdep = "pre: crc32c crypto-sha1-x none-such post: later pre: xxhash64";
        assert_eq!(before("a", softdep), ["a", "crc32c_generic", "sha1_x", "xxhash64"]);
        assert!(before("", "post: xxhash64").is_empty());
    }
}
