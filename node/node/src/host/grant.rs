//! Things that the host hands to a node that is to start another one.

use kumiki_boot::Piece;
use serde::{Deserialize, Serialize};

use crate::host::clocks::Clocks;
use crate::host::record::Record;
use crate::module::sysfs;

/// Everything that starting another node takes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) entry: sysfs::Status,
    pub(crate) record: Record,
    /// Where its image is.
    pub(crate) image: Vec<Piece>,
    /// Where the snapshot is that its record names.
    #[serde(default)]
    pub(crate) snapshot: Vec<Piece>,
    pub(crate) clocks: Clocks,
}
