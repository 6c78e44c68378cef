//! Things that the host hands to a node that is to start another one.

use kumiki_boot::Piece;
use kumiki_node_wire::module::sysfs;
use serde::{Deserialize, Serialize};

use crate::clocks::Clocks;
use crate::record::Record;

/// Everything that starting another node takes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Grant {
    pub entry: sysfs::Status,
    pub record: Record,
    /// Pieces of its image.
    pub image: Vec<Piece>,
    /// Pieces of the snapshot that its record names.
    #[serde(default)]
    pub snapshot: Vec<Piece>,
    pub clocks: Clocks,
}
