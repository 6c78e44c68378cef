//! The example for tokio reads files to their end, side by side.

#[path = "../../examples/tokio_read.rs"]
mod example;

use std::io::Write;

use tempfile::NamedTempFile;

/// Nothing, less than a piece, some pieces, and some and a part.
const LENGTHS: [usize; 4] = [0, 17, 3 * 64 * 1024, 200_001];

fn file(length: usize) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(&vec![7; length]).unwrap();
    file
}

fn path(file: &NamedTempFile) -> String {
    file.path().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn files_are_read_to_their_end() {
    let files = LENGTHS.map(file);
    let lengths = example::lengths(files.iter().map(path).collect()).await.unwrap();
    let expected = files.iter().zip(LENGTHS).map(|(file, length)| (path(file), Ok(length as u64)));
    assert_eq!(lengths, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn one_that_is_missing_keeps_no_other_from_being_read() {
    let (gone, there) = (path(&file(1)), file(5));
    let lengths = example::lengths(vec![gone.clone(), path(&there)]).await.unwrap();
    let [(first, error), (_, length)] = &lengths[..] else { panic!("{lengths:?}") };
    assert_eq!((first, length), (&gone, &Ok(5)));
    assert!(error.as_ref().is_err_and(|error| error.contains("No such file")), "{error:?}");
}
