//! What a host asks of a node's agent: the opening of a stream in a channel. The answer is its closing, an
//! `Ending`.

use std::ffi::OsString;

use kumiki_stream::exec::Program;
use serde::{Deserialize, Serialize};

/// Something that a node is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Run a program: its data, signals and ending in this stream.
    Run(Run),
    /// Switch itself off.
    Shutdown,
    /// Keep the grant of another node, that it may start; as JSON, as it is kept there.
    Lend(Vec<u8>),
    /// Sleep, so that its memory can be kept; answered by the word of a node that is kept, or refused.
    Keep {
        /// True if it wakes in its own memory; what is copied starts anew elsewhere.
        stays: bool,
    },
    /// Watch the host, by an order as JSON, as it is kept there; or no more if there is none.
    Watch(Option<Vec<u8>>),
    /// Bring cpus on and off line. What has become of each is a word in the window.
    Cpus(CpuOrder),
    /// Use memory, and release some. What has become of each is a word in the window.
    Memory(MemoryOrder),
}

/// A program for a node to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The program. It runs in `/` if no folder is given.
    pub program: Program,
    /// A program of ours, which is beside the node's root.
    pub beside_root: bool,
    /// The health check that the node's container image names, in place of words.
    pub health: bool,
}

impl Run {
    /// Program and arguments, in the node's root.
    pub fn of<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Run { program: Program { words, ..Program::default() }, ..Run::default() }
    }

    /// Program of ours and arguments, beside the root.
    pub fn beside_root<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Self {
        Run { beside_root: true, ..Run::of(words) }
    }
}

/// Cpus for a node's kernel to use, and to release, by their APIC ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuOrder {
    /// Cpus to be brought on line.
    pub on: Vec<u32>,
    /// Cpus to be released.
    pub off: Vec<u32>,
}

/// Memory for a node's kernel to use, and to release, by its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryOrder {
    /// Memory to be used.
    pub on: Vec<u64>,
    /// Memory to be released.
    pub off: Vec<u64>,
}
