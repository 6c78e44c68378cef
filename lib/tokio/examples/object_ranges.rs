//! Files behind `object_store`'s interface: the footer of a file laid out as Parquet's are, and a
//! column of all its row groups.
//!
//! ```console
//! $ cargo run --package kumiki-tokio --example object_ranges
//! ```
//!
//! The crate `parquet`, and so DataFusion, reads through this interface: what a query needs of a
//! file is asked for together, by `get_ranges`. A cold file then has all of it under way at once,
//! and a warm one costs no hand-over at all.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use kumiki_tokio::{File, fs, read_ranges};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};

/// Bytes of a whole object at once.
const PIECE: u64 = 1 << 20;

/// A folder of files. It is read only; its names are those that `object_store`'s
/// `LocalFileSystem` gives its files: a file's name *is* the part of an object's, as it stands, with
/// whatever is encoded in it.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: Arc<PathBuf>,
}

impl Folder {
    pub(crate) fn new(root: impl Into<PathBuf>) -> Folder {
        Folder { root: Arc::new(root.into()) }
    }

    /// No part of an object's name leads up.
    fn path(&self, location: &Path) -> PathBuf {
        self.root.join(location.as_ref())
    }

    async fn open(&self, location: &Path) -> Result<(File, ObjectMeta)> {
        let failed = |error| failed(location, error);
        let file = File::open(self.path(location)).await.map_err(failed)?;
        let attributes = file.metadata().await.map_err(failed)?;
        if !attributes.is_file() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let meta = describe(location.clone(), &attributes).map_err(failed)?;
        Ok((file, meta))
    }

    /// Folders and objects just below a name, in order.
    async fn entries(&self, prefix: &Path) -> Result<(Vec<Path>, Vec<ObjectMeta>)> {
        let failed = |error| failed(prefix, error);
        let (mut folders, mut objects) = (Vec::new(), Vec::new());
        let mut entries = match fs::read_dir(self.path(prefix)).await {
            // No object has a name below this one: there is nothing, or an object itself.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok((folders, objects));
            }
            entries => entries.map_err(failed)?,
        };
        while let Some(entry) = entries.next_entry().await.map_err(failed)? {
            let (attributes, location) =
                (fs::metadata(entry.path()).await, below(prefix, &entry.file_name()));
            // Removed meanwhile, a link to nowhere, or no name for an object.
            let (Ok(attributes), Some(location)) = (attributes, location) else { continue };
            if attributes.is_dir() {
                folders.push(location);
            } else if attributes.is_file() && !is_half_written(&location) {
                objects.push(describe(location, &attributes).map_err(failed)?);
            }
        }
        folders.sort();
        objects.sort_by(|one, other| one.location.cmp(&other.location));
        Ok((folders, objects))
    }

    async fn all_below(self, prefix: Path) -> Result<Vec<ObjectMeta>> {
        let (mut left, mut all) = (vec![prefix], Vec::new());
        while let Some(prefix) = left.pop() {
            let (folders, objects) = self.entries(&prefix).await?;
            left.extend(folders);
            all.extend(objects);
        }
        all.sort_by(|one, other| one.location.cmp(&other.location));
        Ok(all)
    }
}

/// The object of this file's name, if there is one: taken as it stands. `Path::join` would
/// encode it once more, and no file has that name.
fn below(prefix: &Path, name: &OsStr) -> Option<Path> {
    let name = name.to_str()?;
    let parsed = match prefix.as_ref() {
        "" => Path::parse(name),
        prefix => Path::parse(format!("{prefix}/{name}")),
    };
    parsed.ok()
}

/// Whether `LocalFileSystem` is writing it: so it names what is no object yet.
fn is_half_written(location: &Path) -> bool {
    let number = location.filename().and_then(|name| name.split_once('#')).map(|(_, it)| it);
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

fn describe(location: Path, attributes: &fs::Metadata) -> io::Result<ObjectMeta> {
    let modified = attributes.modified()?;
    let (last_modified, size) = (modified.into(), attributes.len());
    // Another number, time or length is another content, as for most servers of HTTP; written as
    // `LocalFileSystem` writes it.
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let inode = attributes.attributes().ino();
    let e_tag = Some(format!("\"{inode:x}-{:x}-{size:x}\"", since.as_micros()));
    Ok(ObjectMeta { location, last_modified, size, e_tag, version: None })
}

fn failed(location: &Path, error: io::Error) -> Error {
    let (path, kind, source) = (location.to_string(), error.kind(), Box::new(error));
    match kind {
        // The second: a part of the name is an object itself.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotFound { path, source },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source },
        _ => Error::Generic { store: "kumiki", source },
    }
}

fn read_only() -> Error {
    Error::NotSupported { source: "this folder is read only".into() }
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kumiki({})", self.root.display())
    }
}

