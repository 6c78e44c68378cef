//! `kumiki node`: OS nodes.

mod device;
mod exec;
mod hardware;
mod program;
mod top;
mod watchman;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use kumiki_node::{
    Cpus, Elastic, KernelForm, MemoryLimits, MemorySource, Node, NodeInfo, ServiceState, Spec,
    Stages, Usage, default_file, is_node,
};
use kumiki_report::format;
use kumiki_sys::sentence::with_causes;

use crate::duration::{duration, positive};
use crate::image::BaseArgs;
use crate::size::size;
use crate::{Verdict, machine, output};

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one of it, parsed once")]
enum NodeCommand {
    /// Show what is free, and what `apply` would do for a file
    Plan(machine::PlanArgs),
    /// Make the images and nodes of a file
    ///
    /// The whole file is checked before anything changes. Images and nodes that exist stay; if a
    /// step fails, the steps before it are undone. A node that differs from the file is
    /// refused, or with --yes stopped, removed and made again; the next one is replaced only when
    /// this one is ready, and healthy if the file has a health check.
    Apply(machine::ApplyArgs),
    /// Show how far the last `apply` is, or undo it
    Rollout(machine::RolloutArgs),
    /// Keep the nodes of a file up that have `restart = true`
    ///
    /// A node that has ended, or failed its `health` check three times, is started again from its
    /// image, after a pause that grows from one second to a minute. `kumiki node ls` shows it;
    /// /run/kumiki-node/metrics.sock has it for who collects figures, in the OpenMetrics format.
    /// Ends with SIGINT or SIGTERM; the nodes run on.
    Supervise {
        /// TOML file of images and nodes, which `apply` has made
        file: PathBuf,
    },
    /// Take cpus and memory from this machine's kernel for a node
    Create {
        name: String,
        /// Number of cpus; the last ones are taken
        #[arg(long, default_value_t = 1, value_name = "N")]
        cpus: usize,
        /// Cpus by number instead; the first one starts first
        #[arg(long, value_delimiter = ',', value_name = "CPU[,CPU]…", conflicts_with = "cpus")]
        cpu_list: Option<Vec<u32>>,
        /// NUMA nodes of its memory, and of its cpus unless --cpu-list names these, the first one first
        /// [default: that of its first cpu]
        #[arg(long, value_delimiter = ',', value_name = "NODE[,NODE]…")]
        numa: Vec<u32>,
        /// Smallest number of its cpus, which it always keeps [default: 1]
        #[arg(long, value_name = "N")]
        min_cpus: Option<usize>,
        /// Largest number of its cpus while it runs: its kernel then knows this machine's other
        /// cpus
        #[arg(long, value_name = "N")]
        max_cpus: Option<usize>,
        /// Memory, e.g. 256M; several sizes make several pieces, of which the
        /// first holds the kernel
        #[arg(long, value_parser = size, value_delimiter = ',', required = true,
            value_name = "SIZE[,SIZE]…")]
        memory: Vec<u64>,
        /// Smallest size of its memory while it runs, at most --memory [default: what it begins with]
        #[arg(long, value_parser = size, value_name = "SIZE")]
        min_memory: Option<u64>,
        /// Largest size of its memory while it runs
        #[arg(long, value_parser = size, value_name = "SIZE")]
        max_memory: Option<u64>,
        /// Origin of the memory
        #[arg(long, value_enum, default_value_t, value_name = "WAY")]
        memory_from: MemoryFrom,
        /// Image to start from
        #[arg(long, value_name = "NAME")]
        image: String,
        /// Words for its kernel's command line
        #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
        append: String,
        /// Hand the node over to this init, of the image's root or of the first disk
        /// [default: /sbin/init of an image that names no program]
        #[arg(long, value_name = "PATH")]
        init: Option<String>,
        #[command(flatten)]
        functions: device::Functions,
        #[command(flatten)]
        devices: device::Devices,
    },
    /// Give a node cpus and memory, or take some back, while it runs
    ///
    /// Its kernel releases a cpu before this machine takes it, and memory. A node gets more cpus than
    /// it began with if it was made with --max-cpus. Memory comes and goes in the steps of its kernel,
    /// 128M or more, for what can be moved (programs, files), and is cleared when it comes back; what
    /// the node was started with stays. Prints the cpus, or the memory, that it has then.
    Set {
        name: String,
        /// Number of cpus that it has then
        #[arg(long, value_name = "N", required_unless_present = "memory")]
        cpus: Option<usize>,
        /// Memory that it has then, or the next step above, e.g. 2G
        #[arg(long, value_name = "SIZE", value_parser = size)]
        memory: Option<u64>,
    },
    /// Move cpus and memory to the nodes whose tasks wait for them, until Ctrl-C
    ///
    /// It moves cpus between this machine and nodes that have --min-cpus or --max-cpus: a kernel with
    /// idle cpus gives, a kernel with waiting tasks gets, by /proc/pressure/cpu of each. So with memory
    /// and nodes that have --min-memory or --max-memory, by /proc/pressure/memory; who has less than an
    /// eighth left gets, too. Prints each move.
    Balance {
        /// Look once for so long, move, and end
        #[arg(long)]
        once: bool,
        /// Time between two looks
        #[arg(long, default_value = "500ms", value_name = "TIME", value_parser = between_looks)]
        every: Duration,
        /// This machine keeps so many cpus, cpu 0 among them
        #[arg(long, default_value_t = 1, value_name = "N")]
        host_keeps: usize,
    },
    /// Have a node watch this machine's kernel, and save its memory when it has died
    ///
    /// Needs the module osnode-watch here. When this kernel panics, or no cpu of it gives a sign
    /// of life for a while, the node says so in its log, lists the nodes there, which run on, and
    /// writes this machine's memory as a vmcore that crash(8) and makedumpfile(8) read: with
    /// passwords and keys in it. Devices that this machine serves are dead by then: write to a
    /// disk or by a card that is the node's own (`kumiki node device add --pci`).
    Watchman(watchman::WatchmanArgs),
    /// Devices that this machine serves a node
    Device(device::DeviceArgs),
    /// The network that nodes with `--net user` have
    Net(device::NetArgs),
    /// Start a node and wait until it answers; in a node, one that is lent to it
    ///
    /// With --kernel from files instead of the node's image: what is read is kept in memory
    /// while the node starts, as an image of its own, and a start from files of the same
    /// content finds it there. `kumiki image evict` removes it.
    ///
    /// Several start at the same time. Exit status 1: they have started, and a device is not served.
    Start {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Start this kernel, this once, e.g. /boot/vmlinuz
        #[arg(long, value_name = "FILE", conflicts_with = "bzimage")]
        kernel: Option<PathBuf>,
        #[command(flatten)]
        base: BaseArgs,
        #[command(flatten)]
        how: Starting,
        /// Start from this snapshot, which `kumiki node snapshot` made of the node
        #[arg(long, value_name = "SNAPSHOT",
            conflicts_with_all = ["kernel", "bzimage", "no_wait"])]
        from: Option<String>,
        /// Do not wait until it answers
        #[arg(long, conflicts_with_all = ["json", "timeout"])]
        no_wait: bool,
        /// Print how long each stage took as JSON, of several by their names
        #[arg(long)]
        json: bool,
    },
    /// Stop a node if it runs, and start it again from its image
    Restart {
        name: String,
        /// Start it from this snapshot instead, and do not wait for it to switch itself off
        #[arg(long, value_name = "SNAPSHOT", conflicts_with = "bzimage")]
        from: Option<String>,
        #[command(flatten)]
        how: Starting,
    },
    /// Keep a node's memory as a snapshot, from which it starts in a blink
    ///
    /// Its kernel sleeps, its cpus are stopped, and the memory that is in use is copied into an image
    /// of its own: see `kumiki image ls`. `kumiki node start NAME --from SNAPSHOT` goes on where it
    /// slept, any number of times, with the time and random numbers of the start. A snapshot starts
    /// where it was taken: on the same machine, in the same memory, on the same cpus.
    Snapshot {
        name: String,
        /// The snapshot's name
        snapshot: String,
        /// Print how much was kept, and how long that took, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a node to sleep whenever it was not used for a while, until Ctrl-C
    ///
    /// Its kernel sleeps in its own memory, and its cpus go back to this machine. A frame for its
    /// address, or a command such as `kumiki node exec`, wakes it. It counts as used while frames
    /// come to its cards, commands talk to it, or it uses a tenth of its processors' time. A node
    /// that sleeps when this command ends is woken by commands alone.
    ///
    /// With --file its memory goes back to this machine, too: it is written to a file, with
    /// passwords and keys in it, and read from there when the node is used. That needs memory of
    /// --memory-from offline or boot, which can be had again at its address.
    Idle {
        name: String,
        /// Time, e.g. 5m or 30s
        #[arg(long, value_parser = positive, default_value = "5m", value_name = "TIME")]
        after: Duration,
        /// Sleep in this file [default: /var/lib/kumiki/NAME.asleep]
        #[arg(long, value_name = "FILE", num_args = 0..=1)]
        file: Option<Option<PathBuf>>,
    },
    /// Leave starting a node to another node
    ///
    /// `kumiki node start NAME` there copies the image and starts the cpus, as
    /// often as the node has ended; `kumiki node stop NAME` here takes it back.
    Delegate {
        name: String,
        /// Node that may start it, and that runs
        to: String,
        /// Snapshot from which it may start, too, made of the node by `kumiki node snapshot`
        #[arg(long, value_name = "SNAPSHOT")]
        from: Option<String>,
    },
    /// Run a command in a node
    ///
    /// Signals go to the command; a second one of those that end a program
    /// (Ctrl-C, SIGTERM) ends the wait for it, too. Exit status: the command's
    /// own, or 128 and the number of the signal that ended it.
    Exec(exec::Exec),
    /// Follow a node's kernel log, with a shell between its lines
    ///
    /// Ctrl-] leaves; the shell ends, the node goes on.
    Console { name: String },
    /// Print the node's kernel log, also after it has ended
    Logs {
        name: String,
        /// Print lines as they come, until the node ends
        #[arg(short, long)]
        follow: bool,
        /// Print the log of the run before this one, which a start would else have emptied
        #[arg(short, long, conflicts_with = "follow")]
        previous: bool,
    },
    /// Have a node switch itself off, then stop its cpus
    Stop {
        name: String,
        /// Give it so long to switch itself off
        #[arg(long, value_parser = duration, default_value = "10s", value_name = "TIME")]
        timeout: Duration,
    },
    /// Stop a node's cpus at once
    Kill { name: String },
    /// Give a node's cpus and memory back to this machine's kernel
    Rm {
        name: String,
        /// Stop it first if it runs
        #[arg(long)]
        force: bool,
    },
    /// List nodes; the machine itself is node 0
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what nodes and their host do, again and again, until Ctrl-C
    ///
    /// busy: share of its cpus' time since the last look; used: memory that programs could not
    /// have, of what the node's kernel manages.
    Top {
        /// Time between two looks
        #[arg(long, default_value = "2s", value_parser = positive, value_name = "TIME")]
        every: Duration,
        /// End after so many looks
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Copy a file or a folder into a node, or out of it: one of the two is NODE:PATH
    ///
    /// The other may be `-`, standard input or output: for a folder a tar archive. What is a device, a
    /// pipe or a link there is written through. Permissions and the time of the last change come along.
    /// A folder that comes out of a node has a place that nothing is at yet.
    Cp {
        #[arg(value_name = "FILE|NODE:PATH")]
        from: String,
        #[arg(value_name = "FILE|NODE:PATH")]
        to: String,
    },
    /// Relay standard input and output by vsock, between a node and its host
    Vsock(device::VsockArgs),
    /// Try a node on this machine for the first time, step by step, and write a record of it
    ///
    /// A node is made, removed, made again, started, asked, stopped and started several times, and removed.
    /// The record has each step's answer and time, what the machine is, and what its kernel logged: send it to
    /// whoever maintains kumiki. It is on the disk before each step: of a machine that hung it says in which.
    /// Exit status: 1 if a step failed.
    TryHardware(hardware::TryArgs),
    /// Serve a node's devices until it ends, as `start` does for a node that has some
    Serve { name: String },
}

/// Origin of a node's memory.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum MemoryFrom {
    /// The first of the others that has enough, or several
    #[default]
    Any,
    /// This machine's kernel, in contiguous pieces
    Contig,
    /// Whole blocks that are taken off line, within a minute
    Offline,
    /// Memory that memmap=SIZE$ADDRESS or mem=SIZE kept from this machine's kernel
    Boot,
}

