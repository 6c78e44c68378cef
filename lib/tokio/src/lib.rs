//! Files for async programs: no cold file stops the runtime, and no warm one costs a hand-over.
//!
//! A runtime's thread must not sleep in a call on a file. tokio therefore hands each such call
//! over to a pool of threads, and a read of what is in memory takes twice to five times what
//! the call itself does. Here each call is first tried in a form that cannot sleep
//! ([`kumiki_parasc::tries`]), on the calling thread; only one that would sleep is handed over,
//! and awaited.
//!
//! ```text
//!  file.read_at(&mut buffer, offset).await
//!     │ preadv2(…, RWF_NOWAIT) into `buffer`     in memory: ready at once, one system call
//!     └─ would sleep ─▶ a processing thread reads into memory of its own ─▶ copied to `buffer`
//! ```
//!
//! ```
//! # futures_lite::future::block_on(async {
//! use kumiki_tokio::{File, fs};
//!
//! let file = File::open("/etc/passwd").await?;
//! let mut start = [0; 5];
//! file.read_exact_at(&mut start, 0).await?;
//! assert_eq!(&start, b"root:");
//! assert!(fs::read("/etc/passwd").await?.starts_with(&start));
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Cancellation
//! A future may be dropped at any point. A read that is under way then writes to memory that
//! belongs to the request, never to the caller's buffer; a write has its own copy of the data,
//! and may still be made. A file that was being opened is closed.
//!
//! # Runtimes
//! Nothing here needs tokio: the futures are woken by whoever ends their call, and run on any
//! executor (the tests run them on tokio's and on smol's). With the feature `tokio`,
//! [`Reader`] has tokio's `AsyncRead` and `AsyncSeek`. A task that finds everything in memory
//! would never let others run: every 128th call that is ready at once yields first.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod engine;
mod file;
pub mod fs;
mod memory;
mod ranges;
#[cfg(feature = "tokio")]
mod reader;
mod turn;
mod unread;
mod walk;

pub use engine::use_engine;
pub use file::File;
pub use ranges::{Merge, read_ranges, read_ranges_merged};
#[cfg(feature = "tokio")]
pub use reader::Reader;
