//! Files and folders into a node and out of it, through a channel: there this very program takes
//! them from its input, or writes them to its output.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kumiki_destination::{About, Destination, STDOUT};
use kumiki_node_wire::AGENT;
use kumiki_node_wire::wish::Run;
use kumiki_stream::exec::Client;

use crate::node::folders::{self, NODES_MODE};
use crate::node::session::{Ending, Session};
use crate::{Error, ErrorKind, Result, Subject};

/// Bytes at most that a node says before a file: its mode and size.
const HEAD_BYTES: usize = 64;
/// Bytes that are kept of why a node refuses.
const SAID_BYTES: usize = 4096;
/// Exit status of the agent's program that was asked for a folder as a file: EISDIR.
pub const IS_FOLDER: u8 = 21;

/// Side of a copy that has failed.
enum Failed {
    Here(io::Error),
    There(Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Failed::Here(error)
    }
}

/// Has `fill` write what a person named, which is there whole, or as it was.
fn whole(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<About>) -> Result<()> {
    let written = Destination::new(path).map_err(Failed::Here);
    let fill = |out: &mut dyn Write| fill(out).map_err(Failed::There);
    written.and_then(|destination| destination.write_as(fill)).map_err(|failed| match failed {
        Failed::Here(error) => Error::file(path, error),
        Failed::There(error) => error,
    })
}

/// A file's times as it is sent: seconds since 1970, before a point and nanoseconds.
fn sent_time(about: &fs::Metadata) -> String {
    format!("{}.{:09}", about.mtime(), about.mtime_nsec())
}

/// Time as it was received; none if this machine has no word for it.
fn received_time(text: &str) -> Option<SystemTime> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    let (seconds, nanoseconds): (i64, u32) = (seconds.parse().ok()?, nanoseconds.parse().ok()?);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    base?.checked_add(Duration::from_nanos(nanoseconds.into()))
}

/// A file's own place, or one of its name in the folder that is there.
fn place(target: &Path, source: &Path) -> PathBuf {
    match source.file_name() {
        Some(name) if target.is_dir() => target.join(name),
        _ => target.to_owned(),
    }
}

/// Makes, in the node, a file of so many bytes out of standard input.
pub fn take(target: &Path, name: &Path, mode: u32, bytes: u64, time: Option<&str>) -> Result<()> {
    if name.as_os_str().is_empty() && target.is_dir() {
        // What has no name is an archive of what goes there.
        let unpacked = folders::unpack(io::stdin().lock(), target);
        return unpacked.map_err(|error| Error::file(target, error));
    }
    whole(&place(target, name), |file| {
        let taken = io::copy(&mut io::stdin().lock(), file);
        let taken = taken.map_err(|error| Error::file(target, error))?;
        complete(target, taken, bytes)?;
        Ok(About { mode: Some(mode & 0o7777), modified: time.and_then(received_time) })
    })
}

fn complete(path: &Path, have: u64, want: u64) -> Result<()> {
    if have == want {
        return Ok(());
    }
    Err(Error::refused(
        ErrorKind::Interrupted,
        Subject::File(path.to_owned()),
        format!(
            "{}: {have} of {want} bytes came: the file has changed, or its sender has ended",
            path.display()
        ),
    ))
}

/// Sends, in the node, a file to standard output, behind a line with its mode, size and time.
pub fn give(source: &Path) -> Result<()> {
    let failed = |error| Error::file(source, error);
    // Before it is opened, which may wait for who writes to a pipe.
    let about = fs::metadata(source).map_err(failed)?;
    if about.is_dir() {
        let what = format!("{}: it is a folder", source.display());
        let subject = Subject::Folder(source.to_owned());
        return Err(Error::refused(ErrorKind::Invalid, subject, what));
    }
    if !about.is_file() {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::File(source.to_owned()),
            format!("{}: it is no file", source.display()),
        ));
    }
    let mut file = File::open(source).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    let mut out = io::stdout().lock();
    let (mode, time) = (about.permissions().mode(), sent_time(&about));
    writeln!(out, "{mode:o} {} {time}", about.len()).map_err(failed)?;
    io::copy(&mut file, &mut out).and_then(|_| out.flush()).map_err(failed)
}

