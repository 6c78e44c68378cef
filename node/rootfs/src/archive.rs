//! A tar archive, member by member: GNU's own format, POSIX' ustar and pax, and what was there
//! before.
//!
//! The crates that read tar keep a long name or an extended header whole, however long it says that
//! it is, cut numbers that are too large, and take a file with holes for one without. So what comes
//! from outside is read here with its bounds; what is not understood is refused.

use std::io::{self, Read};

use crate::error::Fault;
use crate::header::{BLOCK, Header};
use crate::pax::{RECORDS_BYTES, Records, Time};
use crate::sparse::Map;
use crate::tree::{About, PATH_BYTES};

/// User and group number that mean "leave it as it is" to chown(2).
const NOBODY: i64 = 0xffff_ffff;

/// Kind of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    HardLink,
    Device,
    Fifo,
}

/// One file of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) path: Vec<u8>,
    pub(crate) kind: Kind,
    /// Target of a link.
    pub(crate) linked: Vec<u8>,
    pub(crate) about: About,
    /// Places of its bytes, if it has holes.
    pub(crate) map: Option<Map>,
    /// Bytes of it that follow.
    pub(crate) stored: u64,
    /// Offset of these in the archive.
    pub(crate) at: u64,
}

impl Member {
    /// Its name, for people.
    pub(crate) fn shown(&self) -> String {
        shown(&self.path)
    }

    /// Bytes that it has, with its holes.
    pub(crate) fn size(&self) -> u64 {
        self.map.as_ref().map_or(self.stored, |map| map.size)
    }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Reads an archive.
pub(crate) struct Archive<R> {
    from: Tape<R>,
    /// Bytes of the last member that nobody has read, and those that fill up its last block.
    stored: u64,
    padding: u64,
    global: Records,
}

/// Headers that stand before a member and belong to it.
#[derive(Default)]
struct Before {
    path: Option<Vec<u8>>,
    linked: Option<Vec<u8>>,
    records: Option<Vec<u8>>,
}

impl<R: Read> Archive<R> {
    pub(crate) fn new(from: R) -> Self {
        let from = Tape { inner: from, at: 0 };
        Archive { from, stored: 0, padding: 0, global: Records::default() }
    }

    /// The next member; its bytes are read from here, before the next one.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, Fault> {
        let mut before = Before::default();
        loop {
            self.pass_over()?;
            let at = self.from.at;
            let block = self.block()?;
            let header = block.as_ref().map(Header).filter(|header| !header.is_empty());
            let Some(header) = header else {
                let nothing = before.path.is_none() && before.linked.is_none();
                if !nothing || before.records.is_some() {
                    return Err(damaged("it ends after a header that belongs to a file"));
                }
                // One block of zeros is half an end.
                return match block.is_some().then(|| self.block()).transpose()?.flatten() {
                    Some(more) if !Header(&more).is_empty() => {
                        Err(damaged("a lone block of zeros, and more after it"))
                    }
                    _ => Ok(None),
                };
            };
            if !header.is_whole() {
                return Err(damaged(&format!("what is at byte {at} is no header")));
            }
            let again = match header.kind() {
                b'L' => before.path.replace(self.name(&header)?).is_some(),
                b'K' => before.linked.replace(self.name(&header)?).is_some(),
                b'x' => before.records.replace(self.records(&header)?).is_some(),
                b'g' => {
                    let bytes = self.records(&header)?;
                    let read = self.global.read_global(&bytes);
                    read.map_err(|fault| damaged(&format!("at byte {at}: {fault}")))?;
                    false
                }
                _ => return self.member(&header, before).map(Some),
            };
            if again {
                return Err(damaged(&format!("at byte {at}: a second header of this kind")));
            }
        }
    }

    /// A name that is too long for a header, of GNU's format: text that ends with a zero.
    fn name(&mut self, header: &Header<'_>) -> Result<Vec<u8>, Fault> {
        let mut name = self.small(header, "a name", (PATH_BYTES + BLOCK) as u64)?;
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        if name[end..].iter().any(|&byte| byte != 0) {
            return Err(damaged(&format!("{}: a name with a zero", shown(&name[..end]))));
        }
        name.truncate(end);
        Ok(name)
    }

    fn records(&mut self, header: &Header<'_>) -> Result<Vec<u8>, Fault> {
        self.small(header, "an extended header", RECORDS_BYTES)
    }

