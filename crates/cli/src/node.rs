//! `kumiki image` and `kumiki node`: OS nodes and what they start from.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use kumiki_node::{
    Base, Cpus, Ending, Image, ImageInfo, MemorySource, Node, NodeInfo, Session, Spec, State,
};
use kumiki_report::format;

use crate::args::size;
use crate::{Verdict, interrupt, machine, output};

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
        /// Begin the nodes' initramfs with this one
        /// [default: this machine's static busybox]
        #[arg(long, value_name = "FILE")]
        initrd: Option<PathBuf>,
        /// A cpio archive to unpack over everything else
        #[arg(long, value_name = "FILE")]
        overlay: Option<PathBuf>,
        /// The configuration that the kernel was built with
        /// [default: in the kernel, or config-RELEASE beside it]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// osnode-guest.ko built for this kernel
        /// [default: looked for in /lib/modules]
        #[arg(long, value_name = "FILE")]
        guest_module: Option<PathBuf>,
    },
    /// List images
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give an image's memory back; nodes that run have copies
    Rm { name: String },
}

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Show what is free, and what `apply` would do for a file
    Plan(machine::PlanArgs),
    /// Have the images and nodes of a file
    ///
    /// All of it is checked before anything is touched. What is there already
    /// stays; if a step fails, those before it are undone.
    Apply(machine::ApplyArgs),
    /// Take cpus and memory from this machine's kernel for a node
    Create {
        name: String,
        /// Number of cpus; the last ones are taken
        #[arg(long, default_value_t = 1, value_name = "N")]
        cpus: usize,
        /// These cpus instead; the first one starts first
        #[arg(long, value_delimiter = ',', value_name = "CPU[,CPU]…", conflicts_with = "cpus")]
        cpu_list: Option<Vec<u32>>,
        /// Memory, e.g. 256M; several sizes make several pieces, of which the
        /// first holds the kernel
        #[arg(long, value_parser = size, value_delimiter = ',', required = true,
            value_name = "SIZE[,SIZE]…")]
        memory: Vec<u64>,
        /// Where the memory comes from
        #[arg(long, value_enum, default_value_t, value_name = "WAY")]
        memory_from: From,
        /// Image to start from
        #[arg(long, value_name = "NAME")]
        image: String,
        /// Words for its kernel's command line
        #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
        append: String,
    },
    /// Start a node and wait until it answers
    Start {
        name: String,
        #[command(flatten)]
        how: Starting,
        /// Print how long each stage took as JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop a node if it runs, and start it again from its image
    Restart {
        name: String,
        #[command(flatten)]
        how: Starting,
    },
    /// Run a command in a node
    ///
    /// An interrupt goes to the command, and ends the wait for it the second
    /// time. Exit status: the command's own, or 128 and the number of the signal
    /// that ended it.
    Exec {
        name: String,
        /// Program and arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Print the node's kernel log, also after it has ended
    Logs { name: String },
    /// Have a node switch itself off, then stop its cpus
    Stop {
        name: String,
        /// Give it so long to switch itself off
        #[arg(long, default_value_t = 10, value_name = "SECONDS")]
        timeout: u64,
    },
    /// Stop a node's cpus at once
    Kill { name: String },
    /// Give a node's cpus and memory back to this machine's kernel
    Delete {
        name: String,
        /// Stop it first if it runs
        #[arg(long)]
        force: bool,
    },
    /// List nodes
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What runs in a node
    #[command(hide = true)]
    Agent {
        /// Physical address of the shared window
        #[arg(long, value_parser = address)]
        window: u64,
    },
}

/// Where a node's memory comes from.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum From {
    /// The first of the others that has enough, or several
    #[default]
    Any,
    /// This machine's kernel, in contiguous pieces
    Contig,
    /// Whole blocks that are taken off line, within a minute
    Offline,
    /// What memmap=SIZE$ADDRESS or mem=SIZE kept from this machine's kernel
    Boot,
}

impl std::convert::From<From> for MemorySource {
    fn from(from: From) -> Self {
        match from {
            From::Any => MemorySource::Any,
            From::Contig => MemorySource::Contiguous,
            From::Offline => MemorySource::Offline,
            From::Boot => MemorySource::Boot,
        }
    }
}

/// How to start.
#[derive(Debug, Args)]
struct Starting {
    /// Give up waiting after so long
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// Start the kernel as it is shipped, which decompresses itself first
    #[arg(long)]
    bzimage: bool,
}

/// How long a restart lets a node switch itself off.
const STOP_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn image(args: ImageArgs) -> Result<Verdict> {
    match args.command {
        ImageCommand::Add { name, kernel, initrd, overlay, config, guest_module } => {
            let base = Base { initrd, overlay, config, guest_module };
            let image = Image::add(&name, &kernel, &base)?;
            if image.config.is_none() {
                output::talk(format_args!(
                    "image {name}: whether its kernel has what a node needs was not checked: no \
                     configuration is in it, and no config-{} is beside it or in /boot; --config \
                     FILE gives one",
                    image.release.as_deref().unwrap_or("RELEASE")
                ));
            }
            output::talk(format_args!(
                "image {name}: kernel {}, {} of memory",
                image.release.as_deref().unwrap_or("of an unknown release"),
                format::bytes(image.bytes)
            ));
        }
        ImageCommand::Ls { json } => images(&Image::list()?, json)?,
        ImageCommand::Rm { name } => Image::remove(&name)?,
    }
    Ok(Verdict::Fine)
}

