//! Files into a machine and out of it, as a tar archive through a command's
//! streams.

use std::fs::{self, File};
use std::io::ErrorKind::BrokenPipe;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;

use kumiki_boot::libraries;
use tar::{Archive, Builder, EntryType, Header};

use crate::error::{Error, Result};
use crate::guest::Guest;

/// Working folder of commands, and folder of files that are given no other place.
pub(crate) const HOME: &str = "/root";

impl Guest {
    /// Copies a file or folder of this machine to `target` in the other; a
    /// relative one is below `/root`, where commands begin. A program takes the
    /// libraries that it is linked with along.
    pub fn put(&self, source: &Path, target: &Path) -> Result<()> {
        let name = Path::new(HOME).join(target);
        let (reader, writer) = io::pipe().map_err(stream("files"))?;
        let (from, name) = (source.to_owned(), name.strip_prefix("/").unwrap_or(&name).to_owned());
        let packing = thread::spawn(move || pack(&from, &name, writer));
        let packed = self.command("tar").args(["-x", "-f", "-", "-C", "/"]).output_of(reader);
        let sent = packing.join().expect("packing does not panic");
        match sent {
            // The other side ended first, and knows why.
            Err(Error::File { source: error, .. }) if error.kind() == BrokenPipe => {}
            sent => sent?,
        }
        finished(packed?, "unpacking", source)
    }

    /// Copies a file or folder of the other machine into a folder of this one.
    pub fn get(&self, source: &Path, folder: &Path) -> Result<()> {
        let source = Path::new(HOME).join(source);
        let name = source.file_name().ok_or_else(|| {
            Error::malformed(source.display(), "it does not end in the name of a file")
        })?;
        let parent = source.parent().unwrap_or(Path::new("/"));
        let (reader, mut writer) = io::pipe().map_err(stream("files"))?;
        let into = folder.to_owned();
        let unpacking = thread::spawn(move || unpack(reader, &into));
        let command = self.command("tar").arg("-c").arg("-f").arg("-").arg("-C").arg(parent);
        let mut said = Vec::new();
        let outcome = command.arg(name).spawn()?.pass(io::empty(), &mut writer, &mut said);
        drop(writer);
        let unpacked = unpacking.join().expect("unpacking does not panic");
        let outcome = outcome?;
        let output = crate::Output { exit: outcome.exit, stdout: Vec::new(), stderr: said };
        finished(output, "packing", &source)?;
        unpacked
    }
}

fn pack(source: &Path, name: &Path, writer: impl Write) -> Result<()> {
    let failed = |action| Error::file(action, source);
    let mut archive = Builder::new(writer);
    archive.follow_symlinks(false);
    // Busybox knows no sparse files.
    archive.sparse(false);
    let metadata = fs::metadata(source).map_err(failed("reading"))?;
    if metadata.is_dir() {
        archive.append_dir_all(name, source).map_err(failed("packing"))?;
    } else if !metadata.is_file() {
        // Of a pipe, nobody knows how much will come.
        return Err(Error::malformed(source.display(), "it is neither a file nor a folder"));
    } else {
        let mut file = File::open(source).map_err(failed("reading"))?;
        archive.append_file(name, &mut file).map_err(failed("packing"))?;
        let mut head = vec![0; 4];
        let elf = File::open(source).and_then(|mut file| file.read_exact(&mut head)).is_ok()
            && head == b"\x7fELF";
        if elf {
            let bytes = fs::read(source).map_err(failed("reading"))?;
            for library in libraries(source, &bytes)? {
                let mut header = Header::new_gnu();
                header.set_entry_type(EntryType::Regular);
                header.set_mode(0o755);
                header.set_size(library.bytes.len() as u64);
                let name = library.path.strip_prefix("/").unwrap_or(&library.path);
                archive
                    .append_data(&mut header, name, library.bytes.as_slice())
                    .map_err(failed("packing the libraries of"))?;
            }
        }
    }
    archive.finish().map_err(failed("packing"))
}

fn unpack(reader: impl Read, folder: &Path) -> Result<()> {
    let failed = |folder: &Path| Error::file("unpacking into", PathBuf::from(folder));
    let mut archive = Archive::new(reader);
    archive.set_preserve_mtime(true);
    archive.unpack(folder).map_err(failed(folder))
}

fn finished(output: crate::Output, action: &str, path: &Path) -> Result<()> {
    if output.exit.code() == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Agent(format!("{action} {}: {}", path.display(), said.trim())))
}

fn stream(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Stream { what, source }
}
