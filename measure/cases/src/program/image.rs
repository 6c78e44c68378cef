//! Static ELF executables with exact sizes.
//!
//! ```text
//!   file 0        headers, code, region   ──> TEXT   R+X
//!   file 1 page   data_bytes of noise     ──> DATA   R+W, then bss_bytes of zeros
//! ```

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use object::elf;
use object::write::elf::{FileHeader, ProgramHeader, Writer};

use super::{ADDRESS_SPACE, Code, PAGE, file};
use kumiki_measure::error::{Error, Result};

/// Address of the headers and the code, where linkers put static programs.
const TEXT: u64 = 0x40_0000;
/// Address of the data: far from the code, so that the text segment and its
/// page table are the same for every size.
const DATA: u64 = 0x1000_0000;

/// The processor, as a file's header names it.
const MACHINE: elf::Machine =
    if cfg!(target_arch = "x86_64") { elf::EM_X86_64 } else { elf::EM_AARCH64 };

/// The most text that has room before the data.
const TEXT_MOST: u64 = DATA - TEXT - 2 * PAGE;

/// The beginning of a file.
struct Head {
    bytes: Vec<u8>,
    /// Length of the text segment with the noise behind it.
    text_bytes: u64,
}

/// Parts of a program file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// Its code.
    pub(crate) code: Code,
    /// Text in the file, if that is more than the code: behind it is noise that never runs.
    pub(crate) text_bytes: u64,
    /// Initialised data, present in the file.
    pub(crate) data_bytes: u64,
    /// Zero-filled memory behind the data.
    pub(crate) bss_bytes: u64,
}

impl Image {
    /// One with nothing but its code.
    pub(crate) const fn of(code: Code) -> Self {
        Image { code, text_bytes: 0, data_bytes: 0, bss_bytes: 0 }
    }

    /// Makes the file `name` in the folder `programs` of `scratch`, unless it is
    /// there already: it stays for later visits.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the sizes exceed the address space, or the text its place; those of
    /// [`file::make`].
    pub(crate) fn file(&self, scratch: &Path, name: &str) -> Result<PathBuf> {
        let size = self.data_bytes.checked_add(self.bss_bytes);
        if size.is_none_or(|size| size > ADDRESS_SPACE) {
            return Err(Error::Invalid(format!(
                "data_bytes {} and bss_bytes {} are together more than the {ADDRESS_SPACE} bytes \
                 of address space that a program can have: choose smaller sizes",
                self.data_bytes, self.bss_bytes
            )));
        }
        if self.text_bytes > TEXT_MOST {
            return Err(Error::Invalid(format!(
                "text_bytes {}: a program of these has room for {TEXT_MOST} bytes of text before \
                 its data; choose less",
                self.text_bytes
            )));
        }
        let bytes = self.data_bytes + self.text_bytes + 2 * PAGE;
        file::make(scratch, name, bytes, |file| self.write(file))
    }

    fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        let Head { bytes, text_bytes } = self.head().map_err(io::Error::other)?;
        file.write_all(&bytes)?;
        write_noise(file, text_bytes - bytes.len() as u64)?;
        if self.data_bytes > 0 {
            let gap = text_bytes.next_multiple_of(PAGE) - text_bytes;
            file.write_all(&vec![0; gap as usize])?;
            write_noise(file, self.data_bytes)?;
        }
        Ok(())
    }

    /// Headers, code and region: the text segment, but for the noise at its end.
    fn head(&self) -> object::write::Result<Head> {
        let size = self.data_bytes + self.bss_bytes;
        let segments = if size > 0 { 3 } else { 2 };
        let mut code = self.code.bytes().to_vec();
        if self.code.wants_region() {
            // Where there is neither data nor bss, what can be touched is the text.
            let region = if size > 0 { [DATA, size] } else { [TEXT, self.text_bytes] };
            code.extend(region.iter().flat_map(|v| v.to_le_bytes()));
        }

        let mut bytes = Vec::new();
        let mut elf = Writer::new(object::Endianness::Little, true, &mut bytes);
        elf.reserve_file_header();
        elf.reserve_program_headers(segments);
        let code_offset = elf.reserve(code.len() as u64, 16);
        let text_bytes = elf.reserved_len().max(code_offset + self.text_bytes);

        elf.write_file_header(&FileHeader {
            os_abi: elf::ELFOSABI_NONE,
            abi_version: 0,
            e_type: elf::ET_EXEC,
            e_machine: MACHINE,
            e_entry: TEXT + code_offset + self.code.entry(),
            e_flags: elf::FileFlags(0),
        })?;
        elf.write_align_program_headers();
        let load = |flags, offset, address, file_bytes, memory_bytes| ProgramHeader {
            p_type: elf::PT_LOAD,
            p_flags: elf::PF_R | flags,
            p_offset: offset,
            p_vaddr: address,
            p_paddr: address,
            p_filesz: file_bytes,
            p_memsz: memory_bytes,
            p_align: PAGE,
        };
        elf.write_program_header(&load(elf::PF_X, 0, TEXT, text_bytes, text_bytes));
        if size > 0 {
            let offset = text_bytes.next_multiple_of(PAGE);
            elf.write_program_header(&load(elf::PF_W, offset, DATA, self.data_bytes, size));
        }
        // Without it the kernel makes stack and data executable.
        elf.write_program_header(&ProgramHeader {
            p_type: elf::PT_GNU_STACK,
            p_flags: elf::PF_R | elf::PF_W,
            p_offset: 0,
            p_vaddr: 0,
            p_paddr: 0,
            p_filesz: 0,
            p_memsz: 0,
            p_align: 16,
        });
        elf.write_align(16);
        elf.write(&code);
        Ok(Head { bytes, text_bytes })
    }
}

