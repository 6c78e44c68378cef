//! Images beside their layers: small files of JSON, and references by hash.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::packed::Hashed;
use crate::{Error, Result};

/// Length of a manifest or configuration at the most.
const JSON_BYTES: u64 = 4 << 20;

/// A layer: a part of a file.
pub(crate) struct Layer {
    pub(crate) file: PathBuf,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Hash of these bytes, if the image says it.
    pub(crate) sha256: Option<String>,
}

/// A reference, as OCI has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) os: String,
}

/// Parts of an image.
pub(crate) struct Parts {
    pub(crate) config: crate::program::Config,
    pub(crate) layers: Vec<Layer>,
}

/// The hash of a digest that is one.
pub(crate) fn sha256(digest: &str) -> Result<&str, String> {
    let hash = digest.strip_prefix("sha256:").filter(|hash| {
        hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    hash.ok_or_else(|| format!("the digest {digest:?}: sha256 and 64 digits are expected"))
}

/// Opens a regular file. Anything else, whose opening might wait or do something, is refused by what it
/// is: looked at by `O_PATH` first, as who writes to a pipe would lose a reader that has only looked.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let look = OFlags::PATH | OFlags::CLOEXEC;
    regular(&File::from(rustix::fs::open(path, look, Mode::empty())?))?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    // The name may lead elsewhere by now.
    regular(&file)?;
    Ok(file)
}

fn regular(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a pipe",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {what}: a regular file is expected")))
}

/// Parses JSON of so many bytes.
pub(crate) fn json<T: DeserializeOwned>(what: &str, from: impl Read) -> Result<T, String> {
    let mut bytes = Vec::new();
    let read = from.take(JSON_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{what}: {error}"))?;
    if bytes.len() as u64 > JSON_BYTES {
        return Err(format!("{what}: more than {JSON_BYTES} bytes, which no image's has"));
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("{what}: {error}"))
}

/// A file of a folder's, by its hash, which it must have.
pub(crate) fn blob<T: DeserializeOwned>(folder: &Path, digest: &str) -> Result<T, String> {
    let hash = sha256(digest)?;
    let path = folder.join("blobs/sha256").join(hash);
    let open = || open(&path).map_err(|error| format!("{digest}: {error}"));
    let have = Hashed::new(open()?.take(JSON_BYTES + 1)).finish();
    if have.map_err(|error| format!("{digest}: {error}"))? != hash {
        return Err(format!("{digest}: its file has another hash: copy the image again"));
    }
    json(digest, open()?)
}

pub(crate) fn refused<I: std::fmt::Display + ?Sized>(
    image: &I,
) -> impl Fn(String) -> Error + use<I> {
    let image = image.to_string();
    move |problem| Error::Image { image: image.clone(), problem }
}
