//! What a refusal is about.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The thing that a refusal is about: which name, which file, which limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// A node of this name.
    Node(String),
    /// An image of this name.
    Image(String),
    /// A device of a node.
    Device {
        /// Name of the node.
        node: String,
        /// Name of the device there.
        name: String,
    },
    /// A setting of a node, by its key in a machine file.
    Setting {
        /// Name of the node.
        node: String,
        /// The key.
        key: String,
    },
    /// A cpu, by its number; in a node by that of its APIC.
    Cpu(u32),
    /// Fewer cpus than were asked for.
    Cpus {
        /// Number that was asked for.
        asked: usize,
        /// Number that there is for it.
        most: usize,
    },
    /// A PCI function, as `lspci -D` names it.
    Function(String),
    /// This file, or what should be one.
    File(PathBuf),
    /// This folder, or a folder where a file is meant.
    Folder(PathBuf),
    /// Less memory than this.
    Memory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that there are for it.
        most: u64,
    },
    /// Memory at this address.
    Address(u64),
    /// More than fits.
    Limit {
        /// Things that are counted.
        of: String,
        /// Number that was asked for.
        asked: usize,
        /// Number that fits.
        most: usize,
    },
    /// A network interface: a bridge or a TAP.
    Interface(String),
    /// A module of a kernel.
    Module(String),
    /// An ability that a kernel or a machine lacks.
    Feature(String),
    /// A program beside Kumiki's own.
    Program(String),
    /// A word or a value that cannot be, or that nobody knows.
    Word(String),
}

impl Subject {
    /// A node of this name.
    pub fn node(name: &str) -> Self {
        Subject::Node(name.to_owned())
    }

    /// An image of this name.
    pub fn image(name: &str) -> Self {
        Subject::Image(name.to_owned())
    }

    /// A device of a node.
    pub fn device(node: &str, name: &str) -> Self {
        Subject::Device { node: node.to_owned(), name: name.to_owned() }
    }

    /// More things than fit.
    pub fn limit(of: &str, asked: usize, most: usize) -> Self {
        Subject::Limit { of: of.to_owned(), asked, most }
    }
}
