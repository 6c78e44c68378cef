//! The parts of the tests: what each takes, and what runs it.

use anyhow::Result;
use clap::ValueEnum;
use serde::Deserialize;

use crate::debian;

/// A part of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The quick ones of the workspace, which need nothing installed
    Fast,
    /// The workspace's tests but those of the parts below
    Workspace,
    /// The report's page in a browser
    Page,
    /// The interface for C, from programs in C and C++
    Capi,
    /// Stock kernels in machines of the lab, with our modules, and OS nodes in them
    Lab,
    /// The examples in the documentation
    Doc,
    /// The protocols between threads under every interleaving
    Loom,
    /// What is promised for aarch64, in an emulator
    Cross,
    /// Suites of glibc, gnulib and CPython with Kumiki in place of posix_spawn and subprocess;
    /// only when it is named, some minutes
    Peers,
    /// rsync's, tar's, coreutils' and git's own suites with `kumiki ahead`'s library in front of every program, and without; only when
    /// it is named, some minutes
    #[serde(rename = "ahead-suites")]
    AheadSuites,
    /// The papers' experiments, and the tests of the parts that place threads on cpus, on
    /// emulated machines of 8 and 16 cpus; only when it is named, an hour
    Cpus,
    /// Tests that the others leave out because they take minutes: nodes' snapshots, folders, systems, a
    /// soak of half an hour, CPython's suites of multiprocessing; only when it is named, two hours
    Long,
    /// The packages that `cargo xtask deb` has made, installed, used, upgraded and purged in a Debian 12 and a
    /// 13 as new; only when it is named, root only, a quarter of an hour
    Deb,
    /// The source package that `cargo xtask deb` has made, built in a Debian 12 and a 13 as new by their
    /// own Rust without network; only when it is named, root only, an hour
    Source,
    /// The façade and the libraries' tests by the oldest Rust that they promise, in a Debian 13 as new;
    /// only when it is named, root only, half an hour
    Msrv,
    /// The libraries' tests as static programs of musl, in a root that has no glibc; only when it is named,
    /// root only, half an hour
    Musl,
    /// Programs and the libraries' tests for aarch64 in a machine of the lab with Debian's kernel for it, which QEMU
    /// emulates; only when it is named, an hour or two
    Arm64,
    /// The tests of the package for Python in a Debian 12 and a 13 as new that have Python and nothing else: they pass,
    /// or are skipped by name; only when it is named, root only, some minutes
    Python,
    /// Not a test but all of them: the README's commands in a Debian as new
    Fresh,
    /// Tests of the crates of `lib/`; like the four that follow it builds no other folder
    Lib,
    /// Tests of the crates of `measure/`
    Measure,
    /// Tests of the crates of `node/`, and nodes in machines of the lab
    Node,
    /// Tests of the crates of `apps/`, but for what starts machines
    Apps,
    /// Tests of the crates of `dev/`
    Dev,
}

impl Part {
    /// Those that run when no part is named: not `Peers`, `AheadSuites`, `Cpus`, `Long`, `Deb`, `Source`, `Msrv`,
    /// `Musl`, `Arm64` and `Python`, which take long.
    pub(crate) const ALL: [Part; 7] =
        [Part::Workspace, Part::Page, Part::Capi, Part::Lab, Part::Doc, Part::Loom, Part::Cross];

    /// The folder of crates that it is the tests of, if it is a door.
    pub(crate) fn door(self) -> Option<&'static str> {
        match self {
            Part::Lib => Some("lib"),
            Part::Measure => Some("measure"),
            Part::Node => Some("node"),
            Part::Apps => Some("apps"),
            Part::Dev => Some("dev"),
            _ => None,
        }
    }

    /// Whether a test program of `part`, in this folder of crates, is one of it: of a door those in its
    /// own folder, and nodes' whole machines wherever they are started.
    pub(crate) fn has(self, folder: &str, part: Part) -> bool {
        match self.door() {
            None => true,
            Some(_) if part == Part::Lab => self == Part::Node,
            Some(door) => door == folder,
        }
    }

    /// The parts that it is made of: itself, unless it is a door.
    pub(crate) fn parts(self) -> Vec<Part> {
        match self {
            Part::Lib => vec![Part::Workspace, Part::Capi, Part::Doc, Part::Loom],
            Part::Measure => vec![Part::Workspace, Part::Page, Part::Doc, Part::Loom],
            Part::Node => vec![Part::Workspace, Part::Lab, Part::Doc, Part::Loom],
            Part::Apps => vec![Part::Workspace, Part::Capi, Part::Doc, Part::Loom],
            Part::Dev => vec![Part::Workspace],
            part => vec![part],
        }
    }

    /// Installs what is needed for it.
    pub(crate) fn install(self) -> Result<()> {
        debian::install(match self {
            Part::Workspace => "workspace",
            Part::Page => "page",
            Part::Capi => "capi",
            Part::Lab | Part::Cpus | Part::Long => "lab",
            Part::Peers => "peers",
            Part::AheadSuites => "ahead-suites",
            // Cross says by itself what is not to be had, and goes on without.
            _ => return Ok(()),
        })
    }

    /// Whether its tests are programs that a build of the workspace makes.
    pub(crate) fn has_programs(self) -> bool {
        use Part::{AheadSuites, Capi, Cpus, Fast, Lab, Long, Page, Peers, Workspace};
        matches!(self, Fast | Workspace | Page | Capi | Lab | Peers | AheadSuites | Cpus | Long)
    }

    /// Whether its tests install libkumiki (`cargo xtask capi --profile release`).
    pub(crate) fn has_tests_of_libkumiki(self) -> bool {
        matches!(self, Part::Workspace | Part::Capi | Part::Long)
    }
}
