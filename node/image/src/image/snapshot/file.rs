//! A snapshot in a file, and back from it: its bytes as they are in memory, in one frame of zstd.
//! A node that sleeps in a file has the same there, without having been an image.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use kumiki_boot::zstd::{Unpacked, compress};
use kumiki_destination::Destination;
use kumiki_node_wire::device::{self, Device};
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::holding::{Holding, padded};
use kumiki_node_wire::module::{abi, sysfs};
use sha2::{Digest, Sha256};

use super::pages::{Places, Run};
use super::{HEAD_BYTES, Header, MAGIC, Snapshot, head, layout, read_head, runs_in};
use crate::hash::hex;
use crate::identity::Identity;
use crate::image;
use crate::watchmen::abandon;
use crate::{Error, ErrorKind, Result, Subject};

const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of memory, read as a file is.
struct FileBytes<'a> {
    memory: &'a Memory,
    at: u64,
    end: u64,
}

impl Read for FileBytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min((self.end - self.at) as usize);
        self.memory.read(self.at as usize, &mut into[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// Memory of a kernel that sleeps in it, mapped as its places are, and its free pages.
#[derive(Debug)]
pub struct Kernel<'a> {
    pub memory: &'a Memory,
    pub places: &'a Places,
    pub free: &'a [(u64, u64)],
}

/// Its pages that are kept, one after the other.
struct Pages<'a> {
    memory: &'a Memory,
    places: &'a Places,
    runs: std::slice::Iter<'a, Run>,
    now: Option<FileBytes<'a>>,
}

impl<'a> Pages<'a> {
    fn of(kernel: &Kernel<'a>, runs: &'a [Run]) -> Self {
        Pages { memory: kernel.memory, places: kernel.places, runs: runs.iter(), now: None }
    }
}

impl Read for Pages<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(run) = &mut self.now {
                match run.read(into)? {
                    0 if !into.is_empty() => self.now = None,
                    count => return Ok(count),
                }
            }
            let Some(run) = self.runs.find(|run| !run.zeros) else { return Ok(0) };
            let at = self.places.offset(run.address, run.bytes()).expect("it was found there");
            let at = at as u64;
            self.now = Some(FileBytes { memory: self.memory, at, end: at + run.bytes() });
        }
    }
}

/// A file that is there only when all of it is, written in one frame. Returns its length, bytes.
fn packed(path: &Path, from: &mut dyn Read) -> Result<u64> {
    let mut bytes = 0;
    let written = Destination::new(path).and_then(|destination| {
        destination.write(|out| compress(from, &mut Counted { out, bytes: &mut bytes }))
    });
    written.map_err(|error| Error::file(path, error))?;
    Ok(bytes)
}

/// Counts what is written.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: &'a mut u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        *self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn sha256(mut from: impl Read) -> io::Result<String> {
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(hex(hash)),
            count => hash.update(&chunk[..count]),
        }
    }
}

/// Writes a kernel that sleeps into a file. Returns the header, complete, and the file's length.
pub fn stow(path: &Path, kernel: &Kernel<'_>, bare: Header) -> Result<(Header, u64)> {
    let runs = kernel.places.runs(kernel.memory, kernel.free);
    let mut table: Vec<u8> = runs.iter().flat_map(|run| run.to_bytes()).collect();
    let runs_sha256 = hex(Sha256::new_with_prefix(&table));
    let (runs_at, pages_at, _) = layout(&runs);
    let pages_sha256 =
        sha256(Pages::of(kernel, &runs)).map_err(|error| Error::file(path, error))?;
    let header = Header { runs: runs_at, runs_sha256, pages: pages_at, pages_sha256, ..bare };
    let mut first = head(&header)?;
    first.resize(HEAD_BYTES as usize, 0);
    table.resize((pages_at.at - runs_at.at) as usize, 0);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    }
    let mut all = (&*first).chain(&*table).chain(Pages::of(kernel, &runs));
    let bytes = packed(path, &mut all)?;
    Ok((header, bytes))
}

