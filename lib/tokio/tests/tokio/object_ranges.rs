//! The example for `object_store`, held against that crate's own store in memory, and by its own
//! tests of a store.

#[path = "../../examples/object_ranges.rs"]
mod example;

use example::{Folder, lay_out, read_column};
use std::ops::Range;

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    integration,
};

use super::{content, make_cold};

/// The same objects in both; the folder goes in the end.
async fn both(objects: &[(&str, Vec<u8>)]) -> (tempfile::TempDir, Folder, InMemory) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let memory = InMemory::new();
    for (name, bytes) in objects {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        make_cold(&std::fs::File::open(path).unwrap());
        memory.put(&Path::from(*name), bytes.clone().into()).await.unwrap();
    }
    let ours = Folder::new(folder.path());
    (folder, ours, memory)
}

#[tokio::test]
async fn columns_are_read_by_the_footer() {
    let groups: Vec<Vec<Vec<u8>>> = (0..30)
        .map(|group| (0..5).map(|column| vec![group * 5 + column; 40_000]).collect())
        .collect();
    let (_folder, ours, memory) = both(&[("rows.par", lay_out(&groups))]).await;
    let location = Path::from("rows.par");
    for column in [0, 4] {
        let chunks = read_column(&ours, &location, column).await.unwrap();
        assert_eq!(chunks, read_column(&memory, &location, column).await.unwrap());
        assert!(chunks.len() == 30 && chunks[29][..] == groups[29][column]);
    }
    let (_folder, ours, _) = both(&[("rows.par", content(100))]).await;
    let error = read_column(&ours, &location, 0).await.unwrap_err();
    assert!(error.to_string().contains("not laid out"), "{error}");
}

#[tokio::test]
async fn ranges_are_those_of_another_store() {
    let (_folder, ours, memory) = both(&[("a/b", content(3_000_001))]).await;
    let location = Path::from("a/b");
    for range in [
        None,
        Some(GetRange::Bounded(5..1_500_000)),
        Some(GetRange::Bounded(2_999_999..5_000_000)),
        Some(GetRange::Offset(3_000_000)),
        Some(GetRange::Suffix(17)),
    ] {
        let options = GetOptions::new().with_range(range);
        let (one, other) = (
            ours.get_opts(&location, options.clone()).await.unwrap(),
            memory.get_opts(&location, options).await.unwrap(),
        );
        assert_eq!((&one.range, one.meta.size), (&other.range, other.meta.size));
        assert!(one.bytes().await.unwrap() == other.bytes().await.unwrap());
    }
    let beyond = GetOptions::new().with_range(Some(GetRange::Offset(3_000_001)));
    assert!(ours.get_opts(&location, beyond).await.is_err());
    assert!(ours.get_ranges(&location, &[0..4, 3_000_000..3_000_002]).await.is_err());
}

#[tokio::test]
async fn lists_are_those_of_another_store() {
    let objects = [("a/b", content(1)), ("a/c/d", content(2)), ("e", content(3))];
    let (_folder, ours, memory) = both(&objects).await;
    let names = async |store: &dyn ObjectStore, prefix: Option<&Path>| {
        let mut all: Vec<_> = store.list(prefix).try_collect().await.unwrap();
        all.sort_by(|a, b| a.location.cmp(&b.location));
        all.into_iter().map(|meta| (meta.location, meta.size)).collect::<Vec<_>>()
    };
    for prefix in [None, Some(Path::from("a")), Some(Path::from("none"))] {
        let prefix = prefix.as_ref();
        assert_eq!(names(&ours, prefix).await, names(&memory, prefix).await);
        let one = ours.list_with_delimiter(prefix).await.unwrap();
        let other = memory.list_with_delimiter(prefix).await.unwrap();
        assert_eq!(one.common_prefixes, other.common_prefixes);
        assert_eq!(one.objects.len(), other.objects.len());
    }
    let missing = ours.get(&Path::from("f")).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    // A folder is no object.
    assert!(matches!(ours.head(&Path::from("a")).await, Err(Error::NotFound { .. })));
    let written = ours.put(&Path::from("g"), content(1).into()).await;
    assert!(matches!(written, Err(Error::NotSupported { .. })));
}

/// Reads by the example, writes by the store of that crate whose files it reads.
#[derive(Debug)]
struct Written {
    reads: Folder,
    writes: LocalFileSystem,
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reads.fmt(f)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Written {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.reads.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.reads.get_ranges(location, ranges).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.reads.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.reads.list_with_delimiter(prefix).await
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.writes.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.writes.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.writes.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.writes.copy_opts(from, to, options).await
    }
}

fn written() -> (tempfile::TempDir, Written) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let writes = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    let store = Written { reads: Folder::new(folder.path()), writes };
    (folder, store)
}

/// All of those that `LocalFileSystem` is held by.
#[tokio::test]
async fn object_store_s_own_tests_hold() {
    let (_folder, store) = written();
    integration::put_get_delete_list(&store).await;
    integration::list_with_offset_exclusivity(&store).await;
    integration::get_opts(&store).await;
    integration::list_uses_directories_correctly(&store).await;
    integration::list_with_delimiter(&store).await;
    integration::rename_and_copy(&store).await;
    integration::copy_if_not_exists(&store).await;
    integration::copy_rename_nonexistent_object(&store).await;
    integration::stream_get(&store).await;
    let (_folder, store) = written();
    integration::put_opts(&store, false).await;
}

/// Names that somebody encodes, or that look as if somebody had: each that is listed can be opened.
#[tokio::test]
async fn what_is_listed_can_be_read_by_that_name() {
    let (folder, store) = written();
    let names = [
        "a%20b", "c#d", "e~f", "g%", "h\\i", "k*l", "ä", "plain", "%2E%2E", "a b", "x#y", "half#1",
    ];
    for name in names {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    std::fs::create_dir(folder.path().join("in %")).unwrap();
    std::fs::write(folder.path().join("in %/the ~"), "in %/the ~").unwrap();
    let [ours, theirs]: [&dyn ObjectStore; 2] = [&store.reads, &store.writes];
    let listed = async |store: &dyn ObjectStore| {
        let mut all: Vec<_> = store.list(None).try_collect().await.unwrap();
        all.sort_by(|one, other| one.location.cmp(&other.location));
        all
    };
    let all = listed(ours).await;
    assert_eq!(all, listed(theirs).await);
    // Without the half of an upload, with what is in the folder.
    assert_eq!(all.len(), names.len());
    for meta in all {
        let read = ours.get(&meta.location).await.unwrap();
        assert_eq!(read.meta, meta);
        assert_eq!(read.bytes().await.unwrap(), meta.location.as_ref().as_bytes());
        let same = GetOptions::new().with_if_match(meta.e_tag.clone());
        assert!(ours.get_opts(&meta.location, same).await.is_ok());
        let other = GetOptions::new().with_if_match(Some("\"other\""));
        let error = ours.get_opts(&meta.location, other).await.unwrap_err();
        assert!(matches!(error, Error::Precondition { .. }), "{error}");
        // Below an object's own name there is nothing.
        let below: Vec<_> = ours.list(Some(&meta.location)).try_collect().await.unwrap();
        assert!(below.is_empty());
    }
}
