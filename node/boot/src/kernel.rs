//! A kernel as it is kept: its form, and what a start needs to know of it.

use memchr::memmem;
use serde::{Deserialize, Serialize};

use crate::{BzImage, Error, Result, Vmlinux};

/// A kernel, apart from its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// Form in which its bytes are put into memory.
    pub form: Form,
    /// The setup header; empty for a bare vmlinux.
    pub header: Vec<u8>,
    /// Version that the image names, e.g. `6.1.0-56-amd64 (…) #1 SMP …`.
    pub version: Option<String>,
    /// Longest command line it reads, bytes.
    pub command_line_limit: usize,
    /// True if it may lie above 4 GiB.
    pub above_4g: bool,
}

/// The two ways to start a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Form that distributions ship: it decompresses itself at each start.
    BzImage {
        /// Offset of the protected-mode part in the bytes.
        protected_at: u64,
        /// All bytes of the file.
        file_bytes: u64,
        /// Memory from its load address that it needs at first, bytes.
        init_bytes: u64,
        /// Multiple at which it is to be loaded.
        alignment: u64,
    },
    /// Uncompressed and trimmed: it starts at once.
    Vmlinux(Vmlinux),
}

/// `COMMAND_LINE_SIZE` on x86, with its end.
const COMMAND_LINE_LIMIT: usize = 2047;

/// Beginning of a kernel's own name (`linux_banner`, `linux/init/version-timestamp.c`).
const BANNER: &[u8] = b"Linux version ";
/// No version is longer, bytes.
const LONGEST_VERSION: usize = 512;

/// A vmlinux's version, found in its text as a bzImage has it in its header.
fn banner(bytes: &[u8]) -> Option<String> {
    memmem::find_iter(bytes, BANNER).find_map(|at| {
        let text = &bytes[at + BANNER.len()..];
        let line = &text[..text.len().min(LONGEST_VERSION)];
        let end = line.iter().position(|byte| matches!(byte, b'\n' | 0))?;
        // Elsewhere a format may begin like it.
        let version = str::from_utf8(&line[..end]).ok()?;
        version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
    })
}

impl Kernel {
    /// A bzImage or a vmlinux, taken uncompressed; and the bytes to keep.
    pub fn parse(file: &[u8]) -> Result<(Self, Vec<u8>)> {
        if file.starts_with(b"\x7fELF") {
            let (vmlinux, bytes) = Vmlinux::parse(file)?;
            let kernel = Kernel {
                form: Form::Vmlinux(vmlinux),
                header: Vec::new(),
                version: banner(&bytes),
                command_line_limit: COMMAND_LINE_LIMIT,
                above_4g: true,
            };
            return Ok((kernel, bytes));
        }
        let image = BzImage::parse(file)?;
        let (vmlinux, bytes) = Vmlinux::parse(&image.decompress()?)?;
        Ok((Kernel::around(&image, Form::Vmlinux(vmlinux)), bytes))
    }

    /// A bzImage to be started as it is; its bytes are the file's.
    pub fn compressed(file: &[u8]) -> Result<Self> {
        let image = BzImage::parse(file)?;
        image.payload()?;
        let form = Form::BzImage {
            protected_at: image.protected_at(),
            file_bytes: file.len() as u64,
            init_bytes: image.init_bytes(),
            alignment: image.alignment(),
        };
        Ok(Kernel::around(&image, form))
    }

    fn around(image: &BzImage<'_>, form: Form) -> Self {
        Kernel {
            form,
            header: image.header().to_vec(),
            version: image.version().map(str::to_owned),
            command_line_limit: image.command_line_limit(),
            above_4g: image.above_4g(),
        }
    }

    /// Checks that it can be one that [`parse`](Self::parse) or [`compressed`](Self::compressed)
    /// gave: a kernel that was kept where others write may be something else by now.
    pub fn check(&self) -> Result<()> {
        if !self.header.is_empty() && !BzImage::is_header(&self.header) {
            return Err(Error::Header {
                field: "length",
                value: self.header.len() as u64,
                needs: "no setup header has that",
            });
        }
        match &self.form {
            Form::Vmlinux(vmlinux) => vmlinux.check(),
            Form::BzImage { protected_at, file_bytes, .. } if protected_at > file_bytes => {
                Err(Error::Truncated {
                    what: "the protected-mode part",
                    need: *protected_at,
                    have: *file_bytes,
                })
            }
            Form::BzImage { .. } => Ok(()),
        }
    }

