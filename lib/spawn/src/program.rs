//! An image resident in memory, checked once.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{SealFlags, fcntl_add_seals};

use crate::command::Command;
use crate::image::{self, NoProgram};
use crate::memory::memory;

/// A program whose image is resident in memory: processes of it are made without a look at
/// the disk, also when its file is gone or another one. Nobody can change the image any more.
///
/// ```
/// use kumiki_spawn::Program;
///
/// let echo = Program::load("/bin/echo")?;
/// let output = echo.command().arg("hello").output()?;
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the feature `resource` it is a kind, too, created from a path.
#[derive(Clone, Debug)]
pub struct Program {
    image: Arc<OwnedFd>,
    path: PathBuf,
    bytes: u64,
}

impl Program {
    /// Reads and checks an image.
    ///
    /// # Errors
    /// What the file is instead; no memory is to be had.
    pub fn load(path: impl AsRef<Path>) -> std::result::Result<Program, NoProgram> {
        let path = path.as_ref();
        let bytes = image::read(path)?;
        let keep = || -> io::Result<OwnedFd> {
            let mut file = File::from(memory(path)?);
            file.write_all(&bytes)?;
            let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
            fcntl_add_seals(&file, seals)?;
            Ok(file.into())
        };
        let image =
            keep().map_err(|error| NoProgram::Unreadable { path: path.to_owned(), error })?;
        Ok(Program { image: Arc::new(image), path: path.to_owned(), bytes: bytes.len() as u64 })
    }

    /// Command that makes a process of it: its path is its first argument.
    pub fn command(&self) -> Command {
        Command::of_image(&self.path, Arc::clone(&self.image))
    }

    /// Length of its image.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Path from which it was read.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.image.as_fd()
    }
}
