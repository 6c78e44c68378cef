//! Files into a node and out of it, through a channel: there this very program takes
//! them from its input, or writes them to its output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::node::client::{Client, Ending};
use crate::node::session::Session;
use crate::wire::AGENT;
use crate::wire::frame::Program;
use crate::{Error, ErrorKind, Result};

/// Of a file that is not whole yet.
const PART: &str = ".part";
/// Bytes at most that a node says before a file: its mode and size.
const HEAD_BYTES: usize = 64;
/// Bytes that are kept of why a node refuses.
const SAID_BYTES: usize = 4096;
/// Bits of a node's file that are taken over: for whom it is, and not as whom it runs, which here
/// would be root.
const NODES_MODE: u32 = 0o777;

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(PART);
    name.into()
}

/// Has `fill` write a file, which is there whole, or as it was.
fn whole(path: &Path, mode: Option<u32>, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let part = part_of(path);
    let failed = |error| Error::file(path, error);
    // Nobody else's to read before it has its mode, and no file that a link names.
    let mut new = OpenOptions::new();
    new.write(true).create(true).truncate(true).mode(0o600);
    new.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = new.open(&part).map_err(|error| Error::file(&part, error))?;
    let filled = fill(&mut file).and_then(|()| {
        if let Some(mode) = mode {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o7777)).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        fs::rename(&part, path).map_err(failed)
    });
    if filled.is_err() {
        let _ = fs::remove_file(&part);
    }
    filled
}

/// A file's own place, or one of its name in the folder that is there.
fn place(target: &Path, source: &Path) -> PathBuf {
    match source.file_name() {
        Some(name) if target.is_dir() => target.join(name),
        _ => target.to_owned(),
    }
}

/// In the node: standard input becomes a file of so many bytes.
pub fn take(target: &Path, name: &Path, mode: u32, bytes: u64) -> Result<()> {
    whole(&place(target, name), Some(mode), |file| {
        let taken = io::copy(&mut io::stdin().lock(), file);
        let taken = taken.map_err(|error| Error::file(target, error))?;
        complete(target, taken, bytes)
    })
}

fn complete(path: &Path, have: u64, want: u64) -> Result<()> {
    if have == want {
        return Ok(());
    }
    Err(Error::refused(
        ErrorKind::Interrupted,
        format!(
            "{}: {have} of {want} bytes came: the file has changed, or its sender has ended",
            path.display()
        ),
    ))
}

/// In the node: a file goes to standard output, behind a line with its mode and size.
pub fn give(source: &Path) -> Result<()> {
    let failed = |error| Error::file(source, error);
    let mut file = File::open(source).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Error::refused(
            ErrorKind::Invalid,
            format!("{}: it is no file", source.display()),
        ));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{:o} {}", about.permissions().mode(), about.len()).map_err(failed)?;
    io::copy(&mut file, &mut out).and_then(|_| out.flush()).map_err(failed)
}

fn run(node: &str, words: &[String], input: Option<&File>, out: &mut dyn Write) -> Result<()> {
    let words = [AGENT, "node", "file"].map(str::to_owned).into_iter().chain(words.to_vec());
    let words = words.collect();
    let program = Program { words, beside_root: true, ..Program::default() };
    let mut said = Said(Vec::new());
    let mut client = Client { input: input.map(AsFd::as_fd), out, err: &mut said, orders: None };
    match Session::open(node)?.run(&program, &mut client)? {
        Ending::Exited(0) => Ok(()),
        _ => {
            let said = String::from_utf8_lossy(&said.0);
            let said = said.trim().trim_start_matches("kumiki: ");
            Err(Error::refused(ErrorKind::Refused, format!("node {node}: {said}")))
        }
    }
}

/// Copies a file of the host to a place in a node.
pub fn into_node(node: &str, source: &Path, target: &str) -> Result<()> {
    let failed = |error| Error::file(source, error);
    let file = File::open(source).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(Error::refused(
            ErrorKind::Invalid,
            format!("{}: it is no file; a folder is shared by --share", source.display()),
        ));
    }
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (mode, bytes) = (about.permissions().mode(), about.len());
    let words = ["take", target, &name, &format!("{mode:o}"), &bytes.to_string()];
    run(node, &words.map(str::to_owned), Some(&file), &mut io::sink())
}