/// Writes the pages of a file into a kernel's memory, mapped as its places are, if its header `is_it`.
/// After an error they are of no use.
pub fn fetch(
    path: &Path,
    memory: &Memory,
    places: &Places,
    is_it: impl Fn(&Header) -> bool,
) -> Result<Header> {
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let mut packed = Packed::open(file, path, &Identity::of_host())?;
    let header = read_head(&packed.head, u64::MAX).map_err(|what| damaged(path, what))?;
    let before_pages = header.pages.at.checked_sub(HEAD_BYTES);
    let before_pages = before_pages.filter(|bytes| {
        header.runs.at == HEAD_BYTES && header.runs.bytes <= *bytes && *bytes < 2 * places.bytes()
    });
    let (Some(before_pages), true) = (before_pages, is_it(&header)) else {
        return Err(Error::refused(
            ErrorKind::Damaged,
            Subject::File(path.to_owned()),
            format!("{} is not what the node was written to as it fell asleep", path.display()),
        ));
    };
    let failed = |error: io::Error| damaged(path, error);
    let mut table = vec![0; before_pages as usize];
    packed.decoder.read_exact(&mut table).map_err(failed)?;
    let runs = runs_in(&table[..header.runs.bytes as usize], &header);
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK_BYTES]);
    for run in runs.map_err(|what| damaged(path, what))? {
        let at = places.offset(run.address, run.bytes());
        let mut at = at.ok_or_else(|| damaged(path, "a page beyond the node's memory"))?;
        let end = at + run.bytes() as usize;
        if run.zeros {
            memory.zero(at, end - at);
            continue;
        }
        while at < end {
            let part = &mut chunk[..(end - at).min(CHUNK_BYTES)];
            packed.decoder.read_exact(part).map_err(failed)?;
            hash.update(&*part);
            memory.write(at, part);
            at += part.len();
        }
    }
    if hex(hash) != header.pages_sha256 {
        return Err(damaged(path, "the hash of its pages"));
    }
    Ok(header)
}

/// A file whose header has been read, and is this machine's.
struct Packed<'a> {
    path: &'a Path,
    decoder: Unpacked<'a>,
    head: Vec<u8>,
    /// Bytes that are in it, and the memory that takes.
    end: u64,
    total: u64,
    /// True if only its node goes on from it.
    once: bool,
}

impl<'a> Packed<'a> {
    fn open(file: impl Read + 'a, path: &'a Path, here: &Identity) -> Result<Self> {
        let no_file = |why: &str| {
            Error::refused(
                ErrorKind::Invalid,
                Subject::File(path.to_owned()),
                format!(
                    "{} is no file of a snapshot ({why}): kumiki image save makes one",
                    path.display()
                ),
            )
        };
        let decoder = Unpacked::of(file);
        let mut decoder = decoder.map_err(|error| no_file(&error.to_string()))?;
        let mut head = vec![0; HEAD_BYTES as usize];
        decoder.read_exact(&mut head).map_err(|error| damaged(path, error))?;
        if !head.starts_with(&MAGIC.to_le_bytes()) {
            return Err(no_file("its first bytes"));
        }
        let header = read_head(&head, u64::MAX).map_err(|what| damaged(path, what))?;
        if header.machine != *here {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::File(path.to_owned()),
                format!(
                    "{} was kept on machine {}, and this one is {here}: its kernel has fitted itself \
                     to that one's processor and addresses, and goes on nowhere else",
                    path.display(),
                    header.machine
                ),
            ));
        }
        let end = header.pages.at + header.pages.bytes;
        let total = end.checked_next_multiple_of(abi::PIECE_UNIT);
        let total = total.ok_or_else(|| damaged(path, "a part beyond all memory"))?;
        Ok(Packed { path, decoder, head, end, total, once: header.once })
    }

    /// Writes it into memory.
    fn unpack(mut self, into: &Memory) -> Result<()> {
        into.write(0, &self.head);
        let (mut at, mut chunk) = (HEAD_BYTES, vec![0; CHUNK_BYTES]);
        while at < self.end {
            let part = &mut chunk[..(self.end - at).min(CHUNK_BYTES as u64) as usize];
            self.decoder.read_exact(part).map_err(|error| damaged(self.path, error))?;
            into.write(at as usize, part);
            at += part.len() as u64;
        }
        match self.decoder.read(&mut chunk) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged(self.path, "more bytes than its header says")),
            Err(error) => Err(damaged(self.path, error)),
        }
    }
}

fn damaged(path: &Path, what: impl fmt::Display) -> Error {
    Error::refused(
        ErrorKind::Damaged,
        Subject::File(path.to_owned()),
        format!("{} is damaged ({what}): save the snapshot again", path.display()),
    )
}

