//! Open files.

use std::io::ErrorKind;

use kumiki_tokio::{File, Merge, read_ranges, read_ranges_merged};
use rustix::fs::{Mode, OFlags};

use super::{content, file, make_cold, on_both};

#[test]
fn reads_at_offsets_give_the_file_s_bytes_warm_and_cold() {
    let all = content(3_000_000);
    let temporary = file(&all);
    on_both(|| async {
        let opened = File::open(temporary.path()).await.unwrap();
        for cold in [false, true] {
            for (offset, room) in [(0, 4096), (1, 65_536), (2_999_000, 4096), (3_000_000, 10)] {
                if cold {
                    make_cold(temporary.as_file());
                }
                let mut buffer = vec![0; room];
                let count = opened.read_at(&mut buffer, offset as u64).await.unwrap();
                let expected = &all[offset..all.len().min(offset + room)];
                assert!(buffer[..count] == *expected, "{offset} {room} {cold}");
                let (count, buffer) = opened
                    .read_at_into(vec![0; room].into_boxed_slice(), offset as u64)
                    .await
                    .unwrap();
                assert!(buffer[..count] == *expected);
            }
            // More than is read at once.
            make_cold(temporary.as_file());
            let mut whole = vec![0; all.len()];
            opened.read_exact_at(&mut whole, 0).await.unwrap();
            assert!(whole == all);
        }
        let error = opened.read_exact_at(&mut [0; 100], 2_999_950).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("ends at 3000000, 50 bytes early"), "{error}");
    });
}

#[test]
fn what_is_written_is_read_and_survives_a_cold_cache() {
    let all = content(2_500_000);
    on_both(|| async {
        let temporary = file(b"");
        let created = File::create(temporary.path()).await.unwrap();
        created.write_all_at(&all[..1000], 0).await.unwrap();
        created.write_all_at(&all[1000..], 1000).await.unwrap();
        created.sync_data().await.unwrap();
        created.sync_all().await.unwrap();
        make_cold(temporary.as_file());
        assert!(std::fs::read(temporary.path()).unwrap() == all);
        assert_eq!(created.metadata().await.unwrap().len(), 2_500_000);
        assert_eq!(created.read_at(&mut [0], 0).await.unwrap_err().raw_os_error(), Some(9));
        let append = OFlags::WRONLY | OFlags::APPEND;
        let append = File::open_with(temporary.path(), append, Mode::empty()).await.unwrap();
        append.write_all_at(b"end", 0).await.unwrap();
        assert_eq!(std::fs::metadata(temporary.path()).unwrap().len(), 2_500_003);
    });
}

#[test]
fn ranges_come_in_their_order_however_they_are_read() {
    let all = content(1_000_000);
    let temporary = file(&all);
    on_both(|| async {
        let opened = File::open(temporary.path()).await.unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        let mut range = |_| {
            let start = random.u64(..1_000_100);
            start..start + random.u64(..3000)
        };
        let ranges: Vec<_> = (0..500).map(&mut range).collect();
        let expected = |range: &std::ops::Range<u64>| {
            let within = |at: u64| all.len().min(at as usize);
            all[within(range.start)..within(range.end)].to_vec()
        };
        let expected: Vec<_> = ranges.iter().map(expected).collect();
        for merge in [
            Merge::default(),
            Merge { gap_bytes: 0, most_bytes: 0 },
            Merge { gap_bytes: 1 << 30, most_bytes: 1 << 30 },
        ] {
            make_cold(temporary.as_file());
            let parts = read_ranges_merged(&opened, &ranges, merge).await.unwrap();
            assert!(parts == expected, "{merge:?}");
        }
        assert!(read_ranges(&opened, &ranges).await.unwrap() == expected);
        assert!(read_ranges(&opened, &[]).await.unwrap().is_empty());
        let backwards = std::ops::Range { start: 9, end: 3 };
        let error = read_ranges(&opened, std::slice::from_ref(&backwards)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

/// A server hands on what a client asks for: memory is taken for what the file has.
#[test]
fn a_range_takes_no_more_memory_than_it_gives() {
    let all = content(3_000_000);
    let temporary = file(&all);
    on_both(|| async {
        let opened = File::open(temporary.path()).await.unwrap();
        for cold in [false, true] {
            if cold {
                make_cold(temporary.as_file());
            }
            let ends = [1 << 40, u64::MAX, 3_000_001, 2_999_999];
            let ranges: Vec<_> = ends.iter().map(|end| 1_000_000..*end).collect();
            for (part, end) in read_ranges(&opened, &ranges).await.unwrap().iter().zip(ends) {
                assert!(part[..] == all[1_000_000..all.len().min(end as usize)], "{end} {cold}");
            }
            let behind = [1 << 40..1 << 41, 3_000_000..u64::MAX, u64::MAX - 1..u64::MAX];
            assert_eq!(read_ranges(&opened, &behind).await.unwrap(), [b"", b"", b""]);
        }
        // These do not tell how long they are.
        let known = std::fs::read("/proc/self/auxv").unwrap();
        let opened = File::open("/proc/self/auxv").await.unwrap();
        let parts = read_ranges(&opened, &[0..1 << 40, 8..1 << 41]).await.unwrap();
        assert!(parts == [&known[..], &known[8..]]);
        let opened = File::open("/dev/zero").await.unwrap();
        let parts = read_ranges(&opened, &[0..3 << 20, 1 << 30..(1 << 30) + 5]).await.unwrap();
        assert_eq!((parts[0].len(), &parts[1][..]), (3 << 20, &[0; 5][..]));
    });
}

#[test]
fn a_task_that_finds_everything_in_memory_lets_others_run() {
    let temporary = file(&content(4096));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let opened = File::open(temporary.path()).await.unwrap();
        let other = tokio::spawn(async {});
        let mut reads = 0;
        while !other.is_finished() {
            opened.read_at(&mut [0; 16], 0).await.unwrap();
            reads += 1;
            assert!(reads < 100_000, "it never lets the other task run");
        }
    });
}

#[test]
fn many_tasks_share_a_file() {
    let all = content(500_000);
    let temporary = file(&all);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let opened = File::open(temporary.path()).await.unwrap();
        make_cold(temporary.as_file());
        let tasks: Vec<_> = (0..50_usize)
            .map(|task| {
                let (opened, all) = (opened.clone(), all.clone());
                tokio::spawn(async move {
                    for at in 0..50 {
                        let offset = (task * 9_973 + at * 331) % 400_000;
                        let mut buffer = [0; 5000];
                        opened.read_exact_at(&mut buffer, offset as u64).await.unwrap();
                        assert!(buffer == all[offset..offset + 5000]);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}