/// Makes, in the node, a folder out of standard input, an archive.
pub fn take_folder(target: &Path, name: &Path) -> Result<()> {
    let folder = place(target, name);
    folders::unpack(io::stdin().lock(), &folder).map_err(|error| Error::file(&folder, error))
}

/// Sends, in the node, a folder to standard output, as an archive.
pub fn give_folder(source: &Path) -> Result<()> {
    folders::pack(source, io::stdout().lock()).map_err(|error| Error::file(source, error))
}

fn run(node: &str, words: &[String], input: Option<&File>, out: &mut dyn Write) -> Result<()> {
    let program = [AGENT, "node", "file"].map(str::to_owned).into_iter();
    let run_there = Run::beside_root(program.chain(words.to_vec()));
    let mut said = Said(Vec::new());
    let mut client = Client { input: input.map(AsFd::as_fd), out, err: &mut said, orders: None };
    let ending = Session::open(node)?.run(&run_there, &mut client)?;
    if ending == Ending::Exited(0) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said.0);
    let text = format!("node {node}: {}", said.trim().trim_start_matches("kumiki: "));
    if ending == Ending::Exited(IS_FOLDER) {
        let subject = Subject::Folder(words.last().map(PathBuf::from).unwrap_or_default());
        return Err(Error::refused(ErrorKind::Refused, subject, text));
    }
    Err(Error::refused(ErrorKind::Refused, Subject::node(node), text))
}

/// Copies a file or a folder of the host to a place in a node. `-` is standard input: for a folder that
/// is there a tar archive, else a file.
pub fn into_node(node: &str, source: &Path, target: &str) -> Result<()> {
    let failed = |error| Error::file(source, error);
    if source != Path::new(STDOUT) && fs::metadata(source).map_err(failed)?.is_dir() {
        return folder_into_node(node, source, target);
    }
    let file = match source == Path::new(STDOUT) {
        true => from_stdin().map_err(failed)?,
        false if fs::metadata(source).map_err(failed)?.is_file() => {
            File::open(source).map_err(failed)?
        }
        false => {
            let what = format!("{}: it is no file and no folder", source.display());
            return Err(Error::refused(ErrorKind::Invalid, Subject::File(source.to_owned()), what));
        }
    };
    let about = file.metadata().map_err(failed)?;
    let name = match source == Path::new(STDOUT) {
        true => String::new(),
        false => source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let (mode, bytes) = (about.permissions().mode(), about.len());
    let (mode, bytes, time) = (format!("{mode:o}"), bytes.to_string(), sent_time(&about));
    let words = ["take", target, &name, &mode, &bytes, &time];
    run(node, &words.map(str::to_owned), Some(&file), &mut io::sink())
}

/// All of standard input, as a file: a node is told how much comes.
fn from_stdin() -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.rewind()?;
    Ok(file)
}

fn folder_into_node(node: &str, source: &Path, target: &str) -> Result<()> {
    // Of `.` and `..` the name, too.
    let name = fs::canonicalize(source).map_err(|error| Error::file(source, error))?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words = ["take-folder".to_owned(), target.to_owned(), name];
    let (packed, ran) = folders::piped(
        |writer| folders::pack(source, writer),
        |reader| {
            let input = File::from(std::os::fd::OwnedFd::from(reader));
            run(node, &words, Some(&input), &mut io::sink())
        },
    )
    .map_err(|error| Error::file(source, error))?;
    match packed {
        // The node's program has ended, and says why.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ran,
        packed => packed.map_err(|error| Error::file(source, error)).and(ran),
    }
}

