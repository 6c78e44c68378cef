//! Images: a kernel and an initramfs in memory that every node can read.
//!
//! The first page holds a magic number, a length and that many bytes of JSON;
//! kernel and initramfs follow at multiples of a page. A sealed image is never
//! written again, so a reader relies on what it has checked.

#[doc(hidden)]
pub mod snapshot;

use std::path::Path;
use std::sync::atomic::Ordering;

use kumiki_boot::{Kernel, Piece};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::device::Device;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::memory::blocks::Lock;
use kumiki_node_wire::memory::numa;
use kumiki_node_wire::module::holding::Holding;
use kumiki_node_wire::module::{abi, sysfs};
use kumiki_node_wire::stages::timed;
use kumiki_rootfs::HealthTimes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hash::hex;
use crate::needs::Needs;
use crate::origin::Extent;
use crate::reservation::MemorySource;
use crate::root::{Made, RootPart};
use crate::watchmen::{Telling, abandon};
use crate::{Error, ErrorKind, Result, Subject, listing, reservation, root};
use snapshot::Snapshot;

const MAGIC: u64 = u64::from_le_bytes(*b"kumikimg");
pub const PAGE_BYTES: u64 = 4096;
pub const HEADER_BYTES: u64 = 4 * PAGE_BYTES;

/// Header at an image's beginning.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    pub version: u32,
    /// Hash of the kernel's file, of a bare vmlinux its trimmed bytes, and the initramfs.
    pub sha256: String,
    pub kernel: Kernel,
    pub kernel_bytes: Extent,
    /// The kernel in its shipped form.
    pub bzimage: Option<Kernel>,
    pub bzimage_bytes: Extent,
    pub initramfs: Extent,
    /// Memory that its files take once they are unpacked; 0 if nobody has looked.
    #[serde(default)]
    pub unpacked_bytes: u64,
    /// Place of the kernel's configuration, if that was checked.
    #[serde(default)]
    pub config: Option<String>,
    /// The root of its nodes' programs.
    #[serde(default)]
    pub root: Option<RootPart>,
}

/// An image, mapped for reading.
pub struct Image {
    name: String,
    header: Header,
    memory: Memory,
    /// Memory of its root.
    root: Option<Piece>,
    // Holds the image: it cannot be removed while a descriptor is open. In a node
    // there is none.
    _device: Option<Device>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Form of the kernel that a start copies into a node's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelForm {
    /// Uncompressed, as it runs.
    #[default]
    Vmlinux,
    /// Form that is shipped: it decompresses itself first, the paper's way.
    BzImage,
}

/// Kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageKind {
    /// A kernel and an initramfs, for any node.
    Kernel,
    /// The memory of one node, asleep.
    Snapshot,
}

/// An image as it is listed.
#[derive(Debug, Serialize)]
pub struct ImageInfo {
    /// Its name.
    pub name: String,
    /// Kind: a kernel's image or a snapshot.
    pub kind: ImageKind,
    /// The node that a snapshot was taken of.
    pub of: Option<String>,
    /// Its kernel's release, where the image says it.
    pub release: Option<String>,
    /// Physical memory that it takes.
    pub bytes: u64,
    /// Hash of kernel and initramfs; of a snapshot's pages and their places.
    pub sha256: Option<String>,
    /// Place of the kernel's configuration that was checked; none if none was.
    pub config: Option<String>,
    /// `sealed`; `created` if making it did not come to its end; `damaged` if
    /// something has written to it since.
    pub state: String,
    /// Nodes that start from it; of a snapshot those that may.
    pub nodes: Vec<String>,
    /// Other names of the same memory.
    pub same_as: Vec<String>,
}

impl Header {
    /// Least number that is known without a look.
    fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes.max(self.initramfs.bytes)
    }

    pub fn needs(&self) -> Needs {
        let root = self.root.as_ref().map_or(0, RootPart::kernels_bytes);
        Needs::of(&self.kernel, self.initramfs.bytes, self.unpacked_bytes()).beside(root)
    }
}

