//! The calls whose walls are known: each with what its threads have in common.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::stat;
use rustix::process::getppid;

/// One thread's call, to be made again and again.
pub(crate) type Make = Box<dyn FnMut() -> io::Result<()>>;

/// A call, made by several threads at once.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// Thing that its threads share, and may queue for.
    pub(crate) shares: &'static str,
    /// Prepares one thread's, by the folder that all have and by the thread's number.
    pub(crate) prepare: fn(&Path, usize) -> io::Result<Make>,
}

/// Pages that one fault call touches.
const PAGES: usize = 64;
const PAGE: usize = 4096;

pub(crate) const CALLS: [Call; 15] = [
    Call {
        name: "getppid",
        shares: "nothing",
        prepare: |_, _| {
            Ok(Box::new(|| {
                let _ = getppid();
                Ok(())
            }))
        },
    },
    Call {
        name: "stat, own file",
        shares: "nothing",
        prepare: |folder, number| status(own(folder, number)?),
    },
    Call { name: "stat, one file", shares: "a name", prepare: |folder, _| status(one(folder)?) },
    Call {
        name: "open, own file",
        shares: "nothing",
        prepare: |folder, number| opened(own(folder, number)?),
    },
    Call {
        name: "open, one file",
        shares: "a name and its count",
        prepare: |folder, _| opened(one(folder)?),
    },
    Call {
        name: "read, own file",
        shares: "nothing",
        prepare: |folder, number| page_of(own(folder, number)?),
    },
    Call { name: "read, one file", shares: "a page", prepare: |folder, _| page_of(one(folder)?) },
    Call { name: "write, own file", shares: "nothing", prepare: written },
    Call { name: "rename", shares: "a folder", prepare: renamed },
    Call { name: "make and unlink", shares: "a folder", prepare: unlinked },
    Call {
        name: "map and unmap",
        shares: "the process's memory",
        prepare: |_, _| Ok(Box::new(|| mapped(1))),
    },
    Call {
        name: "page faults, 64",
        shares: "the process's memory",
        prepare: |_, _| Ok(Box::new(|| mapped(PAGES))),
    },
    Call { name: "pipe, a byte", shares: "nothing", prepare: piped },
    Call { name: "connect", shares: "ports", prepare: connected },
    Call {
        name: "start a program",
        shares: "the list of processes",
        prepare: |_, _| Ok(Box::new(started)),
    },
];

/// A file of this thread alone, in a folder of its own.
fn own(folder: &Path, number: usize) -> io::Result<PathBuf> {
    let folder = folder.join(format!("own-{number}"));
    fs::create_dir_all(&folder)?;
    filled(folder.join("file"))
}

/// The file of all threads.
fn one(folder: &Path) -> io::Result<PathBuf> {
    filled(folder.join("one"))
}

fn filled(path: PathBuf) -> io::Result<PathBuf> {
    // Whoever comes second finds it; a file that is written anew would be short for a moment.
    match File::create_new(&path) {
        Ok(mut file) => file.write_all(&[7; PAGE])?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
        Err(error) => return Err(error),
    }
    Ok(path)
}

fn status(path: PathBuf) -> io::Result<Make> {
    Ok(Box::new(move || Ok(stat(&path).map(drop)?)))
}

fn opened(path: PathBuf) -> io::Result<Make> {
    Ok(Box::new(move || File::open(&path).map(drop)))
}

fn page_of(path: PathBuf) -> io::Result<Make> {
    let file = File::open(path)?;
    let mut page = [0; PAGE];
    Ok(Box::new(move || file.read_at(&mut page, 0).map(drop)))
}

fn written(folder: &Path, number: usize) -> io::Result<Make> {
    let file = File::options().write(true).open(own(folder, number)?)?;
    Ok(Box::new(move || file.write_at(&[1; PAGE], 0).map(drop)))
}

fn renamed(folder: &Path, number: usize) -> io::Result<Make> {
    let mut names = [folder.join(format!("name-{number}")), folder.join(format!("other-{number}"))];
    File::create(&names[0])?;
    Ok(Box::new(move || {
        fs::rename(&names[0], &names[1])?;
        names.swap(0, 1);
        Ok(())
    }))
}

fn unlinked(folder: &Path, number: usize) -> io::Result<Make> {
    let name = folder.join(format!("made-{number}"));
    Ok(Box::new(move || {
        File::create(&name)?;
        fs::remove_file(&name)
    }))
}

fn mapped(pages: usize) -> io::Result<()> {
    let mut memory = memmap2::MmapMut::map_anon(pages * PAGE)?;
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    Ok(())
}

fn piped(_: &Path, _: usize) -> io::Result<Make> {
    let (mut reader, mut writer) = io::pipe()?;
    let mut byte = [0];
    Ok(Box::new(move || {
        writer.write_all(&[1])?;
        reader.read_exact(&mut byte)
    }))
}

fn connected(_: &Path, _: usize) -> io::Result<Make> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    Ok(Box::new(move || {
        let client = TcpStream::connect(address)?;
        let (server, _) = listener.accept()?;
        // A reset leaves no port behind that waits for a minute.
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO))?;
        drop((client, server));
        Ok(())
    }))
}

fn started() -> io::Result<()> {
    let status = Command::new("/bin/true").stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("/bin/true: {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_can_be_made_again_and_by_two() {
        let folder = tempfile::tempdir().unwrap();
        for call in CALLS {
            for number in 0..2 {
                let mut make = (call.prepare)(folder.path(), number).unwrap();
                (0..3)
                    .for_each(|_| make().unwrap_or_else(|error| panic!("{}: {error}", call.name)));
            }
        }
    }
}