fn images(images: &[ImageInfo], json: bool) -> Result<()> {
    if json {
        return output::json(&images);
    }
    let mut table = output::columns(&["image", "state", "kernel", "memory"], 3);
    for image in images {
        let release = image.release.as_deref().unwrap_or("-").to_owned();
        table.add_row([
            image.name.clone(),
            image.state.clone(),
            release,
            format::bytes(image.bytes),
        ]);
    }
    output::line(table.trim_fmt())
}

pub(crate) fn run(args: NodeArgs) -> Result<Verdict> {
    match args.command {
        NodeCommand::Plan(args) => machine::plan(&args)?,
        NodeCommand::Apply(args) => return machine::apply(&args),
        NodeCommand::Create { name, cpus, cpu_list, memory, memory_from, image, append } => {
            let cpus = cpu_list.map_or(Cpus::Count(cpus), Cpus::These);
            let spec = Spec {
                name,
                image,
                cpus,
                memory_bytes: memory,
                memory_from: memory_from.into(),
                command_line: append,
            };
            Node::create(&spec)?;
        }
        NodeCommand::Start { name, how, json } => start(&Node::find(&name)?, &how, json)?,
        NodeCommand::Restart { name, how } => {
            let node = Node::find(&name)?;
            if node.is_running()? {
                node.stop(STOP_LIMIT)?;
            }
            start(&node, &how, false)?;
        }
        NodeCommand::Exec { name, words } => return exec(&name, &words),
        NodeCommand::Logs { name } => output::data(&Node::find(&name)?.log()?)?,
        NodeCommand::Stop { name, timeout } => {
            Node::find(&name)?.stop(Duration::from_secs(timeout))?;
        }
        NodeCommand::Kill { name } => Node::find(&name)?.stop(Duration::ZERO)?,
        NodeCommand::Delete { name, force } => {
            let node = Node::find(&name)?;
            if force && node.is_running()? {
                node.stop(Duration::ZERO)?;
            }
            node.delete()?;
        }
        NodeCommand::Ls { json } => nodes(&Node::list()?, json)?,
        NodeCommand::Agent { window } => kumiki_node::agent::main(window)?,
    }
    Ok(Verdict::Fine)
}

fn start(node: &Node, how: &Starting, json: bool) -> Result<()> {
    let stages = node.start(how.bzimage, Duration::from_secs(how.timeout))?;
    if json {
        return output::json(&stages);
    }
    output::talk(format_args!(
        "node {} is ready: loaded in {:.0} ms, kernel {:.0} ms, agent {:.0} ms",
        node.name(),
        stages.load_ms,
        stages.trampoline_ms + stages.early_ms + stages.kernel_ms,
        stages.init_ms + stages.agent_ms
    ));
    Ok(())
}

fn exec(name: &str, words: &[String]) -> Result<Verdict> {
    let session = Session::open(name)?;
    let signal = Arc::new(AtomicU32::new(0));
    let (handler, interrupts) = (Arc::clone(&signal), AtomicU32::new(0));
    interrupt::each(move |seen| {
        handler.store(seen.number().into(), Ordering::Relaxed);
        // The module sees the end of this process and ends the command.
        if interrupts.fetch_add(1, Ordering::Relaxed) > 0 {
            std::process::exit(seen.exit_status().into());
        }
    })?;
    let (stdin, mut out, mut err) = (io::stdin(), io::stdout().lock(), io::stderr());
    let streams: (&mut dyn Write, &mut dyn Write) = (&mut out, &mut err);
    let ending = session.run(words, &[], &signal, Some(stdin.as_fd()), streams)?;
    Ok(Verdict::Exit(match ending {
        Ending::Exited(status) => status as u8,
        Ending::Signalled(signal) => 128 + signal as u8,
    }))
}

fn nodes(nodes: &[NodeInfo], json: bool) -> Result<()> {
    if json {
        return output::json(&nodes);
    }
    let mut table = output::columns(&["node", "state", "image", "cpus", "memory"], 4);
    for node in nodes {
        let cpus: Vec<_> = node.cpus.iter().map(u32::to_string).collect();
        table.add_row([
            node.name.clone(),
            state_of(node).to_owned(),
            node.image.as_deref().unwrap_or("-").to_owned(),
            cpus.join(","),
            format::bytes(node.bytes),
        ]);
    }
    output::line(table.trim_fmt())
}

/// Where a node stands, in a word.
pub(crate) fn state_of(node: &NodeInfo) -> &'static str {
    match node.state {
        State::Created => "created",
        State::Starting => "starting",
        State::Ready => "ready",
        State::Ended => node.word,
        State::Stopped => "stopped",
    }
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("an address is expected, such as 0x40000000")?;
    u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
}