/// Bytes that are neither zero pages nor compressible, so that a file system
/// stores what a real program's data would take.
fn write_noise(to: &mut dyn Write, bytes: u64) -> io::Result<()> {
    let mut noise = vec![0; 1 << 20];
    fastrand::Rng::with_seed(1991).fill(&mut noise);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(noise.len() as u64);
        to.write_all(&noise[..part as usize])?;
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};

    use super::*;
    use crate::program::start;

    fn image(code: Code, data_bytes: u64, bss_bytes: u64) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let image = Image { data_bytes, bss_bytes, ..Image::of(code) };
        let path = image.file(folder.path(), "program").unwrap();
        (folder, path)
    }

    /// `(flags, offset, address, bytes in the file, bytes in memory)` of each
    /// segment to load.
    fn loads(bytes: &[u8]) -> Vec<(u32, u64, u64, u64, u64)> {
        let file = ElfFile64::<object::LittleEndian>::parse(bytes).unwrap();
        let e = object::LittleEndian;
        file.elf_program_headers()
            .iter()
            .filter(|p| p.p_type(e) == elf::PT_LOAD)
            .map(|p| {
                let flags = p.p_flags(e).0;
                (flags, p.p_offset(e), p.p_vaddr(e), p.p_filesz(e), p.p_memsz(e))
            })
            .collect()
    }

    #[test]
    fn segments_have_the_asked_sizes() {
        let rw = (elf::PF_R | elf::PF_W).0;
        for (data, bss) in [(0, 4096), (65536, 0), (1 << 20, 3 << 20), (5000, 7)] {
            let (_folder, path) = image(Code::Fork, data, bss);
            let bytes = std::fs::read(path).unwrap();
            let loads = loads(&bytes);
            assert_eq!(loads.len(), 2);
            assert_eq!(loads[0].0, (elf::PF_R | elf::PF_X).0);
            assert_eq!(loads[1], (rw, PAGE, DATA, data, data + bss));
            if data > 0 {
                assert_eq!(bytes.len() as u64, PAGE + data, "the data ends the file");
                let data = &bytes[PAGE as usize..];
                assert!(data.chunks(PAGE as usize).all(|page| page.iter().any(|b| *b != 0)));
            }
        }
    }

    #[test]
    fn a_program_without_data_has_no_data_segment() {
        let (_folder, path) = image(Code::Exit, 0, 0);
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(loads(&bytes).len(), 1);
        assert!(bytes.len() < 350, "{} bytes", bytes.len());
        let header = elf::FileHeader64::<object::LittleEndian>::parse(&*bytes).unwrap();
        let entry = header.e_entry(object::LittleEndian) - TEXT;
        assert_eq!(&bytes[entry as usize..], Code::Exit.bytes());
    }

    #[test]
    fn a_program_of_a_text_s_size_has_it_and_ends_at_once() {
        for text in [1000, 1 << 20] {
            let folder = tempfile::tempdir().unwrap();
            let image = Image { code: Code::Exit, text_bytes: text, data_bytes: 220, bss_bytes: 8 };
            let path = image.file(folder.path(), "program").unwrap();
            let bytes = std::fs::read(&path).unwrap();
            let loads = loads(&bytes);
            let header = loads[0].3 - text;
            assert!(header < 256, "{header} bytes of headers");
            assert_eq!((loads[1].3, loads[1].4), (220, 228));
            assert_eq!(bytes.len() as u64, loads[1].1 + 220, "the data ends the file");
            assert!(start(&mut Command::new(&path)).unwrap().wait().unwrap().success());
        }
        let image = Image { text_bytes: 1 << 30, ..Image::of(Code::Exit) };
        let error = image.file(std::path::Path::new("/tmp"), "large").unwrap_err().to_string();
        assert!(error.contains("text_bytes 1073741824"), "{error}");
    }

    #[test]
    fn data_is_stored_not_a_hole() {
        use std::os::unix::fs::MetadataExt;
        let (_folder, path) = image(Code::Exit, 1 << 20, 1 << 30);
        assert!(std::fs::metadata(path).unwrap().blocks() * 512 >= 1 << 20);
    }

    #[test]
    fn every_size_runs() {
        for (data, bss) in [(0, 0), (1, 0), (0, 1), (4095, 4097), (1 << 20, 1 << 30)] {
            let (_folder, path) = image(Code::Exit, data, bss);
            let mut child = start(&mut Command::new(&path)).unwrap();
            assert!(child.wait().unwrap().success(), "data {data} bss {bss}");
        }
    }

    #[test]
    fn sizes_beyond_the_machine_are_refused_before_writing() {
        let folder = tempfile::tempdir().unwrap();
        for (data, bss) in [(u64::MAX, 1), (1 << 46, 1), (0, 1 << 47)] {
            let image = Image { data_bytes: data, bss_bytes: bss, ..Image::of(Code::Exit) };
            let error = image.file(folder.path(), "large").unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains(&data.to_string()), "{error}");
        }
        let image = Image { data_bytes: 1 << 45, ..Image::of(Code::Exit) };
        let error = image.file(folder.path(), "large").unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let image = Image::of(Code::Exit);
        let error = image.file(Path::new("/nonexistent-folder"), "x").unwrap_err();
        assert!(error.to_string().contains("/nonexistent-folder"), "{error}");
    }
}
