//! The functions, each with its own of std's.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures_lite::future::block_on;
use kumiki_tokio as ours;

use super::Outcome;
use super::things::Both;

pub(super) struct Function<T: ?Sized + 'static> {
    pub(super) name: &'static str,
    pub(super) std: fn(&T) -> Outcome,
    pub(super) ours: fn(&T) -> Outcome,
}

/// A path as text. Each call has a terminal of its own, whose number is the kernel's choice.
fn shown(path: PathBuf) -> String {
    let text = path.display().to_string();
    match text.starts_with("/dev/pts/") {
        true => "/dev/pts/*".to_owned(),
        false => text,
    }
}

fn outcome(result: io::Result<String>) -> Outcome {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::OutOfMemory => "no memory".to_owned(),
        kind => format!("{kind:?} {:?}", error.raw_os_error()),
    })
}

fn bytes(read: &[u8]) -> String {
    let sum = read.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
    format!("{} bytes, {sum:x}", read.len())
}

fn attributes(length: u64, mode: u32, inode: u64, modified: SystemTime) -> String {
    // Of what is made anew each time neither the number nor the time is the same.
    let _ = (inode, modified);
    format!("{length} {mode:o}")
}

fn of_std(it: &std::fs::Metadata) -> String {
    attributes(it.len(), it.mode(), it.ino(), it.modified().unwrap())
}

fn of_ours(it: &ours::fs::Metadata) -> String {
    attributes(
        it.len(),
        it.attributes().mode().into(),
        it.attributes().ino(),
        it.modified().unwrap(),
    )
}

fn sorted(mut names: Vec<String>) -> String {
    names.sort();
    names.join(" ")
}

