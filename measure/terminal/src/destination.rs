//! A file that a person asked to be written, with errors that say what to do.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
pub use kumiki_destination::STDOUT;

/// File to be written, checked before long work starts. What the file held stays until its
/// successor is complete.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    inner: kumiki_destination::Destination,
}

impl Destination {
    /// Looks at what is at `path`, and changes nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(path: &Path) -> Result<Self> {
        let inner = kumiki_destination::Destination::new(path).with_context(|| {
            format!("{} cannot be written; choose another --output", path.display())
        })?;
        Ok(Destination { path: path.to_owned(), inner })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of `fill`, and of the disk.
    pub fn write(self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let Destination { path, inner } = self;
        let is_stdout = inner.is_stdout();
        inner.write(fill).with_context(|| match is_stdout {
            true => "writing to standard output".to_owned(),
            false => format!("writing {}", path.display()),
        })
    }
}