/// Writes a snapshot, which is whole, into a file that is there only when all of it is. Returns
/// the file's length, bytes.
pub fn save(name: &str, path: &Path) -> Result<u64> {
    let snapshot = Snapshot::open(name)?;
    if let Some(what) = snapshot.verify()? {
        return Err(super::damaged(name, what));
    }
    let pages = snapshot.header.pages;
    packed(path, &mut FileBytes { memory: &snapshot.memory, at: 0, end: pages.at + pages.bytes })
}

/// Puts a file's snapshot into memory, under this name, if it was kept on this machine and is as
/// it was written. Returns the memory that it takes, bytes.
pub fn load(name: &str, path: &Path) -> Result<u64> {
    padded(Holding::Image, name)?;
    if sysfs::exists(Holding::Image, name) {
        return Err(device::exists(Holding::Image, name));
    }
    let file = File::open(path).map_err(|error| Error::file(path, error))?;
    let packed = Packed::open(file, path, &Identity::of_host())?;
    if packed.once {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::File(path.to_owned()),
            format!(
                "{} is where a node sleeps while nobody asks for it: that goes on from there, once, \
                 and nothing else does; kumiki node snapshot makes a snapshot",
                path.display()
            ),
        ));
    }
    let total = packed.total;
    let (device, _) = Device::create(Holding::Image, name)?;
    let filled = image::sealed(&device, total, abi::PIECE_UNIT, |into| packed.unpack(into));
    let checked = filled.and_then(|()| match Snapshot::open(name)?.verify()? {
        Some(what) => Err(damaged(path, what)),
        None => Ok(total),
    });
    checked.inspect_err(|_| {
        abandon(&device);
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{FREE, made};
    use super::*;

    fn in_a_file() -> (Vec<u8>, u64) {
        let (image, _, header) = made();
        let mut file = Vec::new();
        let end = header.pages.at + header.pages.bytes;
        compress(&mut FileBytes { memory: &image, at: 0, end }, &mut file).unwrap();
        (file, image.bytes() as u64)
    }

    /// Packs into what stands at a path, and gives what it says of the length.
    fn packs_into(path: &Path) -> u64 {
        packed(path, &mut &b"what a node has in its memory"[..]).unwrap()
    }

    /// Kind of what stands at a path itself, a link among them.
    fn kind(path: &Path) -> fs::FileType {
        fs::symlink_metadata(path).unwrap().file_type()
    }

    #[test]
    fn what_is_no_regular_file_is_written_to_and_never_replaced() {
        use std::os::unix::fs::FileTypeExt;

        use rustix::fs::{CWD, FileType, Mode, makedev, mkfifoat, mknodat};

        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // A FIFO: whoever reads it has the whole file.
        mkfifoat(CWD, at("fifo"), Mode::RWXU).unwrap();
        let fifo = at("fifo");
        let reader = std::thread::spawn(move || fs::read(fifo).unwrap());
        let bytes = packs_into(&at("fifo"));
        let read = reader.join().unwrap();
        assert_eq!(read.len() as u64, bytes);
        assert!(kind(&at("fifo")).is_fifo());
        // A link, which leads to the file afterwards as before, and the file is the whole one.
        fs::write(at("file"), "before").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        assert_eq!(packs_into(&at("link")), bytes);
        assert!(kind(&at("link")).is_symlink() && kind(&at("file")).is_file());
        assert_eq!(fs::read(at("file")).unwrap(), read);
        // The device that forgets what is written, as itself and by a link. For root it is one of the
        // test's own: the machine's would be gone if this failed.
        let mut null = at("device");
        let made = mknodat(CWD, &null, FileType::CharacterDevice, Mode::RWXU, makedev(1, 3));
        if made.is_err() || File::options().write(true).open(&null).is_err() {
            if rustix::process::geteuid().is_root() {
                return println!("skipped: no device may be made or opened below {folder:?}");
            }
            null = "/dev/null".into();
        }
        std::os::unix::fs::symlink(&null, at("to-device")).unwrap();
        for path in [&null, &at("to-device")] {
            assert_eq!(packs_into(path), bytes);
            assert!(kind(&null).is_char_device() && kind(&at("to-device")).is_symlink());
        }
    }

    fn unpacked(file: &[u8], bytes: u64) -> Result<Snapshot> {
        let packed = Packed::open(file, Path::new("f"), &Identity::of_host())?;
        assert!(packed.total <= bytes);
        let memory = Memory::zeroed(bytes);
        packed.unpack(&memory)?;
        Snapshot::of("warm", memory, None)
    }

    #[test]
    fn a_file_gives_the_snapshot_back() {
        let (file, bytes) = in_a_file();
        assert!((file.len() as u64) < HEAD_BYTES, "{}", file.len());
        let snapshot = unpacked(&file, bytes).unwrap();
        assert_eq!((snapshot.verify().unwrap(), snapshot.header), (None, made().2));
    }

    /// Checks that a fault is found, by the compressor's own checks or by the snapshot's.
    #[test]
    fn a_file_that_is_not_whole_is_refused() {
        let (file, bytes) = in_a_file();
        let is_whole = |file: &[u8]| {
            unpacked(file, bytes).is_ok_and(|it| it.verify().is_ok_and(|what| what.is_none()))
        };
        for at in (0..file.len()).step_by(41) {
            let mut other = file.clone();
            other[at] ^= 0x10;
            // A checksum that nobody needs, and bits without meaning, may be at the end.
            let same = || unpacked(&other, bytes).is_ok_and(|it| it.header == made().2);
            assert!(!is_whole(&other) || same(), "{at}");
            assert!(!is_whole(&file[..at]), "the first {at} bytes");
        }
        let said = unpacked(b"no such thing", bytes).err().unwrap().to_string();
        assert!(said.contains("f is no file of a snapshot"), "{said}");
    }

    #[test]
    fn a_file_of_another_machine_is_refused_by_what_that_is() {
        let mut header = made().2;
        header.machine = Identity::of("another", "cpu");
        let image = Memory::zeroed(abi::PIECE_UNIT);
        super::super::write_head(&image, &header).unwrap();
        let mut file = Vec::new();
        let end = header.pages.at;
        compress(&mut FileBytes { memory: &image, at: 0, end }, &mut file).unwrap();
        let said = unpacked(&file, 1 << 30).err().unwrap().to_string();
        assert!(
            said.contains("f was kept on machine another (cpu cpu), and this one is"),
            "{said}"
        );
    }

    /// Writes a snapshot as its image would be, and reads it back into memory that has something else.
    #[test]
    fn a_kernel_goes_through_a_file_without_an_image() {
        let (_, node, header) = made();
        let (places, folder) =
            (Places::of(header.slice, &header.pieces), tempfile::tempdir().unwrap());
        let path = folder.path().join("of/n1");
        let bare = Header { once: true, pages_sha256: String::new(), ..header.clone() };
        let kernel = Kernel { memory: &node, places: &places, free: &FREE };
        let (whole, bytes) = stow(&path, &kernel, bare).unwrap();
        assert_eq!(whole, Header { once: true, ..header });
        assert_eq!(bytes, fs::metadata(&path).unwrap().len());
        let other = Memory::zeroed(node.bytes() as u64);
        other.write(0, &vec![0xa5; node.bytes()]);
        assert_eq!(fetch(&path, &other, &places, |it| *it == whole).unwrap(), whole);
        let runs = places.runs(&node, &FREE);
        assert_eq!(places.runs(&other, &FREE), runs);
        let pages = |memory: &Memory| {
            let mut all = Vec::new();
            let kernel = Kernel { memory, places: &places, free: &FREE };
            Pages::of(&kernel, &runs).read_to_end(&mut all).unwrap();
            all
        };
        assert_eq!(pages(&other), pages(&node));
        assert!(fetch(&path, &other, &places, |_| false).is_err());
        let said = load("warm", &path).unwrap_err().to_string();
        assert!(said.contains("where a node sleeps while nobody asks"), "{said}");
        let mut file = fs::read(&path).unwrap();
        for at in (0..file.len()).step_by(53) {
            file[at] ^= 0x10;
            fs::write(&path, &file).unwrap();
            // A checksum that nobody needs, and bits without meaning, may be at the end.
            let fetched = fetch(&path, &other, &places, |it| *it == whole);
            assert!(fetched.is_err() || pages(&other) == pages(&node), "{at}");
            file[at] ^= 0x10;
        }
    }
}