    /// The content of what is no file, but belongs to one.
    fn small(&mut self, header: &Header<'_>, what: &str, limit: u64) -> Result<Vec<u8>, Fault> {
        let size = header.size().map_err(|fault| damaged(&fault))?;
        if size > limit {
            return Err(format!("{what} of {size} bytes, of {limit} at most"));
        }
        (self.stored, self.padding) = (size, padding(size));
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes).map_err(|error| damaged(&error.to_string()))?;
        if (bytes.len() as u64) < size {
            return Err(damaged("it ends within a header"));
        }
        Ok(bytes)
    }

    fn member(&mut self, header: &Header<'_>, before: Before) -> Result<Member, Fault> {
        let plain = header.path();
        let named = before.path.as_deref().unwrap_or(&plain);
        let of = |fault: Fault| format!("{}: {fault}", shown(named));
        let records = before.records.unwrap_or_default();
        let records = Records::read(&records, &self.global).map_err(of)?;
        let two = |one: &Option<Vec<u8>>, other: &Option<Vec<u8>>| {
            one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
        };
        if two(&before.path, &records.path) || two(&before.linked, &records.linked) {
            return Err(of("two headers before it that name it otherwise".to_owned()));
        }
        let has_records = records.sparse != Default::default();
        let path = records.sparse.name.clone().or(records.path.clone()).or(before.path.clone());
        let path = path.unwrap_or_else(|| plain.clone());
        let of = |fault: Fault| format!("{}: {fault}", shown(&path));
        let kind = kind(header.kind(), &path).map_err(of)?;
        let size = || records.size.map_or_else(|| header.size(), Ok);
        let mut stored = size().map_err(|fault| of(format!("its size: {fault}")))?;
        if kind != Kind::File && (stored > 0 || has_records) {
            return Err(of(format!("no file, and with {stored} bytes of content")));
        }
        let is_old = header.kind() == b'S';
        let rest = padding(stored);
        let map = match (is_old, has_records) {
            (false, false) => None,
            (true, false) if header.is_gnu() && records.size.is_none() => {
                Some(Map::old(header, &mut self.from).map_err(of)?)
            }
            (true, _) => return Err(of("a file with holes in no format that is known".to_owned())),
            (false, true) => {
                let map = Map::of_records(&records.sparse, &mut stored, &mut self.from);
                Some(map.map_err(of)?)
            }
        };
        let linked = records.linked.clone().or(before.linked).unwrap_or_else(|| header.linked());
        (self.stored, self.padding) = (stored, rest);
        let about = about(header, records).map_err(of)?;
        let at = self.from.at;
        Ok(Member { path, kind, linked, about, map, stored, at })
    }

    /// Passes over what nobody has read of the last member.
    fn pass_over(&mut self) -> Result<(), Fault> {
        let left = self.stored.saturating_add(self.padding);
        (self.stored, self.padding) = (0, 0);
        let passed = io::copy(&mut (&mut self.from).take(left), &mut io::sink());
        match passed {
            Ok(passed) if passed < left => Err(damaged("it ends within a file")),
            Ok(_) => Ok(()),
            Err(error) => Err(damaged(&error.to_string())),
        }
    }

    /// The next block, if there is one.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        let mut bytes = Vec::with_capacity(BLOCK);
        let read = (&mut self.from).take(BLOCK as u64).read_to_end(&mut bytes);
        read.map_err(|error| damaged(&error.to_string()))?;
        match <[u8; BLOCK]>::try_from(&bytes[..]) {
            Ok(block) => Ok(Some(block)),
            Err(_) if bytes.is_empty() => Ok(None),
            Err(_) => Err(damaged("it ends within a block of 512 bytes")),
        }
    }
}

/// The bytes of the last member.
impl<R: Read> Read for Archive<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.stored).unwrap_or(usize::MAX).min(into.len());
        let count = self.from.read(&mut into[..most])?;
        self.stored -= count as u64;
        Ok(count)
    }
}

/// Reads on, and knows where it is.
struct Tape<R> {
    inner: R,
    at: u64,
}

impl<R: Read> Read for Tape<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

fn damaged(what: &str) -> Fault {
    format!("no whole tar archive, or one that is damaged: {what}")
}

/// Bytes that fill up the last block of a member.
fn padding(size: u64) -> u64 {
    let block = BLOCK as u64;
    (block - size % block) % block
}

fn kind(byte: u8, path: &[u8]) -> Result<Kind, Fault> {
    Ok(match byte {
        // The oldest archives have no kind for folders.
        b'0' | 0 | b'7' if path.ends_with(b"/") => Kind::Folder,
        b'0' | 0 | b'7' | b'S' => Kind::File,
        b'1' => Kind::HardLink,
        b'2' => Kind::Link,
        b'3' | b'4' => Kind::Device,
        b'5' => Kind::Folder,
        b'6' => Kind::Fifo,
        other => return Err(format!("an entry of kind {:?}", char::from(other))),
    })
}

/// Owner, permissions and the like, by a header and by the records before it.
fn about(header: &Header<'_>, records: Records) -> Result<About, Fault> {
    let owner = |what: &str, record: Option<i64>, field: Result<i64, Fault>| {
        let value = record.map_or(field, Ok).map_err(|fault| format!("its {what}: {fault}"))?;
        // The last one is no owner: chown(2) would leave the file root's.
        let one = u32::try_from(value).ok().filter(|_| value != NOBODY);
        one.ok_or_else(|| format!("its {what} is {value}, which no file has"))
    };
    let user = owner("owner", records.user, header.user())?;
    let group = owner("group", records.group, header.group())?;
    let mode = header.mode().map_err(|fault| format!("its permissions: {fault}"))?;
    let modified = match records.modified {
        Some(time) => time,
        None => {
            let seconds = header.modified().map_err(|fault| format!("its time: {fault}"))?;
            Time { seconds, nanoseconds: 0 }
        }
    };
    let mode = (mode & 0o7777) as u32;
    Ok(About { mode, user, group, modified, attributes: records.attributes })
}
