//! The words of `kumiki lab`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use kumiki_lab::{Arch, KernelName, Module};

use crate::duration::positive;
use crate::size::size;

#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(super) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum LabCommand {
    /// Start a machine, run a command in it as root, and end it
    ///
    /// Exit status: the command's own; 2 also if the machine failed or its
    /// kernel log shows a fault.
    Run {
        #[command(flatten)]
        shape: Shape,
        #[command(flatten)]
        what: What,
    },
    /// Start a machine that stays
    Up {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        shape: Shape,
    },
    /// Keep a machine (what `up` starts in the background)
    #[command(hide = true)]
    Keep {
        #[command(flatten)]
        name: Name,
        #[command(flatten)]
        shape: Shape,
    },
    /// Run a command in a machine that stays
    ///
    /// Exit status: the command's own; 2 also if the machine failed or its
    /// kernel log shows a fault.
    Exec {
        #[command(flatten)]
        name: Name,
        /// Give the command a terminal
        #[arg(long, short)]
        tty: bool,
        #[command(flatten)]
        what: What,
    },
    /// Open a root shell in a machine that stays
    Console {
        #[command(flatten)]
        name: Name,
    },
    /// Print the kernel log of a machine that stays
    Logs {
        #[command(flatten)]
        name: Name,
    },
    /// End a machine that stays
    Down {
        #[command(flatten)]
        name: Name,
        /// End all of them
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// List the machines that stay
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove machines that have ended, and all that is kept between runs
    ///
    /// Packages, kernels, modules that were built and logs of runs that failed; the
    /// next machine downloads what it needs again. Not while a machine runs.
    Clean,
    /// Download kernels, the newest of each, so that no network is needed later
    Fetch {
        /// Stock kernels [default: that of this machine's Debian]
        #[arg(value_name = "PACKAGE")]
        kernels: Vec<KernelName>,
    },
}

#[derive(Debug, Args)]
pub(super) struct Name {
    /// The machine's name
    #[arg(default_value = "lab")]
    pub(super) name: String,
}

/// Choice of the machine.
#[derive(Debug, Args)]
pub(super) struct Shape {
    /// Number of cpus [default: 2; 4 with --nodes]
    #[arg(long, value_name = "N")]
    pub(super) cpus: Option<u32>,
    /// Memory, e.g. 512M [default: 512M; 2G with --nodes]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub(super) memory: Option<u64>,
    /// Stock kernel: 6.1, 6.1-cloud, 6.12, … or RELEASE/PACKAGE
    /// [default: that of this machine's Debian]
    #[arg(long, value_name = "PACKAGE")]
    pub(super) kernel: Option<KernelName>,
    /// Processor of the machine; of another one than this machine's QEMU emulates it
    /// [default: this machine's]
    #[arg(long, value_enum, value_name = "ARCH")]
    pub(super) arch: Option<Processor>,
    /// A `kumiki` or `kumiki-lab-agent` for the machine's processor that needs no libraries, which runs the
    /// commands there [default: this program, where it is for that processor]
    #[arg(long, value_name = "FILE")]
    pub(super) agent: Option<PathBuf>,
    /// Kernel module to load first, with its parameters: a name of the kernel's
    /// own, a .ko file, or parasc, which is built; may be given several times
    #[arg(long = "module", value_name = "NAME")]
    pub(super) modules: Vec<Module>,
    /// Have all for `kumiki node` in it: the module osnode loaded, the machine's
    /// kernel at /boot/vmlinuz, and for that kernel the module of nodes
    #[arg(long)]
    pub(super) nodes: bool,
    /// Words for the kernel's command line
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(super) append: Vec<String>,
    /// A word for QEMU's command line; may be given several times
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(super) qemu: Vec<OsString>,
    /// Executor of the machine's instructions
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    pub(super) accelerator: By,
}

/// A processor by Debian's name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Processor {
    /// x86-64
    Amd64,
    /// aarch64
    Arm64,
}

impl From<Processor> for Arch {
    fn from(processor: Processor) -> Self {
        match processor {
            Processor::Amd64 => Arch::Amd64,
            Processor::Arm64 => Arch::Arm64,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum By {
    /// KVM where it is seen to work, else TCG
    #[default]
    Auto,
    /// The processor
    Kvm,
    /// QEMU's emulation
    Tcg,
}

/// Command to run.
#[derive(Debug, Args)]
pub(super) struct What {
    /// File or folder to copy in first, into the command's folder /root unless
    /// another place is named; may be given several times
    #[arg(long = "in", value_name = "PATH[:PLACE]", value_parser = copy())]
    pub(super) files_in: Vec<OsString>,
    /// File or folder of the machine to copy out afterwards, into the current
    /// folder unless another one is named; may be given several times
    #[arg(long = "out", value_name = "PATH[:FOLDER]", value_parser = copy())]
    pub(super) files_out: Vec<OsString>,
    /// Variable for the command
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub(super) environment: Vec<(String, String)>,
    /// End the command after so long
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(super) timeout: Option<Duration>,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) words: Vec<OsString>,
}

impl What {
    /// Files to copy in: from where, to where.
    pub(super) fn copies_in(&self) -> Vec<(PathBuf, PathBuf)> {
        let pair = |(from, to): (PathBuf, Option<PathBuf>)| {
            let to = to.unwrap_or_else(|| from.file_name().unwrap_or_default().into());
            (from, to)
        };
        self.files_in.iter().map(|word| pair(split(word))).collect()
    }

    /// Files to copy out: from where, into which folder.
    pub(super) fn copies_out(&self) -> Vec<(PathBuf, PathBuf)> {
        let pair =
            |(from, to): (PathBuf, Option<PathBuf>)| (from, to.unwrap_or_else(|| ".".into()));
        self.files_out.iter().map(|word| pair(split(word))).collect()
    }
}

/// A path, and perhaps another one.
fn copy() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|word| {
        let (path, other) = split(&word);
        let is_there = |path: &Path| !path.as_os_str().is_empty();
        if is_there(&path) && other.as_deref().is_none_or(is_there) {
            return Ok(word);
        }
        Err("a path is expected, or two with a colon between them")
    })
}

/// `PATH:OTHER` at its last colon.
fn split(word: &OsString) -> (PathBuf, Option<PathBuf>) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    match bytes.iter().rposition(|&byte| byte == b':') {
        Some(at) => {
            let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
            (path(&bytes[..at]), Some(path(&bytes[at + 1..])))
        }
        None => (PathBuf::from(word), None),
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("NAME=VALUE is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_part_at_the_last_colon() {
        assert_eq!(split(&"a/b".into()), ("a/b".into(), None));
        assert_eq!(split(&"a:b:/c".into()), ("a:b".into(), Some("/c".into())));
    }
}
