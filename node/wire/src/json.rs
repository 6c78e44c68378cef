//! Records as JSON.

use serde::Serialize;

use crate::{Error, ErrorKind, Result};

/// A record as it is kept or sent.
pub fn json(record: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| Error::inner(ErrorKind::Invalid, error.to_string()))
}