impl From<MemoryFrom> for MemorySource {
    fn from(from: MemoryFrom) -> Self {
        match from {
            MemoryFrom::Any => MemorySource::Any,
            MemoryFrom::Contig => MemorySource::Contiguous,
            MemoryFrom::Offline => MemorySource::Offline,
            MemoryFrom::Boot => MemorySource::Boot,
        }
    }
}

/// Options of a start.
#[derive(Debug, Args)]
struct Starting {
    /// Give up waiting after so long
    #[arg(long, value_parser = duration, default_value = "1m", value_name = "TIME")]
    timeout: Duration,
    /// Start the kernel as it is shipped, which decompresses itself first
    #[arg(long)]
    bzimage: bool,
}

/// Time that a restart lets a node take to switch itself off.
const STOP_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: NodeArgs) -> Result<Verdict> {
    match args.command {
        NodeCommand::Plan(args) => machine::plan(&args)?,
        NodeCommand::Apply(args) => return machine::apply(&args),
        NodeCommand::Rollout(args) => return machine::rollout(&args),
        NodeCommand::Supervise { file } => program::noded(&["watch".as_ref(), file.as_os_str()])?,
        NodeCommand::Create {
            name,
            cpus,
            cpu_list,
            numa,
            min_cpus,
            max_cpus,
            memory,
            min_memory,
            max_memory,
            memory_from,
            image,
            append,
            init,
            functions,
            devices,
        } => {
            let cpus = cpu_list.map_or(Cpus::Count(cpus), Cpus::These);
            let spec = Spec {
                name,
                image,
                elastic: Elastic::of(min_cpus, max_cpus, cpus.count()),
                cpus,
                numa,
                memory_limits: MemoryLimits::of(
                    min_memory,
                    max_memory,
                    memory.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes)),
                ),
                memory_bytes: memory,
                memory_from: memory_from.into(),
                command_line: append,
                devices: devices.specs(),
                init,
                pci: functions.pci,
                dma_unconfined: functions.dma_unconfined,
            };
            Node::create(&spec)?;
        }
        NodeCommand::Start { .. } | NodeCommand::Restart { .. } | NodeCommand::Ls { .. }
            if is_node() =>
        {
            program::agent()?;
        }
        NodeCommand::Delegate { name, to, from } => {
            Node::find(&name)?.lend(&to, from.as_deref())?
        }
        NodeCommand::Start { names, from: Some(from), how, json, .. } => {
            let [name] = &names[..] else {
                bail!("--from starts the one node that the snapshot was taken of")
            };
            let stages = Node::find(name)?.start_snapshot(&from, how.limit())?;
            return started(name, &stages, json);
        }
        NodeCommand::Start { names, kernel: Some(kernel), base, no_wait, how, json, .. } => {
            let [name] = &names[..] else {
                bail!("--kernel starts one node at a time: kumiki image add is for several")
            };
            ensure!(!no_wait, "--kernel keeps what it reads and waits: leave --no-wait out");
            let node = Node::find(name)?;
            let (stages, image) = node.start_kernel(&kernel, &base.into(), how.limit())?;
            let verdict = started(name, &stages, json)?;
            output::talk(format_args!("it is resident as image {image}"));
            return Ok(verdict);
        }
        NodeCommand::Start { names, no_wait, how, json, .. } => {
            return start_all(&names, no_wait, &how, json);
        }
        NodeCommand::Restart { name, from, how } => {
            let node = Node::find(&name)?;
            if node.is_running()? {
                node.stop(if from.is_some() { Duration::ZERO } else { STOP_LIMIT })?;
            }
            return match from {
                Some(from) => started(&name, &node.start_snapshot(&from, how.limit())?, false),
                None => start(&node, &how, false),
            };
        }
        NodeCommand::Snapshot { name, snapshot, json } => {
            let kept = Node::find(&name)?.take_snapshot(&snapshot)?;
            if json {
                output::json(&kept)?;
            } else {
                output::talk(format_args!(
                    "node {name} is kept as {snapshot}, and stopped: {} of pages in use, {} of \
                     memory; asleep after {:.0} ms, copied in {:.0} ms",
                    format::bytes(kept.kept_bytes),
                    format::bytes(kept.bytes),
                    kept.asleep_ms,
                    kept.copy_ms
                ));
            }
        }
        NodeCommand::Idle { name, after, file } => {
            let file = file.map(|file| file.unwrap_or_else(|| default_file(&name)));
            let seconds = after.as_secs().to_string();
            let words = ["idle", &name, &seconds].map(OsString::from).into_iter();
            let words: Vec<_> = words.chain(file.map(PathBuf::into_os_string)).collect();
            program::noded(&words)?;
        }
        NodeCommand::Exec(exec) => return exec::exec(exec),
        NodeCommand::Console { name } => return exec::console(&name),
        NodeCommand::Logs { name, previous: true, .. } => {
            output::log(&Node::find(&name)?.last_log()?)?;
        }
        NodeCommand::Logs { name, follow: true, .. } => {
            Node::find(&name)?.follow_log(|lines| output::log(lines).map_err(as_io))?;
        }
        NodeCommand::Logs { name, .. } => output::log(&Node::find(&name)?.log()?)?,
        NodeCommand::Stop { name, timeout } => {
            Node::find(&name)?.stop(timeout)?;
        }
        NodeCommand::Kill { name } => Node::find(&name)?.stop(Duration::ZERO)?,
        NodeCommand::Rm { name, force } => {
            let node = Node::find(&name)?;
            if force && node.is_running()? {
                node.stop(Duration::ZERO)?;
            }
            node.delete()?;
        }
        NodeCommand::Ls { json } => nodes(&Node::list()?, json)?,
        NodeCommand::Top { every, count } => top::run(every, count)?,
        NodeCommand::Set { name, cpus, memory } => {
            let node = Node::find(&name)?;
            if let Some(memory) = memory {
                output::line(format!("{}M", node.set_memory(memory)? >> 20))?;
            }
            if let Some(cpus) = cpus {
                let cpus = node.set_cpus(&Cpus::Count(cpus))?;
                let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
                output::line(cpus.join(","))?;
            }
        }
        NodeCommand::Balance { once, every, host_keeps } => {
            let mut words = vec!["balance".to_owned()];
            words.extend([every.as_millis().to_string(), host_keeps.to_string()]);
            words.extend(once.then(|| "1".to_owned()));
            program::noded(&words)?;
        }
        NodeCommand::Watchman(args) => args.run()?,
        NodeCommand::Device(args) => device::run(args)?,
        NodeCommand::Net(args) => device::net_of_host(&args)?,
        NodeCommand::Cp { from, to } => device::copy(&from, &to)?,
        NodeCommand::Vsock(args) => args.run()?,
        NodeCommand::TryHardware(args) => return hardware::run(&args),
        NodeCommand::Serve { name } => program::noded(&["serve", &name])?,
    }
    Ok(Verdict::Fine)
}

