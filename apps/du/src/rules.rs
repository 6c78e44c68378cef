//! What to count, and how.

use crate::exclude::Exclude;
use crate::when::Which;

/// Amount that is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Amount {
    /// Space on the disk.
    #[default]
    Blocks,
    /// Lengths of files.
    Lengths,
    /// Numbers of files.
    Inodes,
}

/// Rules by which files are counted.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) amount: Amount,
    /// The latest of these times is wanted.
    pub(crate) time: Option<Which>,
    /// A file of several names each time.
    pub(crate) count_links: bool,
    /// Any file once only, also one with a single name: several operands or
    /// symbolic links may lead to it.
    pub(crate) once: bool,
    pub(crate) one_file_system: bool,
    /// Follow every symbolic link.
    pub(crate) follow: bool,
    /// Follow symbolic links that are operands.
    pub(crate) follow_operands: bool,
    pub(crate) exclude: Exclude,
    /// Keep files down to this depth for lines of their own.
    pub(crate) files_to_depth: Option<u32>,
}