    /// The release that `uname -r` will print, where the image says it.
    pub fn release(&self) -> Option<&str> {
        self.version.as_deref()?.split(' ').next()
    }

    /// Memory from its load address that belongs to it, bytes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.form {
            Form::BzImage { init_bytes, file_bytes, .. } => *init_bytes.max(file_bytes),
            Form::Vmlinux(vmlinux) => vmlinux.span_bytes(),
        }
    }

    /// See [`Vmlinux::checks_bsp_bit`]; `None` where the kernel is compressed.
    pub fn checks_bsp_bit(&self) -> Option<bool> {
        match &self.form {
            Form::BzImage { .. } => None,
            Form::Vmlinux(vmlinux) => Some(vmlinux.checks_bsp_bit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compression;
    use crate::bzimage::tests::bzimage;
    use crate::elf::tests::vmlinux;

    #[test]
    fn a_bzimage_gives_both_forms() {
        let elf = vmlinux(0x100_0000, &[(0x100_0000, b"text", 0x1000)]);
        let file = bzimage(Compression::Xz, &elf);
        let (kernel, bytes) = Kernel::parse(&file).unwrap();
        assert_eq!(bytes, b"text");
        assert_eq!(kernel.release(), Some("6.1.0-test-amd64"));
        assert_eq!(kernel.memory_bytes(), 0x1000);
        let compressed = Kernel::compressed(&file).unwrap();
        assert_eq!(compressed.header, kernel.header);
        assert_eq!(compressed.memory_bytes(), 0x200_0000);
        assert_eq!(compressed.checks_bsp_bit(), None);
    }

    #[test]
    fn a_bare_vmlinux_has_no_header_and_says_no_release() {
        let elf = vmlinux(0x100_0000, &[(0x100_0000, b"text", 0x1000)]);
        let (kernel, bytes) = Kernel::parse(&elf).unwrap();
        assert_eq!((kernel.header.len(), kernel.release(), &bytes[..]), (0, None, &b"text"[..]));
    }

    #[test]
    fn a_vmlinux_says_its_release_in_its_text() {
        let release = |text: &[u8]| {
            let elf = vmlinux(0x100_0000, &[(0x100_0000, text, 0x1000)]);
            Kernel::parse(&elf).unwrap().0.release().map(str::to_owned)
        };
        let banner = b"%s\0Linux version %s\0Linux version 6.1.0-9-amd64 (gcc 12) #1 SMP\n\0more";
        assert_eq!(release(banner).as_deref(), Some("6.1.0-9-amd64"));
        assert_eq!(release(b"Linux version 6.1.0-9"), None, "it has no end");
        assert_eq!(release(b"Linux version \xff\n"), None);
    }

    #[test]
    fn what_no_file_gives_is_no_kernel() {
        let elf = vmlinux(0x100_0000, &[(0x100_0000, b"text", 0x1000)]);
        let file = bzimage(Compression::Zstd, &elf);
        let (good, packed) = (Kernel::parse(&file).unwrap().0, Kernel::compressed(&file).unwrap());
        assert!(good.check().is_ok() && packed.check().is_ok());
        let with = |change: &dyn Fn(&mut Vmlinux)| {
            let mut kernel = good.clone();
            let Form::Vmlinux(vmlinux) = &mut kernel.form else { panic!("it is uncompressed") };
            change(vmlinux);
            kernel.check().unwrap_err().to_string()
        };
        assert!(with(&|vmlinux| vmlinux.segments.clear()).contains("no LOAD"));
        assert!(with(&|vmlinux| vmlinux.entry = 0).contains("entry 0x0"));
        assert!(
            with(&|vmlinux| vmlinux.segments[0].bytes = 0x1001).contains("4097 bytes for 4096")
        );
        let short = Kernel { header: vec![0; 9], ..good };
        assert!(short.check().unwrap_err().to_string().contains("9"));
        let mut cut = packed;
        let Form::BzImage { file_bytes, .. } = &mut cut.form else { panic!("it is compressed") };
        *file_bytes = 1;
        assert!(matches!(cut.check(), Err(Error::Truncated { have: 1, .. })));
    }

    #[test]
    fn what_is_kept_of_a_kernel_survives_json() {
        let elf = vmlinux(0x100_0000, &[(0x100_0000, b"text", 0x1000)]);
        let (kernel, _) = Kernel::parse(&bzimage(Compression::Zstd, &elf)).unwrap();
        let json = serde_json::to_string(&kernel).unwrap();
        assert_eq!(serde_json::from_str::<Kernel>(&json).unwrap(), kernel);
    }
}
