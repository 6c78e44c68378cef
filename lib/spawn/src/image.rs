//! Whether a file is a program that this machine executes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

/// Reason for which a file cannot be a [`Program`](crate::Program).
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum NoProgram {
    /// The file is not to be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Text for another program.
    #[error(
        "{}: a script for {interpreter}, not an ELF image: make a program of {interpreter} and \
        give it the script as its argument", path.display()
    )]
    Script {
        /// The file.
        path: PathBuf,
        /// The program that its first line names.
        interpreter: String,
    },
    /// A file that is something else, or part of an ELF image.
    #[error("{}: no ELF image of a program: {why}", path.display())]
    NoElf {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        why: String,
    },
    /// A file for another machine.
    #[error("{}: for {machine}, and this machine executes {}", path.display(), OWN.1)]
    Machine {
        /// The file.
        path: PathBuf,
        /// Its machine.
        machine: String,
    },
    /// Its interpreter, which loads it, is not there.
    #[error(
        "{}: its interpreter {} is not there: install what it belongs to, or link the program \
        statically", path.display(), interpreter.display()
    )]
    Interpreter {
        /// The file.
        path: PathBuf,
        /// The path that its headers name.
        interpreter: PathBuf,
    },
}

kumiki_sys::debug_is_display!(NoProgram);

impl NoProgram {
    /// The error number of execve(2) for such a file.
    pub fn errno(&self) -> i32 {
        match self {
            NoProgram::Unreadable { error, .. } => error.raw_os_error().unwrap_or(libc::EIO),
            NoProgram::Interpreter { .. } => libc::ENOENT,
            _ => libc::ENOEXEC,
        }
    }
}

/// Processor of this machine, and its name.
const OWN: (elf::Machine, &str) = if cfg!(target_arch = "x86_64") {
    (elf::EM_X86_64, "x86-64")
} else {
    (elf::EM_AARCH64, "64-bit ARM")
};

/// Reads and checks one.
///
/// # Errors
/// What it is instead.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, NoProgram> {
    let unreadable = |error| NoProgram::Unreadable { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::from_raw_os_error(libc::EACCES)));
    }
    let mut image = Vec::new();
    file.read_to_end(&mut image).map_err(unreadable)?;
    check(path, &image)?;
    Ok(image)
}

fn check(path: &Path, image: &[u8]) -> Result<(), NoProgram> {
    let path = path.to_owned();
    if let Some(line) = image.strip_prefix(b"#!") {
        let line =
            String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or(line));
        let interpreter = line.split_whitespace().next().unwrap_or("nothing").to_owned();
        return Err(NoProgram::Script { path, interpreter });
    }
    if !image.starts_with(&elf::ELFMAG) {
        return Err(NoProgram::NoElf { path, why: "it does not begin as one".to_owned() });
    }
    let is_big_endian = image.get(5) == Some(&elf::ELFDATA2MSB.0);
    let number = if is_big_endian { u16::from_be_bytes } else { u16::from_le_bytes };
    let is_64_bit = image.get(4) == Some(&elf::ELFCLASS64.0);
    let machine = image.get(18..20).map(|bytes| elf::Machine(number([bytes[0], bytes[1]])));
    let named = machine.map(|number| match number {
        elf::EM_386 => "32-bit x86".to_owned(),
        elf::EM_X86_64 if !is_64_bit => "x86-64's 32-bit way (x32)".to_owned(),
        elf::EM_X86_64 => "x86-64".to_owned(),
        elf::EM_AARCH64 => "64-bit ARM".to_owned(),
        elf::EM_ARM => "32-bit ARM".to_owned(),
        elf::EM_RISCV => "RISC-V".to_owned(),
        _ => format!("machine {} of ELF's list", number.0),
    });
    match named {
        Some(named) if !is_64_bit || machine != Some(OWN.0) => {
            return Err(NoProgram::Machine { path, machine: named });
        }
        _ => {}
    }
    let bad = |why: &dyn ToString| NoProgram::NoElf { path: path.clone(), why: why.to_string() };
    let header = FileHeader64::<Endianness>::parse(image).map_err(|error| bad(&error))?;
    let endian = header.endian().map_err(|error| bad(&error))?;
    if endian != Endianness::Little {
        return Err(bad(&"its bytes are in the other order"));
    }
    if ![elf::ET_EXEC, elf::ET_DYN].contains(&header.e_type(endian)) {
        return Err(bad(&"it is an object file or a dump of memory"));
    }
    let parts = header.program_headers(endian, image).map_err(|error| bad(&error))?;
    if !parts.iter().any(|part| part.p_type(endian) == elf::PT_LOAD) {
        return Err(bad(&"there is nothing in it to be loaded"));
    }
    for part in parts {
        let end = part.p_offset(endian).checked_add(part.p_filesz(endian));
        if end.is_none_or(|end| end > image.len() as u64) {
            return Err(bad(&format!("it ends after {} bytes, in the middle", image.len())));
        }
        if let Ok(Some(interpreter)) = part.interpreter(endian, image) {
            let interpreter = PathBuf::from(String::from_utf8_lossy(interpreter).into_owned());
            if fs::metadata(&interpreter).is_err() {
                return Err(NoProgram::Interpreter { path, interpreter });
            }
        }
    }
    Ok(())
}
