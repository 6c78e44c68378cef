//! The example for `object_store`, held against that crate's own store in memory.

#[path = "../../examples/object_ranges.rs"]
mod example;

use example::{Folder, lay_out, read_column};
use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt};

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
