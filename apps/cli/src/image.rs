//! `kumiki image`: what nodes start from.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use kumiki_node::{Base, Image, ImageInfo, ImageKind, RootOf, Source};
use kumiki_report::format;

use crate::{Verdict, output};

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Put a kernel and an initramfs for nodes into memory
    Add {
        /// Name to start nodes from
        name: String,
        /// The kernel, e.g. /boot/vmlinuz
        #[arg(long, value_name = "FILE")]
        kernel: PathBuf,
        #[command(flatten)]
        base: BaseArgs,
        /// Container image that is the root of the nodes' programs: an archive of all files, a
        /// folder of the OCI layout, what docker save makes; needs erofs-utils
        ///
        /// It stays in memory once, however many nodes start from it. Its program runs in each
        /// of them, which ends with it.
        #[arg(long, value_name = "FILE.tar|oci:DIR|docker-archive:FILE")]
        rootfs: Option<String>,
        /// Program to run in it, with its arguments [default: the image's own]
        #[arg(long, value_name = "WORDS", requires = "rootfs")]
        entrypoint: Option<String>,
    },
    /// List images, and the snapshots that `kumiki node snapshot` made
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an image; its memory goes back with its last name
    Rm {
        name: String,
        /// Remove it also if nodes start from it: those that run go on, and start again once there
        /// is an image of this name
        #[arg(long)]
        force: bool,
    },
    /// Remove all images that no node starts from
    Evict,
    /// Write a snapshot into a file, compressed
    ///
    /// It is started only where it was kept: on the same machine, in the same memory, on the same
    /// cpus. The file has all that was in the node's memory.
    Save { name: String, file: PathBuf },
    /// Put a snapshot from a file, which `save` made, back into memory
    Load { name: String, file: PathBuf },
    /// Compare an image's memory, or a snapshot's, with the hash taken when it was made
    Verify { name: String },
}

/// Files that go with a kernel.
#[derive(Debug, Args)]
pub(crate) struct BaseArgs {
    /// Begin the nodes' initramfs with this one
    /// [default: this machine's static busybox]
    #[arg(long, value_name = "FILE", requires = "kernel")]
    initrd: Option<PathBuf>,
    /// A cpio archive to unpack over everything else
    #[arg(long, value_name = "FILE", requires = "kernel")]
    overlay: Option<PathBuf>,
    /// The configuration that the kernel was built with
    /// [default: in the kernel, or config-RELEASE beside it]
    #[arg(long, value_name = "FILE", requires = "kernel")]
    config: Option<PathBuf>,
    /// osnode-guest.ko built for this kernel
    /// [default: looked for in /lib/modules]
    #[arg(long, value_name = "FILE", requires = "kernel")]
    guest_module: Option<PathBuf>,
    /// Modules of this kernel to load in each node, in this order
    #[arg(long, value_delimiter = ',', value_name = "FILE[,FILE]…", requires = "kernel")]
    modules: Vec<PathBuf>,
    /// Program of this machine that each node has in /usr/local/bin, with its libraries, e.g. this
    /// command: a node's own kumiki has only what its host asks of it
    #[arg(long = "program", value_name = "FILE", requires = "kernel")]
    programs: Vec<PathBuf>,
}

impl From<BaseArgs> for Base {
    fn from(args: BaseArgs) -> Self {
        let BaseArgs { initrd, overlay, config, guest_module, modules, programs } = args;
        Base { initrd, overlay, config, guest_module, modules, programs, root: None }
    }
}

pub(crate) fn run(args: ImageArgs) -> Result<Verdict> {
    match args.command {
        ImageCommand::Add { name, kernel, base, rootfs, entrypoint } => {
            let words = entrypoint.as_deref().map(words).transpose()?.unwrap_or_default();
            let root = rootfs.map(|text| RootOf { source: Source::parse(&text), words });
            let image = Image::add(&name, &kernel, &Base { root, ..base.into() })?;
            if image.config.is_none() {
                output::talk(format_args!(
                    "image {name}: whether its kernel has what a node needs was not checked: no \
                     configuration is in it, and no config-{} is beside it or in /boot; --config \
                     FILE gives one",
                    image.release.as_deref().unwrap_or("RELEASE")
                ));
            }
            let memory = match image.same_as.first() {
                Some(other) => format!("the memory of image {other}, whose content is the same"),
                None => format!("{} of memory", format::bytes(image.bytes)),
            };
            let release = image.release.as_deref().unwrap_or("of an unknown release");
            output::talk(format_args!("image {name}: kernel {release}, {memory}"));
        }
        ImageCommand::Ls { json } => images(&Image::list()?, json)?,
        ImageCommand::Rm { name, force: true } => Image::remove_forced(&name)?,
        ImageCommand::Rm { name, force: false } => Image::remove(&name)?,
        ImageCommand::Evict => {
            let mut gone = Vec::new();
            let evicted = Image::evict(|image| gone.push(image.name.clone()));
            gone.into_iter().try_for_each(output::line)?;
            evicted?;
        }
        ImageCommand::Save { name, file } => {
            let bytes = Image::save_snapshot(&name, &file)?;
            output::talk(format_args!(
                "snapshot {name}: {} in {}",
                format::bytes(bytes),
                file.display()
            ));
        }
        ImageCommand::Load { name, file } => {
            let bytes = Image::load_snapshot(&name, &file)?;
            output::talk(format_args!("snapshot {name}: {} of memory", format::bytes(bytes)));
        }
        ImageCommand::Verify { name } => {
            if let Some(what) = Image::check(&name)? {
                output::talk(format_args!(
                    "image {name}: {what} is not what was put there: something wrote to its \
                     memory; kumiki image rm {name}, and add it again"
                ));
                return Ok(Verdict::Negative);
            }
        }
    }
    Ok(Verdict::Fine)
}

/// Words as a shell parts them.
fn words(text: &str) -> Result<Vec<String>> {
    shlex::split(text).filter(|words| !words.is_empty()).with_context(|| {
        format!("--entrypoint {text:?}: a program and its arguments are expected, quotes closed")
    })
}

fn images(images: &[ImageInfo], json: bool) -> Result<()> {
    if json {
        return output::json(&images);
    }
    let mut table = output::Rows::new(&["image", "kind", "state", "kernel", "nodes", "memory"], 5);
    for image in images {
        let release = image.release.as_deref().unwrap_or("-").to_owned();
        let nodes = image.nodes.join(",");
        let memory = match image.same_as.iter().find(|other| **other < image.name) {
            Some(other) => format!("as {other}"),
            None => format::bytes(image.bytes),
        };
        let nodes = if nodes.is_empty() { "-".to_owned() } else { nodes };
        let kind = match image.kind {
            ImageKind::Kernel => "kernel",
            ImageKind::Snapshot => "snapshot",
        };
        let (name, state) = (image.name.clone(), image.state.clone());
        table.add([name, kind.to_owned(), state, release, nodes, memory]);
    }
    table.print()
}