impl Image {
    /// Maps an image.
    pub fn open(name: &str) -> Result<Self> {
        let device = Device::read(Holding::Image, name)?;
        let entry = sysfs::one(Holding::Image, name)?;
        if entry.state != "sealed" {
            return Err(incomplete(name));
        }
        let memory = device.map(&entry.pieces, Access::Read)?;
        if snapshot::is_one(&memory) {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::image(name),
                format!(
                    "image {name} is a snapshot, which has no kernel for other nodes: kumiki node \
                 start NODE --from {name}"
                ),
            ));
        }
        let mut image = Image::of(name, memory, &entry.pieces)?;
        image._device = Some(device);
        Ok(image)
    }

    /// An image in memory that is mapped already.
    pub fn of(name: &str, memory: Memory, pieces: &[Piece]) -> Result<Self> {
        let header = header(name, &memory)?;
        let found = header.root.as_ref().map(|root| {
            let piece = root.piece(pieces);
            piece.ok_or_else(|| damaged(name, "its root is in no one place"))
        });
        let root = found.transpose()?;
        Ok(Image { name: name.to_owned(), header, memory, root, _device: None })
    }

    /// All images.
    pub fn list() -> Result<Vec<ImageInfo>> {
        let users = listing::users()?;
        let all = sysfs::all(Holding::Image)?;
        let first = |entry: &sysfs::Status| entry.pieces.first().map(|piece| piece.address);
        let nodes = sysfs::all(Holding::Node)?;
        let describe = |entry: &sysfs::Status| {
            let is_sealed = entry.state == "sealed";
            let contents = if is_sealed { Some(contents(entry)?) } else { None };
            let others = all.iter().filter(|other| {
                other.name != entry.name && first(other).is_some() && first(other) == first(entry)
            });
            let mut info = ImageInfo {
                name: entry.name.clone(),
                kind: ImageKind::Kernel,
                of: None,
                release: None,
                bytes: entry.pieces.iter().map(|piece| piece.bytes).sum(),
                sha256: None,
                config: None,
                state: entry.state.clone(),
                nodes: users.of(&entry.name),
                same_as: others.map(|other| other.name.clone()).collect(),
            };
            match contents {
                None => {}
                Some(Contents::Kernel(header)) => {
                    info.release = header.kernel.release().map(str::to_owned);
                    (info.sha256, info.config) = (Some(header.sha256), header.config);
                }
                Some(Contents::Snapshot(header)) => {
                    info.kind = ImageKind::Snapshot;
                    if let Some(header) = header {
                        info.sha256 = Some(snapshot::identity(&header));
                        let suits = |node: &&sysfs::Status| header.has_place_of(node);
                        info.nodes =
                            nodes.iter().filter(suits).map(|node| node.name.clone()).collect();
                        (info.of, info.release) = (Some(header.node), header.release);
                    } else {
                        info.state = "damaged".to_owned();
                    }
                }
                Some(Contents::Damaged) => info.state = "damaged".to_owned(),
            }
            Ok(info)
        };
        sysfs::each(Holding::Image, describe)
    }

    /// Gives its memory back, unless it has another name. One that nodes start
    /// from is refused.
    pub fn remove(name: &str) -> Result<()> {
        let _telling = Telling;
        let device = Device::own(Holding::Image, name)?;
        device.release_if(|| unused(name, false))
    }

    /// Does as [`remove`](Self::remove), also with one that nodes start from: they run on,
    /// having copies, but do not start again before there is an image of this name.
    pub fn remove_forced(name: &str) -> Result<()> {
        let _telling = Telling;
        let device = Device::own(Holding::Image, name)?;
        device.release_if(|| unused(name, true))
    }

    /// Removes every image that no node starts from, and none that is being made.
    /// Each is tried; `told` hears of what has gone, and the first failure is returned.
    pub fn evict(mut told: impl FnMut(&ImageInfo)) -> Result<()> {
        let being_made = |image: &ImageInfo| {
            image.state != "sealed" && Device::own(Holding::Image, &image.name).is_err()
        };
        let mut failure = None;
        for image in Image::list()? {
            if image.nodes.is_empty() && !being_made(&image) {
                match Image::remove(&image.name) {
                    Ok(()) => told(&image),
                    Err(error) => drop(failure.get_or_insert(error)),
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Does as [`verify`](Self::verify), of an image of either kind.
    pub fn check(name: &str) -> Result<Option<&'static str>> {
        let entry = sysfs::one(Holding::Image, name)?;
        let is_snapshot = entry.state == "sealed" && {
            let device = Device::read(Holding::Image, name)?;
            snapshot::is_one(&device.map(&entry.pieces, Access::Read)?)
        };
        if is_snapshot { Snapshot::open(name)?.verify() } else { Image::open(name)?.verify() }
    }

    /// Writes a snapshot into a file, compressed; returns the file's length, bytes.
    pub fn save_snapshot(name: &str, path: &Path) -> Result<u64> {
        snapshot::file::save(name, path)
    }

    /// Puts a snapshot from a file into memory; returns how much it takes, bytes. It is started on
    /// the machine, in the memory and on the cpus that it was kept on.
    pub fn load_snapshot(name: &str, path: &Path) -> Result<u64> {
        snapshot::file::load(name, path)
    }

    /// Compares what is in memory with the hash that was taken when the image
    /// was made, and the uncompressed kernel with the bzImage, if it is of one.
    /// Returns what differs.
    pub fn verify(&self) -> Result<Option<&'static str>> {
        let header = &self.header;
        let is_bare = header.bzimage.is_none();
        let form = if is_bare { KernelForm::Vmlinux } else { KernelForm::BzImage };
        let file = self.read(self.kernel(form)?.1);
        let mut hash = Sha256::new();
        hash.update(&file);
        hash.update(self.read(header.initramfs));
        let of_root = header.root.as_ref().map(|root| root.identity.as_str());
        hash.update(of_root.unwrap_or_default());
        if hex(hash) != header.sha256 {
            return Ok(Some("its kernel's file or its initramfs"));
        }
        let root = header.root.as_ref();
        if root.is_some_and(|found| root::sha256(&self.memory, found.part) != found.sha256) {
            return Ok(Some("its root"));
        }
        // Of a bare vmlinux, and of what a start has kept, there is one form.
        if is_bare || header.kernel_bytes == header.bzimage_bytes {
            return Ok(None);
        }
        let (kernel, bytes) = Kernel::parse(&file)?;
        let same = kernel == header.kernel && bytes == self.read(header.kernel_bytes);
        Ok((!same).then_some("its uncompressed kernel"))
    }

    fn read(&self, part: Extent) -> Vec<u8> {
        let mut bytes = vec![0; part.bytes as usize];
        self.memory.read(part.at as usize, &mut bytes);
        bytes
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hash of kernel and initramfs.
    pub fn sha256(&self) -> &str {
        &self.header.sha256
    }

    /// Its kernel's release, where it says it.
    pub fn release(&self) -> Option<&str> {
        self.header.kernel.release()
    }

    /// The kernel in one of its forms, and its bytes.
    pub fn kernel(&self, form: KernelForm) -> Result<(&Kernel, Extent)> {
        if form == KernelForm::Vmlinux {
            return Ok((&self.header.kernel, self.header.kernel_bytes));
        }
        let bzimage = self.header.bzimage.as_ref().ok_or_else(|| {
            Error::refused(
                ErrorKind::Invalid,
                Subject::image(&self.name),
                format!("image {} was made of a vmlinux and has no bzImage", self.name),
            )
        })?;
        Ok((bzimage, self.header.bzimage_bytes))
    }

    /// Times of the health check of this image's program; Docker's, if it was removed.
    pub fn health_times(name: &str) -> HealthTimes {
        let image = Image::open(name).ok();
        image.and_then(|image| Some(image.header.root?.health_times)).unwrap_or_default()
    }

    /// Memory in which its nodes see its root.
    pub fn root(&self) -> Option<Piece> {
        self.root
    }

    pub fn initramfs(&self) -> Extent {
        self.header.initramfs
    }

    /// Needs of a node for it.
    pub fn needs(&self) -> Needs {
        self.header.needs()
    }

    /// Memory that its files take once they are unpacked, as far as that is known.
    pub fn unpacked_bytes(&self) -> u64 {
        self.header.unpacked_bytes()
    }

    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// Checks that an image may go.
fn unused(name: &str, force: bool) -> Result<()> {
    let users = listing::users()?;
    let entry = sysfs::one(Holding::Image, name)?;
    let has_root = entry.state == "sealed"
        && whole(&entry).is_ok_and(|header| header.is_some_and(|header| header.root.is_some()));
    let running = users.running_of(name).join(", ");
    if has_root && !running.is_empty() {
        return Err(Error::refused(
            ErrorKind::Running,
            Subject::Image(name.to_owned()),
            format!(
                "image {name} is the root of {running}, which has no copy of it: kumiki node stop \
             {running} first"
            ),
        ));
    }
    let of_root = has_root.then(|| snapshots_on(&entry)).transpose()?.unwrap_or_default();
    if !of_root.is_empty() {
        let of_root = of_root.join(", ");
        return Err(Error::refused(
            ErrorKind::Busy,
            Subject::Image(name.to_owned()),
            format!(
                "image {name} is the root of snapshot {of_root}, which has no copy of it: kumiki image \
             rm {of_root} first"
            ),
        ));
    }
    let (nodes, lent) = (users.of(name).join(", "), users.lent_of(name).join(", "));
    if !lent.is_empty() {
        return Err(Error::refused(
            ErrorKind::Busy,
            Subject::Image(name.to_owned()),
            format!(
                "image {name} is what another node starts {lent} from at any time: kumiki node \
             stop {lent} takes that back"
            ),
        ));
    }
    if !nodes.is_empty() && !force {
        return Err(Error::refused(
            ErrorKind::Busy,
            Subject::Image(name.to_owned()),
            format!(
                "image {name} is in use by {nodes}: delete that first, or remove the image with \
             --force; a node that runs goes on, and starts again once there is an image of \
             this name"
            ),
        ));
    }
    Ok(())
}

/// Snapshots of nodes whose root is in an image's memory.
fn snapshots_on(image: &sysfs::Status) -> Result<Vec<String>> {
    let found = sysfs::each(Holding::Image, |entry| {
        let root = match contents(entry)? {
            Contents::Snapshot(Some(header)) => header.root,
            _ => None,
        };
        let within = |root: Piece| {
            image.pieces.iter().any(|piece| (piece.address..piece.end()).contains(&root.address))
        };
        Ok(root.is_some_and(within).then(|| entry.name.clone()))
    })?;
    Ok(found.into_iter().flatten().collect())
}

/// Contents of a sealed image.
enum Contents {
    Kernel(Header),
    /// None: its header is damaged.
    Snapshot(Option<snapshot::Header>),
    Damaged,
}

fn contents(entry: &sysfs::Status) -> Result<Contents> {
    if entry.state != "sealed" {
        return Ok(Contents::Damaged);
    }
    let device = Device::read(Holding::Image, &entry.name)?;
    let memory = device.map(&entry.pieces, Access::Read)?;
    if snapshot::is_one(&memory) {
        return Ok(Contents::Snapshot(snapshot::header(&entry.name, &memory).ok()));
    }
    Ok(header(&entry.name, &memory).map_or(Contents::Damaged, Contents::Kernel))
}

/// A sealed image's header, unless it is damaged.
pub fn whole(entry: &sysfs::Status) -> Result<Option<Header>> {
    let device = Device::read(Holding::Image, &entry.name)?;
    Ok(header(&entry.name, &device.map(&entry.pieces, Access::Read)?).ok())
}

/// An image of the same content, if there is one.
pub fn same_content(sha256: &str) -> Result<Option<ImageInfo>> {
    let same = |image: &ImageInfo| image.sha256.as_deref() == Some(sha256);
    Ok(Image::list()?.into_iter().find(same))
}

/// One more name for an image, which takes no memory.
pub fn link(name: &str, known: &ImageInfo) -> Result<ImageInfo> {
    let (device, _) = Device::create(Holding::Image, name)?;
    if let Err(error) = device.link(&known.name) {
        abandon(&device);
        return Err(error);
    }
    let made = Image::list()?.into_iter().find(|image| image.name == name);
    made.ok_or_else(|| {
        Error::refused(
            ErrorKind::NotFound,
            Subject::image(name),
            format!("image {name} was removed meanwhile: add it again"),
        )
    })
}

/// Memory of all images, each piece once.
fn used_bytes() -> Result<u64> {
    let images = sysfs::all(Holding::Image)?;
    let mut pieces: Vec<Piece> = images.into_iter().flat_map(|image| image.pieces).collect();
    pieces.sort_unstable_by_key(|piece| piece.address);
    pieces.dedup();
    Ok(pieces.iter().map(|piece| piece.bytes).sum())
}

/// Refuses what would be too much, under the lock of those who take memory.
fn within_limit(bytes: u64) -> Result<()> {
    let (used, limit) = (used_bytes()?, sysfs::image_limit_bytes()?);
    match limit.filter(|limit| used.saturating_add(bytes) > *limit) {
        None => Ok(()),
        Some(limit) => Err(Error::refused(
            ErrorKind::NoMemory,
            Subject::Memory { asked: bytes, most: limit.saturating_sub(used) },
            format!(
                "{bytes} bytes for an image beside the {used} that images have already are more than \
             the limit of {limit}: remove some (kumiki image ls, kumiki image evict), or raise it \
             ({}, MiB)",
                sysfs::IMAGE_LIMIT
            ),
        )),
    }
}

/// Hash of an image's kernel, as its file has it, its initramfs, and what its root was made of.
pub fn content_hash(kernel: &[u8], initramfs: &[u8], root: Option<&str>) -> String {
    let mut hash = Sha256::new();
    hash.update(kernel);
    hash.update(initramfs);
    hash.update(root.unwrap_or_default());
    hex(hash)
}

impl Image {
    /// Memory with this as its header: for tests, and for fuzzing.
    #[doc(hidden)]
    pub fn with_header(memory: Memory, json: &[u8]) -> Result<Self> {
        let json = &json[..json.len().min(HEADER_BYTES as usize - 16)];
        memory.u64(0).store(MAGIC, Ordering::Relaxed);
        memory.u64(8).store(json.len() as u64, Ordering::Relaxed);
        memory.write(16, json);
        let pieces = [Piece { address: 2 << 30, bytes: memory.bytes() as u64 }];
        Image::of("x", memory, &pieces)
    }
}

/// Takes memory, puts each part into it, and seals it. Returns how long each part took, ms. A
/// root is one range of memory, and so is an image with one.
pub fn fill(
    device: &Device,
    total: u64,
    parts: &[(u64, &[u8])],
    json_bytes: usize,
    root: Option<(&Made, u64)>,
) -> Result<Vec<f64>> {
    let least = if root.is_some() { total } else { abi::PIECE_UNIT };
    sealed(device, total, least, |memory| {
        memory.u64(0).store(MAGIC, Ordering::Relaxed);
        memory.u64(8).store(json_bytes as u64, Ordering::Relaxed);
        let put = |(at, bytes): &(u64, &[u8])| {
            let mut took = 0.0;
            timed(&mut took, || memory.write(*at as usize, bytes));
            took
        };
        let took = parts.iter().map(put).collect();
        root.map_or(Ok(()), |(made, at)| made.copy(memory, at))?;
        Ok(took)
    })
}

/// Takes so much memory, the first piece of at least so much, has it written, and seals it.
pub fn sealed<T>(
    device: &Device,
    total: u64,
    least: u64,
    write: impl FnOnce(&Memory) -> Result<T>,
) -> Result<T> {
    let lock = Lock::take()?;
    within_limit(total)?;
    let pieces =
        reservation::pieces(device, total, least, MemorySource::Any, &numa::with_memory())?;
    drop(lock);
    let memory = device.map(&pieces, Access::Write)?;
    let written = write(&memory)?;
    // Nobody may have it mapped when it is sealed.
    drop(memory);
    device.seal()?;
    Ok(written)
}

/// Error for an image that cannot do anything but go.
pub fn incomplete(name: &str) -> Error {
    Error::refused(
        ErrorKind::Damaged,
        Subject::Image(name.to_owned()),
        format!("image {name} is not complete: its making was interrupted; kumiki image rm {name}"),
    )
}

fn damaged(name: &str, why: &str) -> Error {
    Error::refused(
        ErrorKind::Damaged,
        Subject::Image(name.to_owned()),
        format!(
            "image {name} is damaged ({why}): something wrote to its memory; kumiki image rm {name}"
        ),
    )
}

fn header(name: &str, memory: &Memory) -> Result<Header> {
    let damaged = |why: String| damaged(name, &why);
    let length = memory.u64(8).load(Ordering::Relaxed);
    if memory.u64(0).load(Ordering::Relaxed) != MAGIC || length > HEADER_BYTES - 16 {
        return Err(damaged("its header is not there".into()));
    }
    let mut json = vec![0; length as usize];
    memory.read(16, &mut json);
    let header: Header =
        serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
    let parts = [header.kernel_bytes, header.bzimage_bytes, header.initramfs];
    for part in parts.into_iter().chain(header.root.iter().map(|root| root.part)) {
        if part.at.checked_add(part.bytes).is_none_or(|end| end > memory.bytes() as u64) {
            return Err(damaged(format!("a part at {:#x} of {} bytes", part.at, part.bytes)));
        }
    }
    // A start computes with what stands there.
    [Some(&header.kernel), header.bzimage.as_ref()]
        .into_iter()
        .flatten()
        .try_for_each(Kernel::check)
        .map_err(|error| damaged(error.to_string()))?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn memory(length: u64, json: &[u8]) -> Memory {
        let memory = Memory::zeroed(abi::PIECE_UNIT);
        memory.u64(0).store(MAGIC, Ordering::Relaxed);
        memory.u64(8).store(length, Ordering::Relaxed);
        memory.write(16, &json[..json.len().min(HEADER_BYTES as usize - 16)]);
        memory
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// A node may have written there.
        #[test]
        fn a_damaged_header_is_an_error(length: u64, short in 0_u64..64, text in ".*") {
            let kind = |length| header("x", &memory(length, text.as_bytes())).unwrap_err().kind();
            prop_assert_eq!(kind(length), ErrorKind::Damaged);
            prop_assert_eq!(kind(short), ErrorKind::Damaged);
        }

        #[test]
        fn a_part_beyond_the_memory_is_an_error(at: u64, bytes: u64) {
            let part = |at, bytes| Extent { at, bytes };
            let kernel = Kernel {
                form: kumiki_boot::Form::BzImage {
                    protected_at: 0, file_bytes: 0, init_bytes: 0, alignment: 0,
                },
                header: Vec::new(),
                version: None,
                command_line_limit: 0,
                above_4g: false,
            };
            let made = Header {
                version: 1,
                sha256: String::new(),
                config: None,
                kernel,
                kernel_bytes: part(0, 1),
                bzimage: None,
                bzimage_bytes: part(0, 0),
                initramfs: part(at, bytes),
                unpacked_bytes: 0,
                root: None,
            };
            let json = serde_json::to_vec(&made).unwrap();
            let memory = memory(json.len() as u64, &json);
            let fits = at.checked_add(bytes).is_some_and(|end| end <= abi::PIECE_UNIT);
            prop_assert_eq!(header("x", &memory).is_ok(), fits);
        }
    }
}
