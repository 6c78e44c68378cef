//! What a kernel was built with, and whether that is enough for a node.
//!
//! `CONFIG_IKCONFIG=y` puts the configuration into the kernel itself, gzipped
//! between two marks (`linux/kernel/configs.c`); distributions mostly put it into a file
//! beside the kernel instead.

use std::collections::BTreeMap;

use crate::{Compression, Error, Lack, Result};

const BEGIN: &[u8] = b"IKCFG_ST";

/// Options without which no node starts, with their reasons.
const NEEDED: [(&str, &str); 14] = [
    ("X86_64", "the start is written for that processor"),
    ("SMP", "cpus have numbers and interrupts of their own"),
    ("X86_LOCAL_APIC", "interrupts and doorbells"),
    ("ACPI", "the node's tables keep it off the host's interrupt controllers"),
    ("RELOCATABLE", "the kernel lies where the node's memory is"),
    ("BLK_DEV_INITRD", "the node's files are an initramfs"),
    ("BINFMT_ELF", "the agent is an ELF program"),
    ("PROC_FS", "the agent mounts /proc"),
    ("SYSFS", "the agent mounts /sys"),
    ("DEVTMPFS", "the agent finds the module's device in /dev"),
    ("PRINTK", "the kernel's log goes to the host"),
    ("MODULES", "osnode-guest.ko is loaded"),
    ("KPROBES", "osnode-guest.ko keeps a restart from the machine"),
    ("KALLSYMS", "osnode-guest.ko finds what it probes by name"),
];

/// Options that keep a node from starting.
const HARMFUL: [(&str, &str); 5] = [
    ("MODULE_SIG_FORCE", "osnode-guest.ko carries no signature of that kernel's maker"),
    ("LOCK_DOWN_KERNEL_FORCE_INTEGRITY", "it refuses osnode-guest.ko, which is not signed"),
    ("LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY", "it refuses osnode-guest.ko, which is not signed"),
    ("CMDLINE_OVERRIDE", "it does not read the node's command line"),
    ("INITRAMFS_FORCE", "it does not read the node's initramfs"),
];

/// A kernel's configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct KernelConfig {
    /// Options without `CONFIG_`; one that is not set is not there.
    options: BTreeMap<String, String>,
}

impl KernelConfig {
    /// A file such as `/boot/config-RELEASE`.
    pub fn parse(text: &str) -> Result<Self> {
        let option = |line: &str| {
            let (name, value) = line.trim().strip_prefix("CONFIG_")?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let options: BTreeMap<_, _> = text.lines().filter_map(option).collect();
        if options.is_empty() {
            return Err(Error::NotAConfig);
        }
        Ok(KernelConfig { options })
    }

    /// The one that an uncompressed kernel carries within, if it does.
    pub fn within(kernel: &[u8]) -> Option<Self> {
        let begin = memchr::memmem::find_iter(kernel, BEGIN);
        // The mark may stand elsewhere, too, as in a tool that looks for it.
        begin.map(|at| &kernel[at + BEGIN.len()..]).find_map(|packed| {
            let compression = Compression::of(packed).ok()?;
            let text = compression.decompress(packed).ok()?;
            Self::parse(&String::from_utf8(text).ok()?).ok()
        })
    }

    /// Refuses a kernel that no node can be started with; `initrd` is how one is
    /// compressed that it has to unpack.
    pub fn check(&self, initrd: Option<Compression>) -> Result<()> {
        let lacks = self.lacks(initrd);
        if lacks.is_empty() { Ok(()) } else { Err(Error::Config(lacks)) }
    }

    fn lacks(&self, initrd: Option<Compression>) -> Vec<Lack> {
        let is_set = |option: &str| self.options.get(option).is_some_and(|value| value == "y");
        let unpacks = initrd.and_then(unpacking).map(|option| (option, "the initrd is packed so"));
        let needed = NEEDED.iter().copied().chain(unpacks).filter(|(option, _)| !is_set(option));
        let harmful = HARMFUL.iter().copied().filter(|(option, _)| is_set(option));
        let lack = |set| move |(option, reason)| Lack { option, set, reason };
        needed.map(lack(true)).chain(harmful.map(lack(false))).collect()
    }
}

/// The option by which a kernel unpacks an initrd.
fn unpacking(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::Gzip => Some("RD_GZIP"),
        Compression::Bzip2 => Some("RD_BZIP2"),
        Compression::Lzma => Some("RD_LZMA"),
        Compression::Xz => Some("RD_XZ"),
        Compression::Lzo => Some("RD_LZO"),
        Compression::Lz4 => Some("RD_LZ4"),
        Compression::Zstd => Some("RD_ZSTD"),
        Compression::None => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decompress::tests::compress;

    fn good() -> String {
        let set = NEEDED.map(|(option, _)| format!("CONFIG_{option}=y\n"));
        let unset = HARMFUL.map(|(option, _)| format!("# CONFIG_{option} is not set\n"));
        format!("#\n# Linux/x86\n#\nCONFIG_HZ=250\n{}{}", set.concat(), unset.concat())
    }

    fn check(text: &str, initrd: Option<Compression>) -> Result<()> {
        KernelConfig::parse(text).unwrap().check(initrd)
    }

    #[test]
    fn each_option_is_missed_by_name_and_with_the_reason() {
        check(&good(), None).unwrap();
        for (option, reason) in NEEDED {
            let says = format!("without CONFIG_{option} ({reason})");
            for value in ["m", "n"] {
                let line = format!("CONFIG_{option}=");
                let text = good().replace(&format!("{line}y"), &format!("{line}{value}"));
                let error = check(&text, None).unwrap_err().to_string();
                assert!(error.contains(&says), "{error}");
            }
        }
        for (option, reason) in HARMFUL {
            let text = good() + &format!("CONFIG_{option}=y\n");
            let error = check(&text, None).unwrap_err().to_string();
            assert!(error.contains(&format!("with CONFIG_{option} ({reason})")), "{error}");
        }
        let error = check(&good(), Some(Compression::Zstd)).unwrap_err().to_string();
        assert!(error.contains("without CONFIG_RD_ZSTD"), "{error}");
        check(&(good() + "CONFIG_RD_ZSTD=y\n"), Some(Compression::Zstd)).unwrap();
        assert!(matches!(KernelConfig::parse("text\n"), Err(Error::NotAConfig)));
    }

    #[test]
    fn a_kernel_may_carry_its_configuration() {
        let packed = compress(Compression::Gzip, good().as_bytes());
        let kernel = [b"code IKCFG_ST no IKCFG_ST", packed.as_slice(), b"IKCFG_ED code"].concat();
        assert_eq!(KernelConfig::within(&kernel).unwrap(), KernelConfig::parse(&good()).unwrap());
        assert_eq!(KernelConfig::within(b"code"), None);
        assert_eq!(KernelConfig::within(&kernel[..40]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..200usize) {
            let mut bytes = bytes;
            let at = at.min(bytes.len());
            bytes.splice(at..at, BEGIN.iter().copied());
            let _ = KernelConfig::within(&bytes);
        }
    }
}
