//! One archive, as a layer over what is there: its entries become names of the tree.

use std::collections::BTreeMap;
use std::io::Read;

use tar::{Archive, Entry, EntryType};

use crate::error::Fault;
use crate::limits::Limits;
use crate::store::{KeepFailed, Store};
use crate::tree::{About, PATH_BYTES, Tree, What, parts};
use crate::{Error, Result};

/// Before the name of what is hidden (OCI image specification, `layer.md`).
const WHITEOUT: &[u8] = b".wh.";
/// Name in a folder whose lower layers are hidden.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Others, which are notes of a file system's own.
const WHITEOUT_NOTE: &[u8] = b".wh..wh.";
/// As tar programs name extended attributes in pax headers.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
const DEVICES: &[u8] = b"dev/";

/// An image while it is read.
pub(crate) struct Reading<'a> {
    pub(crate) image: &'a str,
    pub(crate) tree: Tree,
    pub(crate) store: Store,
    pub(crate) limits: Limits,
    pub(crate) entries: u64,
    /// Device files of `/dev`, which a node has of its own.
    pub(crate) left_out: u64,
}

impl Reading<'_> {
    fn refuse(&self, problem: Fault) -> Error {
        Error::Image { image: self.image.to_owned(), problem }
    }

    /// Reads an archive. Whiteouts are ordinary files in what is no layer of several.
    pub(crate) fn layer(&mut self, archive: impl Read, layer: u32, whiteouts: bool) -> Result<()> {
        let mut archive = Archive::new(archive);
        let damaged = |image: &str, error: &std::io::Error| Error::Image {
            image: image.to_owned(),
            problem: format!("no whole tar archive, or one that is damaged: {error}"),
        };
        let entries = archive.entries().map_err(|error| damaged(self.image, &error))?;
        for entry in entries {
            let mut entry = entry.map_err(|error| damaged(self.image, &error))?;
            self.entries += 1;
            if self.entries.max(self.tree.len() as u64) > self.limits.entries {
                let limit = self.limits.entries;
                return Err(self.refuse(format!("it has more than {limit} files, the limit")));
            }
            self.entry(&mut entry, layer, whiteouts)?;
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        layer: u32,
        whiteouts: bool,
    ) -> Result<()> {
        let path = entry.path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&path).into_owned();
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let bare = parts(&path).collect::<Vec<_>>().join(&b'/');
        if whiteouts && self.whiteout(&bare, layer)? {
            return Ok(());
        }
        let about = about(entry).map_err(|fault| self.refuse(format!("{shown}: {fault}")))?;
        let linked = entry.link_name_bytes().map(std::borrow::Cow::into_owned).unwrap_or_default();
        let what = match kind {
            // The oldest archives have no kind for folders.
            EntryType::Regular | EntryType::Continuous if path.ends_with(b"/") => folder(),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                What::File(self.content(entry, &shown)?)
            }
            EntryType::Directory => folder(),
            EntryType::Symlink if linked.is_empty() || linked.len() > PATH_BYTES => {
                let length = linked.len();
                let fault = format!("{shown}: a link to a name of {length} bytes");
                return Err(self.refuse(fault));
            }
            EntryType::Symlink => What::Link(linked),
            EntryType::Link => {
                let made = self.tree.hard_link(&path, &linked, layer);
                return made.map_err(|fault| self.refuse(fault));
            }
            EntryType::Fifo => What::Fifo,
            EntryType::Char | EntryType::Block if bare.starts_with(DEVICES) => {
                self.left_out += 1;
                return Ok(());
            }
            EntryType::Char | EntryType::Block => {
                let fault = format!(
                    "{shown}: a device file, which would reach the node's devices by another \
                     name: leave it out; a node's own are in /dev"
                );
                return Err(self.refuse(fault));
            }
            other => {
                let fault = format!("{shown}: an entry of kind {:?}", char::from(other.as_byte()));
                return Err(self.refuse(fault));
            }
        };
        self.tree.put(&path, what, about, layer).map_err(|fault| self.refuse(fault))
    }

    /// Whether an entry is a whiteout, which is carried out.
    fn whiteout(&mut self, bare: &[u8], layer: u32) -> Result<bool> {
        let at = bare.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let (folder, name) = bare.split_at(at);
        let hidden = match name.strip_prefix(WHITEOUT) {
            None => return Ok(false),
            Some(_) if name == OPAQUE => self.tree.hide(folder, None, layer),
            Some(_) if name.starts_with(WHITEOUT_NOTE) => Ok(()),
            Some(hidden) => self.tree.hide(folder, Some(hidden), layer),
        };
        hidden.map_err(|fault| self.refuse(fault)).map(|()| true)
    }

    fn content<R: Read>(&mut self, entry: &mut Entry<'_, R>, shown: &str) -> Result<u64> {
        let (size, limit) = (entry.size(), self.limits.bytes);
        let kept = self.store.keep(entry).map_err(|failed| match failed {
            KeepFailed::Here(error) => error,
            KeepFailed::There(error) => {
                self.refuse(format!("{shown}: its {size} bytes cannot be read: {error}"))
            }
        })?;
        kept.map_err(|_| {
            self.refuse(format!(
                "{shown}: with it the image has more than {limit} bytes, the limit: what a node's \
                 root has stays in memory"
            ))
        })
    }
}

fn folder() -> What {
    What::Folder(BTreeMap::new())
}

fn about<R: Read>(entry: &mut Entry<'_, R>) -> Result<About, Fault> {
    let header = entry.header();
    let number = |what: &str, value: std::io::Result<u64>| {
        let value = value.map_err(|error| format!("its {what}: {error}"))?;
        u32::try_from(value).map_err(|_| format!("its {what} is {value}, which no file has"))
    };
    let user = number("owner", header.uid())?;
    let group = number("group", header.gid())?;
    let mode = header.mode().map_err(|error| format!("its permissions: {error}"))? & 0o7777;
    let modified = header.mtime().unwrap_or_default();
    let mut attributes = BTreeMap::new();
    let failed = |error: std::io::Error| format!("its attributes: {error}");
    for extension in entry.pax_extensions().map_err(failed)?.into_iter().flatten() {
        let extension = extension.map_err(failed)?;
        let Some(name) = extension.key_bytes().strip_prefix(ATTRIBUTE) else { continue };
        // Others are the kernel's own: `trusted.overlay.opaque` would hide files of a node's.
        if !(name.starts_with(b"user.") || name.starts_with(b"security.")) {
            return Err(format!(
                "its attribute {}: only those of user and security are an image's",
                String::from_utf8_lossy(name)
            ));
        }
        attributes.insert(name.to_vec(), extension.value_bytes().to_vec());
    }
    Ok(About { mode, user, group, modified, attributes })
}