#[async_trait::async_trait]
impl ObjectStore for Folder {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (file, meta) = self.open(location).await?;
        options.check_preconditions(&meta)?;
        let range = match options.range {
            Some(range) => range.as_range(meta.size),
            None => Ok(0..meta.size),
        };
        let range =
            range.map_err(|source| Error::Generic { store: "kumiki", source: Box::new(source) })?;
        let left = if options.head { 0..0 } else { range.clone() };
        let parts = stream::try_unfold((file, location.clone(), left), |(file, name, left)| {
            next_part(file, name, left)
        });
        Ok(GetResult {
            payload: GetResultPayload::Stream(parts.boxed()),
            meta,
            range,
            attributes: Default::default(),
            extensions: Default::default(),
        })
    }

    /// All at once.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let failed = |error| failed(location, error);
        let file = File::open(self.path(location)).await.map_err(failed)?;
        let parts = read_ranges(&file, ranges).await.map_err(failed)?;
        let is_whole = |(part, range): (&Vec<u8>, &Range<u64>)| {
            part.len() as u64 == range.end.saturating_sub(range.start)
        };
        if !parts.iter().zip(ranges).all(is_whole) {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(parts.into_iter().map(Bytes::from).collect())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let all = self.clone().all_below(prefix.cloned().unwrap_or_default());
        let each = |all: Vec<ObjectMeta>| stream::iter(all).map(Ok);
        stream::once(all).map_ok(each).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let entries = self.entries(&prefix.cloned().unwrap_or_default()).await?;
        let (common_prefixes, objects) = entries;
        Ok(ListResult { common_prefixes, objects, extensions: Default::default() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        locations.map(|location| location.and_then(|_| Err(read_only()))).boxed()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only())
    }
}

type Unread = (File, Path, Range<u64>);

async fn next_part(
    file: File,
    location: Path,
    left: Range<u64>,
) -> Result<Option<(Bytes, Unread)>> {
    if left.is_empty() {
        return Ok(None);
    }
    let end = left.end.min(left.start + PIECE);
    let mut part = vec![0; (end - left.start) as usize];
    let read = file.read_exact_at(&mut part, left.start).await;
    read.map_err(|error| failed(&location, error))?;
    Ok(Some((Bytes::from(part), (file, location, end..left.end))))
}

/// How Parquet marks both ends of a file.
const MARK: &[u8; 4] = b"PAR1";

/// A file of row groups, each a chunk a column: the chunks, then a footer that says where each
/// is, then the footer's length. Parquet's footer is Thrift; this one is offsets and lengths.
pub(crate) fn lay_out(groups: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let (mut file, mut footer) = (MARK.to_vec(), Vec::new());
    let columns = groups.first().map_or(0, Vec::len) as u64;
    footer.extend(columns.to_le_bytes());
    for chunk in groups.iter().flatten() {
        footer.extend((file.len() as u64).to_le_bytes());
        footer.extend((chunk.len() as u64).to_le_bytes());
        file.extend(chunk);
    }
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(MARK);
    file
}

/// The chunks of one column, of all row groups: the end, the footer, and then all at once.
pub(crate) async fn read_column(
    store: &dyn ObjectStore,
    location: &Path,
    column: usize,
) -> std::result::Result<Vec<Bytes>, Box<dyn std::error::Error>> {
    let last = |bytes| GetOptions::new().with_range(Some(GetRange::Suffix(bytes)));
    let end = store.get_opts(location, last(8)).await?.bytes().await?;
    let length = end[..4].try_into().map(u32::from_le_bytes)?;
    if end[4..] != *MARK {
        return Err(format!("{location} is not laid out as Parquet's files are").into());
    }
    let size = store.head(location).await?.size;
    let start = size.checked_sub(8 + u64::from(length)).ok_or("a footer longer than the file")?;
    let footer = store.get_range(location, start..size - 8).await?;
    let words = footer.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes));
    let words = words.collect::<std::result::Result<Vec<_>, _>>()?;
    let (columns, places) = words.split_first().ok_or("a footer of nothing")?;
    let places: Vec<_> = places.chunks_exact(2).map(|it| it[0]..it[0] + it[1]).collect();
    let step = (*columns as usize).max(1);
    let ranges: Vec<_> = places.into_iter().skip(column).step_by(step).collect();
    Ok(store.get_ranges(location, &ranges).await?)
}

#[allow(dead_code, reason = "the test that includes this file has its own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // 64 row groups of 8 columns, 64 KiB a chunk.
    let chunk = |group: u8, column: u8| vec![group ^ column; 64 * 1024];
    let groups: Vec<Vec<_>> =
        (0..64).map(|group| (0..8).map(|column| chunk(group, column)).collect()).collect();
    std::fs::write(folder.path().join("rows.par"), lay_out(&groups))?;
    let store = Folder::new(folder.path());
    let chunks = read_column(&store, &Path::from("rows.par"), 3).await?;
    let bytes: usize = chunks.iter().map(Bytes::len).sum();
    println!("{store}: {} chunks of a column, {bytes} bytes", chunks.len());
    Ok(())
}