pub(super) const OF_PATHS: &[Function<Path>] = &[
    Function {
        name: "read",
        std: |path| outcome(std::fs::read(path).map(|it| bytes(&it))),
        ours: |path| outcome(block_on(ours::fs::read(path)).map(|it| bytes(&it))),
    },
    Function {
        name: "metadata",
        std: |path| outcome(std::fs::metadata(path).map(|it| of_std(&it))),
        ours: |path| outcome(block_on(ours::fs::metadata(path)).map(|it| of_ours(&it))),
    },
    Function {
        name: "symlink_metadata",
        std: |path| outcome(std::fs::symlink_metadata(path).map(|it| of_std(&it))),
        ours: |path| outcome(block_on(ours::fs::symlink_metadata(path)).map(|it| of_ours(&it))),
    },
    Function {
        name: "try_exists",
        std: |path| outcome(std::fs::exists(path).map(|it| it.to_string())),
        ours: |path| outcome(block_on(ours::fs::try_exists(path)).map(|it| it.to_string())),
    },
    Function {
        name: "canonicalize",
        std: |path| outcome(std::fs::canonicalize(path).map(shown)),
        ours: |path| outcome(block_on(ours::fs::canonicalize(path)).map(shown)),
    },
    Function {
        name: "read_dir",
        std: |path| {
            let list = || {
                let names = std::fs::read_dir(path)?.map(|entry| {
                    entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
                });
                names.collect::<io::Result<Vec<_>>>().map(sorted)
            };
            outcome(list())
        },
        ours: |path| {
            outcome(block_on(async {
                let (mut list, mut names) = (ours::fs::read_dir(path).await?, Vec::new());
                while let Some(entry) = list.next_entry().await? {
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
                Ok(sorted(names))
            }))
        },
    },
    Function {
        name: "open",
        std: |path| {
            outcome(File::open(path).and_then(|file| file.metadata()).map(|it| of_std(&it)))
        },
        ours: |path| {
            outcome(block_on(async {
                let file = ours::File::open(path).await?;
                file.metadata().await.map(|it| of_ours(&it))
            }))
        },
    },
    Function {
        name: "write",
        std: |path| {
            let write = || {
                let file = File::options().write(true).open(path)?;
                let count = file.write_at(b"beginning", 0)?;
                Ok(format!("{count}"))
            };
            outcome(write())
        },
        ours: |path| {
            outcome(block_on(async {
                let (flags, mode) = (rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty());
                let file = ours::File::open_with(path, flags, mode).await?;
                let count = file.write_at(b"beginning", 0).await?;
                Ok(format!("{count}"))
            }))
        },
    },
    Function {
        name: "open, direct",
        std: |path| {
            use std::os::unix::fs::OpenOptionsExt;
            let read = || {
                let mut options = File::options();
                let file = options.read(true).custom_flags(libc::O_DIRECT).open(path)?;
                range(0, &file)
            };
            outcome(read().map(|it| bytes(&it)))
        },
        ours: |path| {
            outcome(block_on(async {
                let (flags, mode) = (rustix::fs::OFlags::DIRECT, rustix::fs::Mode::empty());
                let file = ours::File::open_with(path, flags, mode).await?;
                let mut page = Page::new();
                let count = file.read_at(&mut page.0[1..4097], 0).await?;
                Ok(bytes(&page.0[1..][..count]))
            }))
        },
    },
    // The last one: what was missing is there then.
    Function {
        name: "create",
        std: |path| outcome(File::create(path).and_then(|it| it.metadata()).map(|it| of_std(&it))),
        ours: |path| {
            outcome(block_on(async {
                let file = ours::File::create(path).await?;
                file.metadata().await.map(|it| of_ours(&it))
            }))
        },
    },
];

/// Memory as a file with `O_DIRECT` wants it, so that std's call has it.
struct Page(Vec<u8>);

impl Page {
    fn new() -> Page {
        Page(vec![b'w'; 3 * 4096])
    }

    fn bytes(&mut self) -> &mut [u8] {
        let skip = self.0.as_ptr().align_offset(4096);
        &mut self.0[skip..][..4096]
    }
}

fn range(at: u64, file: &File) -> io::Result<Vec<u8>> {
    let mut page = Page::new();
    let count = file.read_at(page.bytes(), at)?;
    Ok(page.bytes()[..count].to_vec())
}

pub(super) const OF_FILES: &[Function<Both>] = &[
    Function {
        name: "metadata",
        std: |both| outcome(both.std.metadata().map(|it| of_std(&it))),
        ours: |both| outcome(block_on(both.ours.metadata()).map(|it| of_ours(&it))),
    },
    Function {
        name: "read_at",
        std: |both| outcome(range(0, &both.std).map(|it| bytes(&it))),
        ours: |both| {
            // Somewhere in memory.
            let mut page = Page::new();
            let read = block_on(both.ours.read_at(&mut page.0[1..4097], 0));
            outcome(read.map(|count| bytes(&page.0[1..][..count])))
        },
    },
    Function {
        name: "read_at, aligned",
        std: |both| outcome(range(4096, &both.std).map(|it| bytes(&it))),
        ours: |both| {
            let mut page = Page::new();
            let read = block_on(both.ours.read_at(page.bytes(), 4096));
            outcome(read.map(|count| bytes(&page.bytes()[..count])))
        },
    },
    Function {
        name: "read_exact_at",
        std: |both| {
            let mut page = Page::new();
            outcome(both.std.read_exact_at(page.bytes(), 0).map(|()| bytes(page.bytes())))
        },
        ours: |both| {
            let mut page = Page::new();
            let read = block_on(both.ours.read_exact_at(&mut page.0[1..4097], 0));
            outcome(read.map(|()| bytes(&page.0[1..4097])))
        },
    },
    Function {
        name: "read_at_into",
        std: |both| outcome(range(0, &both.std).map(|it| bytes(&it))),
        ours: |both| {
            let room = kumiki_parasc::op::Aligned::try_with_capacity(4096).unwrap();
            let read = block_on(both.ours.read_at_into(room, 0));
            outcome(read.map(|(count, room)| bytes(&room.as_ref()[..count])))
        },
    },
    Function {
        name: "read_ranges",
        std: |both| {
            let parts = [0, 8192, 4096].map(|at| range(at, &both.std));
            outcome(parts.into_iter().collect::<io::Result<Vec<_>>>().map(|it| bytes(&it.concat())))
        },
        ours: |both| {
            let ranges = [0..4096, 8192..12_288, 4096..8192];
            outcome(block_on(ours::read_ranges(&both.ours, &ranges)).map(|it| bytes(&it.concat())))
        },
    },
    Function {
        name: "read_ranges_merged",
        std: |both| {
            let parts = [4096, 0].map(|at| range(at, &both.std));
            outcome(parts.into_iter().collect::<io::Result<Vec<_>>>().map(|it| bytes(&it.concat())))
        },
        ours: |both| {
            let merge = ours::Merge { gap_bytes: 0, most_bytes: 0 };
            let read =
                block_on(ours::read_ranges_merged(&both.ours, &[4096..8192, 0..4096], merge));
            outcome(read.map(|it| bytes(&it.concat())))
        },
    },
    Function {
        name: "write_all_at",
        std: |both| {
            let mut page = Page::new();
            outcome(both.std.write_all_at(page.bytes(), 4096).map(|()| String::new()))
        },
        ours: |both| {
            let page = Page::new();
            outcome(
                block_on(both.ours.write_all_at(&page.0[1..4097], 4096)).map(|()| String::new()),
            )
        },
    },
    Function {
        name: "write_at",
        std: |both| {
            let mut page = Page::new();
            outcome(both.std.write_at(page.bytes(), 0).map(|count| count.to_string()))
        },
        ours: |both| {
            let page = Page::new();
            let written = block_on(both.ours.write_at(&page.0[1..4097], 0));
            outcome(written.map(|count| count.to_string()))
        },
    },
    Function {
        name: "sync_data",
        std: |both| outcome(both.std.sync_data().map(|()| String::new())),
        ours: |both| outcome(block_on(both.ours.sync_data()).map(|()| String::new())),
    },
    Function {
        name: "sync_all",
        std: |both| outcome(both.std.sync_all().map(|()| String::new())),
        ours: |both| outcome(block_on(both.ours.sync_all()).map(|()| String::new())),
    },
    #[cfg(feature = "tokio")]
    Function {
        name: "Reader",
        std: |both| {
            let read = || {
                let mut all = Vec::new();
                loop {
                    match range(all.len() as u64, &both.std)? {
                        part if part.is_empty() => return Ok(all),
                        part => all.extend(part),
                    }
                    if all.len() > 1 << 20 {
                        return Ok(all[..1 << 20].to_vec());
                    }
                }
            };
            outcome(read().map(|it| bytes(&it)))
        },
        ours: |both| {
            use tokio::io::AsyncReadExt;
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut all = Vec::new();
            let reader = ours::Reader::new(both.ours.clone(), 0);
            let read = runtime.block_on(reader.take(1 << 20).read_to_end(&mut all));
            outcome(read.map(|_| bytes(&all)))
        },
    },
];
