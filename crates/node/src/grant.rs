//! Things that the host hands to a node that is to start another one.

use kumiki_boot::Piece;
use serde::{Deserialize, Serialize};

use crate::clocks::Clocks;
use crate::record::Record;
use crate::tree;

/// Everything that starting another node takes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) entry: tree::Entry,
    pub(crate) record: Record,
    /// Where its image is.
    pub(crate) image: Vec<Piece>,
    pub(crate) clocks: Clocks,
}
