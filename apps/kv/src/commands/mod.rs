//! The commands: one row each, from which what it needs, its errors, `COMMAND` and the page follow.

mod config;
mod connection;
mod expire;
mod float;
mod glob;
mod keys;
mod lcs;
mod options;
mod row;
mod server;
mod strings;
mod table;
mod transaction;

pub use connection::NO_CLIENT;
pub use keys::shard_of_cursor;
pub(crate) use options::{NUMBER, SYNTAX};
pub use row::{Call, Done, Here, Merge, Refused, Row, Run, flag};
pub use table::{Unknown, all, command, find, wrong_count};
