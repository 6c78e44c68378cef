//! Names of `tokio::fs`, with what kumiki-tokio has of them; the rest is tokio's own.

/// In place of `tokio::fs`.
pub mod fs {
    pub use super::File;
    pub use kumiki_tokio::fs::{
        canonicalize, metadata, read, read_dir, symlink_metadata, try_exists,
    };
    pub use tokio::fs::*;
}

use std::io::{self, SeekFrom};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use kumiki_tokio::Reader;
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

/// A file that is only read, from its beginning.
#[derive(Debug)]
pub struct File(Reader);

impl File {
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        Ok(File(Reader::new(kumiki_tokio::File::open(path).await?, 0)))
    }

    pub fn from_std(file: std::fs::File) -> File {
        File(Reader::new(kumiki_tokio::File::from_std(file), 0))
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        File::from_std(file)
    }
}

impl AsyncRead for File {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncSeek for File {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        Pin::new(&mut self.0).start_seek(to)
    }

    fn poll_complete(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.0).poll_complete(context)
    }
}