/// Copies a file or a folder of a node to a place here; `-` is standard output, for a folder as a tar
/// archive. A folder's place must be none that is there.
pub fn out_of_node(node: &str, source: &str, target: &Path) -> Result<()> {
    let to = place(target, Path::new(source));
    if target != Path::new(STDOUT) && to.is_dir() {
        let why = "it is there already, a folder: remove it, or give another name";
        return Err(Error::file(&to, io::Error::new(io::ErrorKind::AlreadyExists, why)));
    }
    match file_out_of_node(node, source, target) {
        Err(error) if matches!(error.subject(), Some(Subject::Folder(_))) => {}
        done => return done,
    }
    let words = ["give-folder".to_owned(), source.to_owned()];
    if target == Path::new(STDOUT) {
        return whole(target, |out| run(node, &words, None, out).map(|()| About::default()));
    }
    let failed = |error| Error::file(&to, error);
    let (ran, received) = folders::piped(
        |mut writer| run(node, &words, None, &mut writer),
        |reader| folders::receive(reader, &to),
    )
    .map_err(failed)?;
    match received {
        Ok(received) => ran.and_then(|()| received.complete().map_err(failed)),
        // The node ended in the middle, and its error says more.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ran.and(Err(failed(error))),
        Err(error) => Err(failed(error)),
    }
}

fn file_out_of_node(node: &str, source: &str, target: &Path) -> Result<()> {
    whole(&place(target, Path::new(source)), |file| {
        let mut into = Incoming::new(file);
        run(node, &["give".to_owned(), source.to_owned()], None, &mut into)?;
        let Incoming { mode, have, want, modified, .. } = into;
        complete(target, have, want)?;
        Ok(About { mode: Some(mode & NODES_MODE), modified })
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
    file: &'a mut dyn Write,
    head: Option<Vec<u8>>,
    mode: u32,
    want: u64,
    have: u64,
    modified: Option<SystemTime>,
}

impl<'a> Incoming<'a> {
    fn new(file: &'a mut dyn Write) -> Self {
        Incoming { file, head: Some(Vec::new()), mode: 0, want: 0, have: 0, modified: None }
    }
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
        let parsed = text.split_once(' ').and_then(|(mode, rest)| {
            let (bytes, time) = rest.split_once(' ').unwrap_or((rest, ""));
            let mode = u32::from_str_radix(mode, 8).ok()?;
            Some((mode, bytes.parse().ok()?, received_time(time)))
        });
        let parsed = parsed.ok_or_else(|| io::Error::other("no file comes"))?;
        (self.mode, self.want, self.modified) = parsed;
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
    fn a_folder_where_a_file_is_asked_for_is_told_by_its_subject() {
        let folder = tempfile::tempdir().unwrap();
        let error = give(folder.path()).unwrap_err();
        assert_eq!(error.subject(), Some(Subject::Folder(folder.path().to_owned())));
        assert!(error.to_string().ends_with(": it is a folder"), "{error}");
    }

    #[test]
    fn a_file_comes_behind_its_first_line_in_any_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for pieces in [vec!["644 4\nab", "cd"], vec!["64", "4 4 7.5", "\n", "abcd"]] {
            let mut file = File::create(&path).unwrap();
            let mut into = Incoming::new(&mut file);
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
            let mut into = Incoming::new(&mut file);
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
        let failed = whole(&path, |file| {
            file.write_all(b"new").unwrap();
            complete(&path, 3, 4).map(|()| About::default())
        });
        let failed = failed.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Interrupted);
        assert!(failed.to_string().contains("3 of 4 bytes came"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(place(folder.path(), Path::new("/a/b")), folder.path().join("b"));
    }

    #[test]
    fn a_time_arrives_as_it_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "").unwrap();
        for nanoseconds in [-1_500_000_000, 0, 1_000_000_000_000_000_007i64] {
            let since = Duration::from_nanos(nanoseconds.unsigned_abs());
            let time = match nanoseconds {
                0.. => SystemTime::UNIX_EPOCH + since,
                _ => SystemTime::UNIX_EPOCH - since,
            };
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            let sent = sent_time(&fs::metadata(&path).unwrap());
            assert_eq!(received_time(&sent), Some(time), "{sent}");
        }
        for none in ["", "x.1", "9223372036854775808.0", "1"] {
            assert_eq!(received_time(none), None, "{none}");
        }
    }
}
