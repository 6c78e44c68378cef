//! An open file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use kumiki_parasc::op::path::terminated;
use kumiki_parasc::op::{BufferMut, CWD, Errno, Fdatasync, Fsync, Openat, Pread, Pwrite};
use kumiki_parasc::tries::{NotMade, attempt};
use rustix::fs::{Mode, OFlags};

use crate::engine::{hand_over, invalid, make};
use crate::fs::{Metadata, metadata_of};
use crate::{memory, turn};

/// The most of a read or a write that is handed over at once: what is more is a second call.
pub(crate) const PIECE: usize = 1 << 20;

/// An open file, read and written at offsets. A clone is the same open file.
///
/// There is no position: tasks that share a file do not disturb each other.
#[derive(Clone, Debug)]
pub struct File {
    descriptor: Arc<OwnedFd>,
}

impl File {
    /// Opens the file for reading.
    ///
    /// It is opened with `O_NONBLOCK`, which means nothing to files, so that the open of a FIFO
    /// waits for nobody.
    ///
    /// # Errors
    /// As [`std::fs::File::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        File::open_with(path, OFlags::RDONLY, Mode::empty()).await
    }

    /// Opens the file for writing, makes it if there is none, and cuts it to no length.
    ///
    /// # Errors
    /// As [`std::fs::File::create`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        File::open_with(path, flags, Mode::from_raw_mode(0o666)).await
    }

    /// Opens the file with these flags of open(2), beside `O_CLOEXEC` and `O_NONBLOCK`.
    ///
    /// A file that somebody has a lease of (fcntl(2), `F_SETLEASE`) is waited for, unless `flags`
    /// have `O_NONBLOCK` themselves.
    ///
    /// # Errors
    /// As open(2), and `InvalidInput` for a path with a zero byte.
    pub async fn open_with(path: impl AsRef<Path>, flags: OFlags, mode: Mode) -> io::Result<File> {
        let path = terminated(path).map_err(invalid)?;
        let asked = flags | OFlags::CLOEXEC;
        let flags = asked | OFlags::NONBLOCK;
        let opened = make(Openat::new(CWD, path, flags, mode)).await?;
        match opened.output {
            Err(Errno::AGAIN) if !asked.contains(OFlags::NONBLOCK) => {
                let (_, path, _, _) = opened.operation.into_parts();
                let opened = hand_over(Openat::new(CWD, path, asked, mode)).await?;
                Ok(File::from(opened.output?))
            }
            opened => Ok(File::from(opened?)),
        }
    }

    /// A file that is open already.
    pub fn from_std(file: std::fs::File) -> File {
        File::from(OwnedFd::from(file))
    }

    /// Reads at `offset` bytes from the start, as many as there are and there is room for; 0 at
    /// the end of the file.
    ///
    /// What is in memory is read into `buffer` by one system call, and ready at once. What is
    /// not is read by another thread into memory of its own, up to 1 MiB at a time, and copied.
    /// Of a file with `O_DIRECT` offset and length have to fit its device; `buffer` may lie
    /// anywhere.
    ///
    /// # Errors
    /// As pread(2).
    #[inline]
    pub async fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = Pread::new(&*self.descriptor, offset, &mut *buffer);
        if let Ok(made) = attempt(&mut read) {
            turn::take().await;
            return Ok(made?);
        }
        self.read_cold(buffer, offset).await
    }

    #[inline(never)]
    async fn read_cold(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let room = memory::aligned(buffer.len().min(PIECE))?;
        let (read, count) = self.hand_over_read(room, offset).await?;
        // No more than there was room for.
        buffer[..count].copy_from_slice(&read.as_ref()[..count]);
        Ok(count)
    }

    /// Reads as [`read_at`](Self::read_at), into a buffer that is handed over with the read and
    /// comes back with it: nothing is copied where it would sleep.
    ///
    /// # Errors
    /// As pread(2). The buffer is lost only if the future is dropped, or if there is no engine.
    pub async fn read_at_into<B: BufferMut + Send + 'static>(
        &self,
        buffer: B,
        offset: u64,
    ) -> io::Result<(usize, B)> {
        let read = make(Pread::new(Arc::clone(&self.descriptor), offset, buffer)).await?;
        turn::take().await;
        let count = read.output?;
        Ok((count, read.operation.into_buffer()))
    }

    /// Reads `buffer` full, from `offset` on.
    ///
    /// # Errors
    /// As pread(2), and `UnexpectedEof` if the file ends before.
    pub async fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset).await {
                Ok(0) => {
                    let text = format!("the file ends at {offset}, {} bytes early", buffer.len());
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
                }
                Ok(count) => {
                    buffer = &mut buffer[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes at `offset` bytes from the start, and says how many; at the end if it was opened
    /// with `O_APPEND`.
    ///
    /// Where the file system can say that it need not sleep (XFS, btrfs), the write is made at
    /// once; elsewhere another thread makes it, of a copy of up to 1 MiB. If the future is
    /// dropped, it may have been made or may still be.
    ///
    /// # Errors
    /// As pwrite(2).
    pub async fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        let mut write = Pwrite::new(&*self.descriptor, data, offset);
        if let Ok(made) = attempt(&mut write) {
            turn::take().await;
            return Ok(made?);
        }
        let data = memory::aligned_copy(&data[..data.len().min(PIECE)])?;
        Ok(hand_over(Pwrite::new(Arc::clone(&self.descriptor), data, offset)).await?.output?)
    }

    /// Writes all of `data`, from `offset` on.
    ///
    /// # Errors
    /// As pwrite(2), and `WriteZero` if the kernel takes nothing.
    pub async fn write_all_at(&self, mut data: &[u8], mut offset: u64) -> io::Result<()> {
        while !data.is_empty() {
            match self.write_at(data, offset).await {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    data = &data[count..];
                    offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Has what was written brought to the disk: fdatasync(2), by another thread.
    ///
    /// # Errors
    /// As fdatasync(2).
    pub async fn sync_data(&self) -> io::Result<()> {
        Ok(hand_over(Fdatasync::new(Arc::clone(&self.descriptor))).await?.output?)
    }

    /// Writes data and all attributes to the disk: fsync(2).
    ///
    /// # Errors
    /// As fsync(2).
    pub async fn sync_all(&self) -> io::Result<()> {
        Ok(hand_over(Fsync::new(Arc::clone(&self.descriptor))).await?.output?)
    }

    /// The file's attributes.
    ///
    /// # Errors
    /// As statx(2).
    pub async fn metadata(&self) -> io::Result<Metadata> {
        metadata_of(Arc::clone(&self.descriptor)).await
    }

    /// Reads behind what `buffer` holds, within its spare capacity, if that need not sleep.
    pub(crate) fn try_read(&self, buffer: &mut Vec<u8>, offset: u64) -> Option<io::Result<usize>> {
        match attempt(&mut Pread::new(&*self.descriptor, offset, buffer)) {
            Ok(made) => Some(made.map_err(io::Error::from)),
            Err(NotMade::WouldSleep | NotMade::Cannot(_) | NotMade::NotHere(_)) => None,
        }
    }

    /// Reads into this memory.
    #[cfg(feature = "tokio")]
    pub(crate) fn try_read_slice(
        &self,
        buffer: &mut [u8],
        offset: u64,
    ) -> Option<io::Result<usize>> {
        let made = attempt(&mut Pread::new(&*self.descriptor, offset, buffer)).ok()?;
        Some(made.map_err(io::Error::from))
    }

    /// Reads by another thread, into what room the buffer has.
    pub(crate) async fn hand_over_read<B: BufferMut + Send + 'static>(
        &self,
        buffer: B,
        offset: u64,
    ) -> io::Result<(B, usize)> {
        let mut read = Pread::new(Arc::clone(&self.descriptor), offset, buffer);
        loop {
            let made = hand_over(read).await?;
            match made.output {
                Ok(count) => return Ok((made.operation.into_buffer(), count)),
                Err(Errno::INTR) => {
                    let (file, offset, buffer) = made.operation.into_parts();
                    read = Pread::new(file, offset, buffer);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// True if it is read past the cache, so that a device writes to the caller's memory itself.
    pub(crate) fn is_direct(&self) -> bool {
        rustix::fs::fcntl_getfl(&self.descriptor).is_ok_and(|it| it.contains(OFlags::DIRECT))
    }

    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File { descriptor: Arc::new(descriptor) }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
