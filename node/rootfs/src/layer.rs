//! One archive, as a layer over what is there: its entries become names of the tree.

use std::collections::BTreeMap;
use std::io::Read;

use crate::archive::{Archive, Kind, Member};
use crate::error::Fault;
use crate::limits::Limits;
use crate::store::{KeepFailed, Store};
use crate::tree::{PATH_BYTES, Tree, What, parts};
use crate::{Error, Result};

/// Prefix of the name of a hidden file (OCI image specification, `layer.md`).
const WHITEOUT: &[u8] = b".wh.";
/// Name in a folder whose lower layers are hidden.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Prefix of others, which are notes of a file system's own.
const WHITEOUT_NOTE: &[u8] = b".wh..wh.";
const DEVICES: &[u8] = b"dev/";
/// Names on the ways of links to an image's files, all ways together. The largest images have one
/// link of two names on the way to each file.
const LINKED_NAMES: u64 = 16 << 20;
/// XATTR_NAME_MAX and XATTR_SIZE_MAX of Linux.
const ATTRIBUTE_NAME: usize = 255;
const ATTRIBUTE_BYTES: usize = 65_536;
/// Attributes of the system that a file may have: access control lists, as the kernel writes them.
const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];

/// An image while it is read.
pub(crate) struct Reading<'a> {
    pub(crate) image: &'a str,
    pub(crate) tree: Tree,
    pub(crate) store: Store,
    pub(crate) limits: Limits,
    pub(crate) entries: u64,
    /// Bytes of names, targets and attributes.
    names: u64,
    /// Device files of `/dev`, which a node has of its own.
    pub(crate) left_out: u64,
}

impl<'a> Reading<'a> {
    /// Begins with nothing read yet but the entries of this tree.
    pub(crate) fn new(image: &'a str, tree: Tree, store: Store, limits: Limits) -> Self {
        Reading { image, tree, store, limits, entries: 0, names: 0, left_out: 0 }
    }

    fn refuse(&self, problem: Fault) -> Error {
        Error::Image { image: self.image.to_owned(), problem }
    }

    /// Reads an archive. Whiteouts are ordinary files in what is no layer of several.
    pub(crate) fn layer(&mut self, archive: impl Read, layer: u32, whiteouts: bool) -> Result<()> {
        let mut archive = Archive::new(archive);
        while let Some(member) = archive.next().map_err(|fault| self.refuse(fault))? {
            self.entries += 1;
            if self.entries.max(self.tree.len() as u64) > self.limits.entries {
                let limit = self.limits.entries;
                return Err(self.refuse(format!("it has more than {limit} files, the limit")));
            }
            self.count(&member).map_err(|fault| self.refuse(fault))?;
            self.entry(member, &mut archive, layer, whiteouts)?;
            if self.tree.linked_names() > LINKED_NAMES {
                return Err(self.refuse(format!(
                    "links on the ways to its files lead through more than {LINKED_NAMES} names, \
                     the limit"
                )));
            }
        }
        Ok(())
    }

    /// Counts what stays in memory of an entry.
    fn count(&mut self, member: &Member) -> Result<(), Fault> {
        let attributes = member.about.attributes.iter();
        let attributes: usize = attributes.map(|(name, value)| name.len() + value.len()).sum();
        let bytes = member.path.len() + member.linked.len() + attributes;
        self.names = self.names.saturating_add(bytes as u64);
        if self.names > self.limits.names {
            return Err(format!(
                "{}: with it the image has more than {} bytes of names, links and attributes, the \
                 limit",
                member.shown(),
                self.limits.names
            ));
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        member: Member,
        archive: &mut Archive<R>,
        layer: u32,
        whiteouts: bool,
    ) -> Result<()> {
        let bare = parts(&member.path).collect::<Vec<_>>().join(&b'/');
        if whiteouts && self.whiteout(&bare, layer)? {
            return Ok(());
        }
        let of = |fault: Fault| format!("{}: {fault}", member.shown());
        attributes(&member).map_err(|fault| self.refuse(of(fault)))?;
        let what = match member.kind {
            Kind::File => What::File(self.content(&member, archive)?),
            Kind::Folder => What::Folder(BTreeMap::new()),
            Kind::Link => {
                let target = link(&member.linked).map_err(|fault| self.refuse(of(fault)))?;
                What::Link(target)
            }
            Kind::HardLink => {
                let made = self.tree.hard_link(&member.path, &member.linked, layer);
                return made.map_err(|fault| self.refuse(fault));
            }
            Kind::Fifo => What::Fifo,
            Kind::Device if bare.starts_with(DEVICES) => {
                self.left_out += 1;
                return Ok(());
            }
            Kind::Device => {
                return Err(self.refuse(of(
                    "a device file, which would reach the node's devices by another name: leave it \
                     out; a node's own are in /dev"
                        .to_owned(),
                )));
            }
        };
        let put = self.tree.put(&member.path, what, member.about, layer);
        put.map_err(|fault| self.refuse(fault))
    }

    /// Carries a whiteout out, and returns true if the entry is one.
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

    fn content<R: Read>(&mut self, member: &Member, archive: &mut Archive<R>) -> Result<u64> {
        let (size, limit) = (member.size(), self.limits.bytes);
        let map = member.map.as_ref();
        let kept = self.store.keep(archive, size, map).map_err(|failed| match failed {
            KeepFailed::Here(error) => error,
            KeepFailed::There(error) => {
                self.refuse(format!("{}: its {size} bytes cannot be read: {error}", member.shown()))
            }
        })?;
        kept.map_err(|_| {
            self.refuse(format!(
                "{}: with it the image has more than {limit} bytes, the limit: what a node's root \
                 has stays in memory",
                member.shown()
            ))
        })
    }
}

/// Target of a link, if it can have one.
fn link(target: &[u8]) -> Result<Vec<u8>, Fault> {
    match target.len() {
        1..=PATH_BYTES if target.contains(&0) => Err("a link to a name with a zero".to_owned()),
        1..=PATH_BYTES => Ok(target.to_vec()),
        length => Err(format!("a link to a name of {length} bytes")),
    }
}

/// Checks that a file of an image may have these attributes.
fn attributes(member: &Member) -> Result<(), Fault> {
    for (name, value) in &member.about.attributes {
        let shown = || String::from_utf8_lossy(name);
        // Others are the kernel's own: `trusted.overlay.opaque` would hide files of a node's.
        let kinds = [&b"user."[..], b"security."];
        if !kinds.iter().any(|kind| name.starts_with(kind)) && !LISTS.contains(&&name[..]) {
            return Err(format!(
                "its attribute {}: only those of user and security, and access control lists, are \
                 an image's",
                shown()
            ));
        }
        if name.len() > ATTRIBUTE_NAME || name.contains(&0) {
            return Err(format!("its attribute {}: no name of an attribute", shown()));
        }
        // GNU tar writes `=` and `%` so, and others the four letters as they are.
        if [&b"%3D"[..], b"%25"].iter().any(|quoted| name.windows(3).any(|of| of == *quoted)) {
            return Err(format!(
                "its attribute {}: a name with % that tar programs read in two ways",
                shown()
            ));
        }
        if value.len() > ATTRIBUTE_BYTES {
            let length = value.len();
            return Err(format!(
                "its attribute {}: {length} bytes, of {ATTRIBUTE_BYTES} at most",
                shown()
            ));
        }
    }
    Ok(())
}
