//! The functions of `kumiki/files.h`, which documents them: one operation for many paths.
//!
//! ```text
//!  names, one after the other ── operations, one a name ── engine::run ── errors, one a name
//! ```

mod change;
mod contents;
mod engine;
mod listing;
mod named;
mod stat;
mod write;

pub use change::{kumiki_files_rename, kumiki_files_unlink};
pub use contents::{
    Content, Contents, kumiki_files_contents_destroy, kumiki_files_contents_list, kumiki_files_read,
};
pub use listing::{
    Listed, Listing, kumiki_files_list, kumiki_files_listing_destroy, kumiki_files_listing_list,
};
pub use stat::{FileStat, kumiki_files_stat};
pub use write::{Data, kumiki_files_write};

/// Entry of `errors` if the library has no answer, and a plain call of the program has.
pub const KUMIKI_FILES_ASK: i32 = -1;
/// Entry of a file's content if a descriptor is in place of its size.
pub const KUMIKI_FILES_OPEN: i32 = -2;
/// A bit of the flags of [`kumiki_files_write`].
pub const KUMIKI_FILES_SYNC: u32 = 1;
/// A bit of the flags of [`kumiki_files_write`].
pub const KUMIKI_FILES_NEW: u32 = 2;
/// A bit of the flags of [`kumiki_files_write`].
pub const KUMIKI_FILES_APPEND: u32 = 4;
