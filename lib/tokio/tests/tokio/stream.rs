//! A file as a stream of bytes.

use std::io::SeekFrom;

use kumiki_tokio::{File, Reader};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{content, file, make_cold};

#[test]
fn a_reader_gives_the_file_from_any_position() {
    let all = content(2_000_000);
    let temporary = file(&all);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let opened = File::open(temporary.path()).await.unwrap();
        for position in [0, 1, 1_999_999, 2_000_000, 3_000_000] {
            make_cold(temporary.as_file());
            let mut read = Vec::new();
            Reader::new(opened.clone(), position as u64).read_to_end(&mut read).await.unwrap();
            assert!(read == all[all.len().min(position)..], "{position}");
        }
        let mut reader = Reader::new(opened, 0);
        make_cold(temporary.as_file());
        let mut part = [0; 1000];
        reader.read_exact(&mut part).await.unwrap();
        assert_eq!(reader.seek(SeekFrom::End(-1000)).await.unwrap(), 1_999_000);
        reader.read_exact(&mut part).await.unwrap();
        assert!(part == all[1_999_000..]);
        assert_eq!(reader.seek(SeekFrom::Current(-2000)).await.unwrap(), 1_998_000);
        reader.read_exact(&mut part).await.unwrap();
        assert!(part == all[1_998_000..1_999_000]);
        assert!(reader.seek(SeekFrom::Current(-3_000_000)).await.is_err());
    });
}
