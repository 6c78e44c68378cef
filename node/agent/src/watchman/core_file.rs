//! A core file of the host as kdump makes them: an ELF with notes, and a segment for each run of
//! memory. It is written from its first byte to its last, so that it can go anywhere.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use kumiki_boot::Piece;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, EM_X86_64, ET_CORE, EV_CURRENT, FileFlags, FileHeader64,
    Ident, NT_PRSTATUS, OsAbi, PF_R, PF_W, PF_X, PT_LOAD, PT_NOTE, ProgramFlags, ProgramHeader64,
    SymbolSection,
};
use object::pod::bytes_of;
use object::{LittleEndian as Le, U16, U32, U64};

use super::physical::Physical;
use crate::{Error, ErrorKind, Result, Subject};

const PAGE: u64 = 4096;
/// Read, and written, at a time.
const CHUNK: usize = 1 << 20;
/// Layout of the note NT_PRSTATUS on x86-64: its length, and where its numbers and registers are.
const STATUS_BYTES: usize = 336;
const STATUS_PID: usize = 32;
const STATUS_REGISTERS: usize = 112;
/// Registers there, 8 bytes each.
const IP: usize = 16;
const SP: usize = 19;
/// Beginning of a place that is a connection.
const TCP: &str = "tcp:";
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A note's bytes.
pub(super) fn note(name: &[u8], kind: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [name.len() as u32 + 1, body.len() as u32, kind] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(name);
    bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The note of a cpu: who ran there, and where, if that is known.
pub(super) fn status(pid: u32, (ip, sp): (u64, u64)) -> Vec<u8> {
    let mut body = vec![0; STATUS_BYTES];
    body[STATUS_PID..][..4].copy_from_slice(&pid.to_le_bytes());
    for (register, value) in [(IP, ip), (SP, sp)] {
        body[STATUS_REGISTERS + 8 * register..][..8].copy_from_slice(&value.to_le_bytes());
    }
    note(b"CORE", NT_PRSTATUS.0, &body)
}

/// Everything before the memory, which follows run by run.
pub(super) fn head(runs: &[Piece], direct_map: u64, notes: &[u8]) -> Vec<u8> {
    let header_bytes = size_of::<FileHeader64<Le>>();
    let entry_bytes = size_of::<ProgramHeader64<Le>>();
    let notes_at = header_bytes + entry_bytes * (1 + runs.len());
    let mut data_at = ((notes_at + notes.len()) as u64).next_multiple_of(PAGE);
    let total = data_at as usize;
    let header = FileHeader64::<Le> {
        e_ident: Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: OsAbi(0),
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(Le, ET_CORE),
        e_machine: U16::new(Le, EM_X86_64),
        e_version: U32::new(Le, u32::from(EV_CURRENT.0)),
        e_entry: U64::new(Le, 0),
        e_phoff: U64::new(Le, header_bytes as u64),
        e_shoff: U64::new(Le, 0),
        e_flags: U32::new(Le, FileFlags(0)),
        e_ehsize: U16::new(Le, header_bytes as u16),
        e_phentsize: U16::new(Le, entry_bytes as u16),
        e_phnum: U16::new(
            Le,
            u16::try_from(1 + runs.len()).expect("runs are joined until they fit"),
        ),
        e_shentsize: U16::new(Le, 0),
        e_shnum: U16::new(Le, 0),
        e_shstrndx: U16::new(Le, SymbolSection(0)),
    };
    let entry = |kind, flags, offset, (at, address), bytes| ProgramHeader64::<Le> {
        p_type: U32::new(Le, kind),
        p_flags: U32::new(Le, flags),
        p_offset: U64::new(Le, offset),
        p_vaddr: U64::new(Le, at),
        p_paddr: U64::new(Le, address),
        p_filesz: U64::new(Le, bytes),
        p_memsz: U64::new(Le, bytes),
        p_align: U64::new(Le, 0),
    };
    let mut bytes = bytes_of(&header).to_vec();
    let of_notes = entry(PT_NOTE, ProgramFlags(0), notes_at as u64, (0, 0), notes.len() as u64);
    bytes.extend(bytes_of(&of_notes));
    for run in runs {
        let at = run.address.wrapping_add(direct_map);
        let one = entry(PT_LOAD, PF_R | PF_W | PF_X, data_at, (at, run.address), run.bytes);
        bytes.extend(bytes_of(&one));
        data_at += run.bytes;
    }
    bytes.extend(notes);
    bytes.resize(total, 0);
    bytes
}

/// A place for a core file, which is written from its beginning.
pub(super) enum Place {
    /// Pages of zeros are left out of it.
    Sparse(File),
    Disk(File),
    Connection(TcpStream),
}

impl Place {
    /// Refuses a place that there is not.
    pub(super) fn check(to: &str) -> Result<()> {
        if let Some(address) = to.strip_prefix(TCP) {
            return match address.rsplit_once(':') {
                Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
                _ => Err(invalid(to, "is no address: tcp:HOST:PORT")),
            };
        }
        let path = Path::new(to);
        let Some(parent) = path.parent().filter(|_| path.is_absolute()) else {
            return Err(invalid(to, "is no file's or disk's whole path in the node"));
        };
        match path.metadata() {
            Ok(about) if about.is_dir() => Err(invalid(to, "is a folder")),
            Ok(_) => Ok(()),
            Err(error) if parent.is_dir() && !path.starts_with("/dev") => match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(Error::file(path, error)),
            },
            Err(error) => Err(Error::file(path, error)),
        }
    }

    /// Opens it for this many bytes.
    pub(super) fn open(to: &str, bytes: u64) -> Result<Self> {
        if let Some(address) = to.strip_prefix(TCP) {
            return connect(address).map(Place::Connection);
        }
        let failed = |error| Error::file(to, error);
        let opened = OpenOptions::new().write(true).create(true).truncate(true).open(to);
        let mut file = opened.map_err(failed)?;
        if !file.metadata().map_err(failed)?.file_type().is_block_device() {
            return Ok(Place::Sparse(file));
        }
        let there = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if there < bytes {
            let why = format!("has {there} bytes, and the vmcore is of {bytes}");
            return Err(invalid(to, &why));
        }
        file.rewind().map_err(failed)?;
        Ok(Place::Disk(file))
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Place::Disk(file) => file.write_all(bytes),
            Place::Connection(stream) => stream.write_all(bytes),
            Place::Sparse(file) => {
                for page in bytes.chunks(PAGE as usize) {
                    if page.iter().all(|&byte| byte == 0) {
                        file.seek(SeekFrom::Current(page.len() as i64))?;
                    } else {
                        file.write_all(page)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// All of it is where it belongs.
    fn finish(self) -> std::io::Result<()> {
        match self {
            Place::Sparse(mut file) => {
                let end = file.stream_position()?;
                file.set_len(end)?;
                file.sync_all()
            }
            Place::Disk(file) => file.sync_all(),
            Place::Connection(stream) => stream.shutdown(std::net::Shutdown::Write),
        }
    }
}

fn invalid(to: &str, why: &str) -> Error {
    let text = format!("{to} {why}");
    Error::refused(ErrorKind::Invalid, Subject::Word(to.to_owned()), text)
}

fn connect(address: &str) -> Result<TcpStream> {
    use std::net::ToSocketAddrs;
    let failed = |error| Error::os(format!("connecting to {address}"), error);
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for one in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&one, CONNECT_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// Bytes that could not be read, and are zeros in the file.
#[derive(Default)]
pub(super) struct Unread {
    pub(super) bytes: u64,
    /// Addresses of the first of them, and why.
    pub(super) first: Option<(u64, Error)>,
}

/// Writes `head` and the memory of `runs`.
pub(super) fn write(
    memory: &mut dyn Physical,
    head: &[u8],
    runs: &[Piece],
    mut place: Place,
) -> Result<Unread> {
    let failed = |error| Error::os("writing the vmcore", error);
    place.put(head).map_err(failed)?;
    let mut chunk = vec![0; CHUNK];
    let mut unread = Unread::default();
    for run in runs {
        let mut at = run.address;
        while at < run.end() {
            let bytes = &mut chunk[..((run.end() - at) as usize).min(CHUNK)];
            if let Err(error) = memory.read(at, bytes) {
                bytes.fill(0);
                unread.bytes += bytes.len() as u64;
                unread.first.get_or_insert((at, error));
            }
            place.put(bytes).map_err(failed)?;
            at += bytes.len() as u64;
        }
    }
    place.finish().map_err(failed)?;
    Ok(unread)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::unix::fs::MetadataExt;

    use object::read::elf::{FileHeader, ProgramHeader};

    use super::super::physical::fixtures::Pages;
    use super::*;

    #[test]
    fn every_run_is_found_in_the_file_where_its_segment_says() {
        let mut memory = Pages::default();
        let runs: Vec<_> = [(0x1000, 0x2000), (0x10_0000, 0x20_1000)]
            .map(|(address, bytes)| Piece { address, bytes })
            .into();
        for run in &runs {
            for page in (run.address..run.end()).step_by(4096) {
                // Each third is empty, and one is not there at all.
                let fill = if page % 0x3000 == 0 { 0 } else { page >> 12 };
                memory.write(page, &[fill as u8; 4096]);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmcore");
        let to = path.to_str().unwrap();
        let notes = [status(7, (1, 2)), note(b"VMCOREINFO", 0, b"A=1\n")].concat();
        let head = head(&runs, 1 << 47, &notes);
        Place::check(to).unwrap();
        let unread = write(&mut memory, &head, &runs, Place::open(to, 0).unwrap()).unwrap();
        assert!(unread.bytes == 0 && unread.first.is_none());
        let data = std::fs::read(&path).unwrap();
        assert!(path.metadata().unwrap().blocks() * 512 < data.len() as u64, "no holes");
        let header = FileHeader64::<Le>::parse(&*data).unwrap();
        let segments = header.program_headers(Le, &*data).unwrap();
        let mut names = Vec::new();
        let mut found = segments[0].notes(Le, &*data).unwrap().unwrap();
        while let Some(note) = found.next().unwrap() {
            names.push((note.name().to_vec(), note.desc().len()));
        }
        assert_eq!(names, [(b"CORE".to_vec(), STATUS_BYTES), (b"VMCOREINFO".to_vec(), 4)]);
        for (segment, run) in segments[1..].iter().zip(&runs) {
            assert_eq!(segment.p_vaddr(Le), run.address + (1 << 47));
            let mut bytes = vec![0; run.bytes as usize];
            memory.read(run.address, &mut bytes).unwrap();
            assert!(segment.data(Le, &*data).unwrap() == bytes, "{run:?}");
        }
        memory.0.remove(&0x2000);
        let unread = write(&mut memory, &head, &runs, Place::open(to, 0).unwrap()).unwrap();
        assert_eq!(unread.bytes, 0x2000);
        let (at, why) = unread.first.unwrap();
        assert!(runs.iter().any(|run| (run.address..run.end()).contains(&at)));
        assert!(why.to_string().contains("is no memory"), "{why}");

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("tcp:{}", listener.local_addr().unwrap());
        Place::check(&to).unwrap();
        let taking = std::thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all
        });
        write(&mut memory, &head, &runs, Place::open(&to, 0).unwrap()).unwrap();
        assert_eq!(taking.join().unwrap().len(), data.len());
    }

    #[test]
    fn places_that_there_are_not_are_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().display().to_string();
        for (to, says) in [
            ("tcp:here", "tcp:HOST:PORT"),
            ("tcp:here:many", "tcp:HOST:PORT"),
            ("vmcore", "whole path"),
            (&there, "is a folder"),
            ("/dev/no-such-disk", "/dev/no-such-disk"),
            (&format!("{there}/no/vmcore"), "/no/vmcore"),
        ] {
            let error = Place::check(to).unwrap_err().to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
        Place::check("tcp:10.0.0.2:9").unwrap();
    }
}
