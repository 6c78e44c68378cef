//! Files of kernel modules, and files that an image is made of.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use kumiki_boot::Compression;
use kumiki_node_wire::device;

use crate::{Error, ErrorKind, Result, Subject};

/// A module's name and its file, uncompressed: whether a node's kernel could do that is
/// its own affair. One of another kernel would not be loaded.
pub(crate) fn module(path: &Path, release: Option<&str>) -> Result<(String, Vec<u8>)> {
    let refused = |why: String| {
        Error::refused(
            ErrorKind::Invalid,
            Subject::File(path.to_owned()),
            format!("{}: {why}", path.display()),
        )
    };
    let bytes = read(path)?;
    let compression =
        Compression::of(&bytes).map_err(|_| refused("it is no kernel module".into()))?;
    let bytes = compression.decompress(&bytes)?;
    let name = modinfo(&bytes, "name").filter(|name| !name.is_empty() && !name.contains('/'));
    let name = name.ok_or_else(|| refused("it is no kernel module, having no name".into()))?;
    let magic = modinfo(&bytes, "vermagic").unwrap_or_default();
    let built_for = magic.split(' ').next().unwrap_or_default();
    match release {
        Some(release) if built_for != release => Err(refused(format!(
            "it is built for kernel {built_for}, and this one is {release}: build it for that"
        ))),
        _ => Ok((name, bytes)),
    }
}

/// Facts that a module states of itself in its `.modinfo`: `key=value`, each with a zero
/// before and behind it.
pub(crate) fn modinfo(module: &[u8], key: &str) -> Option<String> {
    modinfos(module, key).into_iter().next()
}

/// Values of a key that a module may have several times.
pub(crate) fn modinfos(module: &[u8], key: &str) -> Vec<String> {
    let mark = format!("\0{key}=");
    let value = |at: usize| {
        let end = at + memchr::memchr(0, &module[at..])?;
        String::from_utf8(module[at..end].to_vec()).ok()
    };
    let places = memchr::memmem::find_iter(module, mark.as_bytes());
    places.filter_map(|at| value(at + mark.len())).collect()
}

/// Reads a file that the host has the memory for, twice: here and in the image.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::file(path, error);
    let available = device::available_bytes()?.saturating_sub(device::HOST_KEEPS_BYTES);
    let within = |bytes: u64| {
        if bytes <= available / 2 {
            return Ok(());
        }
        Err(Error::refused(
            ErrorKind::NoMemory,
            Subject::Memory { asked: bytes, most: available / 2 },
            format!(
                "{}: its {bytes} bytes are read, and then kept in the image: too large for the \
             {available} bytes of memory that are available",
                path.display()
            ),
        ))
    };
    let file = File::open(path).map_err(failed)?;
    within(file.metadata().map_err(failed)?.len())?;
    // A pipe or a device does not say how much will come.
    let mut bytes = Vec::new();
    file.take(available / 2 + 1).read_to_end(&mut bytes).map_err(failed)?;
    within(bytes.len() as u64)?;
    Ok(bytes)
}