/// Copies a file of a node to a place here.
pub fn out_of_node(node: &str, source: &str, target: &Path) -> Result<()> {
    whole(&place(target, Path::new(source)), None, |file| {
        let mut into = Incoming { file, head: Some(Vec::new()), mode: 0, want: 0, have: 0 };
        run(node, &["give".to_owned(), source.to_owned()], None, &mut into)?;
        let (mode, have, want) = (into.mode, into.have, into.want);
        complete(target, have, want)?;
        let mode = fs::Permissions::from_mode(mode & NODES_MODE);
        file.set_permissions(mode).map_err(|error| Error::file(target, error))
    })
}

/// The beginning of what a node says: it may say anything, and without an end.
struct Said(Vec<u8>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = SAID_BYTES - self.0.len();
        self.0.extend(&bytes[..room.min(bytes.len())]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file behind its first line. The node that sends it is not believed to end.
struct Incoming<'a> {
    file: &'a mut File,
    head: Option<Vec<u8>>,
    mode: u32,
    want: u64,
    have: u64,
}

impl Write for Incoming<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(head) = &mut self.head else {
            let have = self.have + bytes.len() as u64;
            if have > self.want {
                return Err(io::Error::other(format!(
                    "more than the {} bytes come that the node has said",
                    self.want
                )));
            }
            self.file.write_all(bytes)?;
            self.have = have;
            return Ok(bytes.len());
        };
        let end = bytes.iter().position(|&byte| byte == b'\n');
        if head.len() + end.unwrap_or(bytes.len()) > HEAD_BYTES {
            return Err(io::Error::other("no file comes"));
        }
        head.extend(&bytes[..end.unwrap_or(bytes.len())]);
        let Some(end) = end else { return Ok(bytes.len()) };
        let text = String::from_utf8_lossy(head).into_owned();
        let parsed = text.split_once(' ').and_then(|(mode, bytes)| {
            Some((u32::from_str_radix(mode, 8).ok()?, bytes.parse().ok()?))
        });
        (self.mode, self.want) = parsed.ok_or_else(|| io::Error::other("no file comes"))?;
        self.head = None;
        Ok(end + 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_behind_its_first_line_in_any_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for pieces in [vec!["644 4\nab", "cd"], vec!["64", "4 4", "\n", "abcd"]] {
            let mut file = File::create(&path).unwrap();
            let mut into =
                Incoming { file: &mut file, head: Some(vec![]), mode: 0, want: 0, have: 0 };
            pieces.iter().for_each(|piece| into.write_all(piece.as_bytes()).unwrap());
            assert_eq!((into.mode, into.want, into.have), (0o644, 4, 4));
            assert_eq!(fs::read(&path).unwrap(), b"abcd");
        }
    }

    #[test]
    fn a_node_that_sends_without_an_end_is_not_read_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::create(folder.path().join("f")).unwrap();
        for sent in ["x".repeat(HEAD_BYTES + 1), "644 4\nabcde".to_owned()] {
            let mut into =
                Incoming { file: &mut file, head: Some(vec![]), mode: 0, want: 0, have: 0 };
            let mut sent = sent.as_bytes().chunks(7);
            assert!(sent.any(|piece| into.write_all(piece).is_err()));
        }
        assert!(file.metadata().unwrap().len() <= 4);
        let mut said = Said(Vec::new());
        said.write_all(&[b'x'; 2 * SAID_BYTES]).unwrap();
        said.write_all(b"x").unwrap();
        assert_eq!(said.0.len(), SAID_BYTES);
    }

    #[test]
    fn a_file_that_does_not_come_whole_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "old").unwrap();
        let failed = whole(&path, None, |file| {
            file.write_all(b"new").unwrap();
            complete(&path, 3, 4)
        });
        let failed = failed.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Interrupted);
        assert!(failed.to_string().contains("3 of 4 bytes came"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        whole(&path, None, |file| {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            Ok(())
        })
        .unwrap();
        let other = folder.path().join("other");
        std::os::unix::fs::symlink(&other, part_of(&path)).unwrap();
        assert!(whole(&path, None, |_| Ok(())).is_err() && !other.exists());
        assert_eq!(place(folder.path(), Path::new("/a/b")), folder.path().join("b"));
    }
}