impl Starting {
    fn form(&self) -> KernelForm {
        if self.bzimage { KernelForm::BzImage } else { KernelForm::Vmlinux }
    }

    fn limit(&self) -> Duration {
        self.timeout
    }
}

fn start(node: &Node, how: &Starting, json: bool) -> Result<Verdict> {
    started(node.name(), &node.start(how.form(), how.limit())?, json)
}

/// Starts nodes at the same time. Each is tried, and the first failure is the error; the
/// others get messages.
fn start_all(names: &[String], no_wait: bool, how: &Starting, json: bool) -> Result<Verdict> {
    if let [name] = names
        && !no_wait
    {
        return start(&Node::find(name)?, how, json);
    }
    let one = |name: &String| -> Result<(Option<Stages>, Verdict)> {
        let node = Node::find(name)?;
        if no_wait {
            let problems = node.begin(how.form())?;
            for problem in &problems {
                output::talk(format_args!("node {name}: not served: {problem}"));
            }
            return Ok((None, served(&problems)));
        }
        let stages = node.start(how.form(), how.limit())?;
        let verdict = if json { served(&stages.problems) } else { started(name, &stages, false)? };
        Ok((Some(stages), verdict))
    };
    let outcomes: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = names.iter().map(|name| scope.spawn(move || one(name))).collect();
        starts.into_iter().map(|start| start.join().expect("a start does not panic")).collect()
    });
    let (mut stages, mut failure, mut verdict) = (BTreeMap::new(), None, Verdict::Fine);
    for (name, outcome) in names.iter().zip(outcomes) {
        match outcome {
            Ok((known, one)) => {
                stages.insert(name, known);
                if matches!(one, Verdict::Negative) {
                    verdict = one;
                }
            }
            Err(error) if failure.is_none() => failure = Some(error),
            Err(error) => output::talk(with_causes(error.as_ref())),
        }
    }
    if json && failure.is_none() {
        output::json(&stages)?;
    }
    failure.map_or(Ok(verdict), Err)
}

