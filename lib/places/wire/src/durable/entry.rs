//! What a durable place's files say: heads, and what has come of each operation.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::wire::Outcome;

/// The form of these files.
pub const FORM: u32 = 1;

/// The bits of an id that are not its place's.
pub const OWN: u64 = (1 << 48) - 1;

/// Head of a file, which each of them has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileHead {
    /// Form of the file; whatever it is, it comes first.
    pub form: u32,
    /// Name of the place for all, `hostb.core3`.
    pub place: String,
    /// Number of its life, which a restart does not change.
    pub life: u64,
    /// Number of this start of it.
    pub epoch: u64,
    /// Kinds that are kept, by their numbers.
    pub kinds: Vec<KeptKind>,
}

impl FileHead {
    /// Its bytes.
    pub fn written(&self) -> Result<Vec<u8>> {
        rmp_serde::to_vec(self).map_err(|error| Error::undecodable("a place's log", &error))
    }
}

/// A kind that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptKind {
    pub number: u8,
    pub name: String,
}

/// Something that is so from now on. All that one operation has done is one record, a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// A resource of this name, and of this state in this form.
    Made { id: u64, name: Option<String>, form: u32, state: Bytes },
    /// A resource has this state.
    Changed { id: u64, form: u32, state: Bytes },
    /// A resource has gone.
    Gone { id: u64 },
    /// Answers that are kept for a client, which has seen all before `first` but those of `open`.
    Answers { lease: u64, first: u64, open: Vec<(u64, u64)>, answers: Vec<(u64, Outcome)> },
    /// A slot of a kind's table has had so many uses, and is empty.
    Used { id: u64 },
}