/// Success if all devices of a node that has started are served.
fn served(problems: &[String]) -> Verdict {
    if problems.is_empty() { Verdict::Fine } else { Verdict::Negative }
}

fn started(name: &str, stages: &Stages, json: bool) -> Result<Verdict> {
    for problem in &stages.problems {
        output::talk(format_args!("not served: {problem}"));
    }
    if json {
        output::json(stages)?;
    } else {
        output::talk(stages.told_of(name));
    }
    Ok(served(&stages.problems))
}

fn nodes(nodes: &[NodeInfo], json: bool) -> Result<()> {
    if json {
        return output::json(&nodes);
    }
    let mut table = output::Rows::new(&["node", "state", "image", "cpus", "address", "memory"], 5);
    let bytes = Usage::here().map_or("-".to_owned(), |usage| format::bytes(usage.bytes));
    let dash = || "-".to_owned();
    table.add([top::HOST.to_owned(), "up".to_owned(), dash(), top::online(), dash(), bytes]);
    for node in nodes {
        let cpus: Vec<_> = node.cpus.iter().map(u32::to_string).collect();
        table.add([
            node.name.clone(),
            standing(node),
            node.image.as_deref().unwrap_or("-").to_owned(),
            cpus.join(","),
            node.address.map_or("-".to_owned(), |address| address.to_string()),
            format::bytes(node.bytes),
        ]);
    }
    table.print()
}

/// State of a node, for people.
fn standing(node: &NodeInfo) -> String {
    match &node.service {
        Some(service) => kept(node.state_word(), service),
        None => node.state_word().to_owned(),
    }
}

/// State of a node that is kept up.
fn kept(state: &str, service: &ServiceState) -> String {
    let restarts = match service.restarts {
        0 => String::new(),
        count => format!(", restarts: {count}"),
    };
    match service.state.as_str() {
        "up" => format!("{state}{restarts}"),
        "waiting" => format!("{state}, starts in {} s{restarts}", service.pause_s),
        other => format!("{state}, {other}{restarts}"),
    }
}

/// Reads a time from a tenth of a second to a minute.
fn between_looks(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(60);
    let time = positive(text)?;
    match range.contains(&time) {
        true => Ok(time),
        false => Err("a time from 100ms to 60s".to_owned()),
    }
}

/// Turns an error of output that could not be written into an I/O error.
fn as_io(error: anyhow::Error) -> io::Error {
    error.downcast().unwrap_or_else(io::Error::other)
}
