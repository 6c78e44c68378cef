//! `kumiki place`: this machine's cores as places that others call, and those of OS nodes as places here.

mod attach;
mod metrics;
mod moving;

pub(crate) use attach::relay_of;

use std::env::VarError;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use kumiki_node::Lanes;
use kumiki_places::durable::Disk;
use kumiki_places::run::Process;
use kumiki_places::{
    Allow, Builder, Choice, Client, Control, Error, Keeper, Lease, Nats, Server, host_name,
    standard,
};
use kumiki_resource::kind::Kind;
use kumiki_resource::{Interface, Memory};
use kumiki_sys::affinity;

use crate::size::size;
use crate::{Verdict, interrupt, output};

/// Interval between two looks whether a place has ended by itself.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    #[command(subcommand)]
    command: PlaceCommand,
}

#[derive(Debug, Subcommand)]
enum PlaceCommand {
    /// Serve this machine's cores as places HOST.core0, HOST.core1, … until Ctrl-C
    ///
    /// Without --nats only other processes of this user on this machine can call them.
    /// They may list names if there is no allow-list.
    ///
    /// Kinds are counter, memory and process. A place allows nothing until its allow-list says so:
    ///
    ///   list = true
    ///   [kind.counter]
    ///   create = true
    ///   destroy = true
    ///   parts = ["add", "get"]
    ///
    /// A client that may create processes may do all that this command's user may.
    /// `kumiki run` needs that, and parts = ["*"]. A mistake in the list is refused with its
    /// line and column. The accounts of the NATS server say who may reach the places at all.
    #[command(verbatim_doc_comment)]
    Serve {
        #[command(flatten)]
        server: MaybeNats,
        /// The allow-list: what clients may do [default: nothing; without --nats, list names]
        #[arg(long, value_name = "FILE")]
        allow: Option<PathBuf>,
        /// HOST, the first part of the places' names [default: this machine's name]
        #[arg(long)]
        host: Option<String>,
        /// Serve these cpus only, e.g. 2,3
        #[arg(long = "cpu-list", value_delimiter = ',', value_name = "CPU,…")]
        cpus: Option<Vec<usize>>,
        /// Most memory for the resources of each place, e.g. 64MiB [default: the machine's, in equal
        /// shares]
        #[arg(long, value_parser = size, value_name = "SIZE")]
        memory: Option<u64>,
        /// Keep the places in this folder, so that they outlive this command
        ///
        /// What a call has done is on the disk before its answer leaves. Whoever serves the same
        /// HOST and cpus by the same folder again has their resources, with ids, names and values,
        /// and calls that were under way are answered then, once. The allow-list may name only
        /// kinds that can be kept: counter.
        #[arg(long, value_name = "FOLDER")]
        durable: Option<PathBuf>,
        /// Take the places over from the command that serves them by that folder, which ends then
        ///
        /// Callers go on, by the same names and references.
        #[arg(long, requires = "durable")]
        take: bool,
        /// Stand by: serve the places when the command that serves them by that folder has ended, however it has
        ///
        /// The folder's lock decides: both are on one machine, or see one file system that locks for all. A
        /// command that is stopped has its places still. Callers go on, by the same names and references.
        #[arg(long, requires = "durable", conflicts_with = "take")]
        standby: bool,
        /// Listen at ADDRESS:PORT, too, for connections of callers' own, beside the NATS server
        ///
        /// Callers that may ask these places by the server are told of it there, and have a token to be let in;
        /// nobody else is. Their calls go without the server between them then, and by the server whenever the
        /// connection cannot be made or has ended. The first core listens at this port, the next ones behind it; with port 0
        /// each at any that is free.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<SocketAddr>,
        /// The address by which callers reach the one of --listen, where it is another one: of a forwarded port,
        /// or where that is 0.0.0.0
        #[arg(long, value_name = "ADDRESS", requires = "listen")]
        reached_at: Option<SocketAddr>,
        /// Answer `GET /metrics` in the OpenMetrics format, at ADDRESS:PORT or unix:PATH
        #[arg(long, value_name = "ADDRESS")]
        metrics: Option<String>,
    },
    /// Have a durable place move here, and serve it from then on, until Ctrl-C
    ///
    /// PLACE is HOST.coreN, which a `kumiki place serve --durable` or another `kumiki place move` serves
    /// now, on this machine or behind the NATS server. Its allow-list has to say `move = true`. While it is
    /// copied into FOLDER it serves on; then it stands still for a moment, ends there for good, and is
    /// served by this command, on the cpu that is named, with its resources, ids, names and values.
    /// Callers go on, by the same name and references. Its former folder is refused from then on.
    ///
    /// If FOLDER has the place already, as this command has ended since, it is served again.
    Move {
        /// The place, HOST.coreN
        place: String,
        #[command(flatten)]
        server: MaybeNats,
        /// Folder in which it is kept from now on
        #[arg(long, value_name = "FOLDER")]
        durable: PathBuf,
        /// The cpu that it is served on [default: the first that this command may use]
        #[arg(long)]
        cpu: Option<usize>,
        /// The allow-list: what clients may do [default: nothing; without --nats, list names]
        #[arg(long, value_name = "FILE")]
        allow: Option<PathBuf>,
        /// Most memory for its resources, e.g. 64MiB [default: the machine's]
        #[arg(long, value_parser = size, value_name = "SIZE")]
        memory: Option<u64>,
    },
    /// Have the places of an OS node here, until Ctrl-C or until the node ends
    ///
    /// Processes in node n1 serve places n1.core0, n1.web.core0 …: by `kumiki place serve` there, or
    /// by a program of yours. While this command runs, processes of this user call them by these names,
    /// as they call places of any process here. If the node ends, each call under way fails at once
    /// with the error that nobody knows whether it was done.
    ///
    /// With a COMMAND, for example `ssh n1 kumiki place relay n1`, the places are those of the machine
    /// that it reaches.
    Attach {
        /// The node
        name: String,
        /// Be the far end of `kumiki place lend`, which starts this, by its input and output
        #[arg(long)]
        stdio: bool,
        /// Command that runs `kumiki place relay NAME` where the places are [default: in the node]
        #[arg(last = true, value_name = "COMMAND", conflicts_with = "stdio")]
        command: Vec<String>,
    },
    /// Have an OS node call places of this machine, until Ctrl-C or until the node ends
    ///
    /// Processes of the node call the places NAME.… of this user's processes here by the same
    /// names, as far as the allow-lists of the places permit. Places of another node can be lent,
    /// too, while `kumiki place attach` has them here. So one node calls another through the host:
    ///
    ///   kumiki place attach n1 &
    ///   kumiki place lend n1 n2
    ///
    /// With a COMMAND, for example `ssh n2 kumiki place attach NAME --stdio`, the places are lent
    /// to the machine that it reaches.
    #[command(verbatim_doc_comment)]
    Lend {
        /// Beginning of the places' names, up to a dot
        name: String,
        /// The node
        #[arg(required_unless_present = "command")]
        node: Option<String>,
        /// Command that runs `kumiki place attach NAME --stdio` where they are called [default: in
        /// the node]
        #[arg(last = true, value_name = "COMMAND", conflicts_with = "node")]
        command: Vec<String>,
    },
    /// End what a killed `kumiki place serve`, which starts this, has left
    #[command(hide = true)]
    Keep {
        /// The variable by which that is known
        variable: String,
    },
    /// Pass calls of places called NAME.… between their sockets and this command's input and output
    ///
    /// It is the far end of `kumiki place attach`, which starts it.
    Relay {
        /// Name of the node or machine that this is
        name: String,
    },
}

/// NATS server, where there need be none.
#[derive(Clone, Debug, Args)]
pub(crate) struct MaybeNats {
    /// The NATS server, e.g. nats://127.0.0.1:4222 or tls://USER:PASSWORD@db.example.org
    ///
    /// With a token: nats://TOKEN@HOST. Write %2C for a comma and %40 for an @ in it. Other users of
    /// this machine can see a command line. So better set NATS_USER and NATS_PASSWORD, or NATS_TOKEN,
    /// in the environment, and name files by NATS_CREDS, NATS_NKEY, NATS_CA, NATS_CERT and NATS_KEY.
    /// An empty URL is no server. [default: KUMIKI_NATS]
    #[arg(long = "nats", value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
}

#[derive(Clone, Debug, Args)]
struct Credentials {
    /// Credentials for it, as nsc writes them [default: NATS_CREDS]
    #[arg(long, value_name = "FILE")]
    creds: Option<PathBuf>,
    /// An NKEY's seed for it, in a file [default: NATS_NKEY]
    #[arg(long, value_name = "FILE", conflicts_with = "creds")]
    nkey: Option<PathBuf>,
    /// Certificates of an authority that it has its own of, PEM [default: NATS_CA]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The certificate to be known by, PEM [default: NATS_CERT]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of that certificate, PEM [default: NATS_KEY]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Ways to choose one of several places.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Choose {
    /// Any of them
    Any,
    /// The one that answers calls for the smallest share of its time
    LeastLoaded,
    /// The one of the cpu on which this command runs; else any of this machine
    Here,
}

impl Choose {
    pub(crate) fn choice(self) -> Choice {
        match self {
            Choose::Any => Choice::Any,
            Choose::LeastLoaded => Choice::LeastLoaded,
            Choose::Here => Choice::Here,
        }
    }
}

/// Runs what asks places, of this machine's processes if no server is said.
pub(crate) fn asking<T>(
    server: Option<&Nats>,
    ask: impl AsyncFnOnce(Client) -> Result<T>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting input and output")?;
    let outcome = runtime.block_on(async {
        let client = match server {
            Some(server) => Client::connect(server).await?,
            None => Client::here(),
        };
        ask(client).await
    });
    // A thread of it may wait for whoever reads what this process writes.
    runtime.shutdown_background();
    outcome
}

/// Variable that names the server where `--nats` does not.
const VARIABLE: &str = "KUMIKI_NATS";

impl MaybeNats {
    /// The server that is named, if one is.
    pub(crate) fn nats(&self) -> Result<Option<Nats>> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => match std::env::var(VARIABLE) {
                Ok(url) => url,
                Err(VarError::NotPresent) => String::new(),
                Err(VarError::NotUnicode(url)) => bail!("{VARIABLE} is not text: {url:?}"),
            },
        };
        match (url.is_empty(), self.credentials.first_option()) {
            (false, _) => Ok(Some(self.credentials.at(&url))),
            (true, None) => Ok(None),
            (true, Some(option)) => {
                bail!(
                    "{option} is for a NATS server, and none is named: give --nats URL, or set {VARIABLE}"
                )
            }
        }
    }
}

impl Credentials {
    /// An option that says something of a server.
    fn first_option(&self) -> Option<&'static str> {
        let given = [
            ("--creds", &self.creds),
            ("--nkey", &self.nkey),
            ("--tls-ca", &self.tls_ca),
            ("--tls-cert", &self.tls_cert),
            ("--tls-key", &self.tls_key),
        ];
        given.into_iter().find(|(_, file)| file.is_some()).map(|(option, _)| option)
    }

    fn at(&self, url: &str) -> Nats {
        let mut nats = Nats::from_environment(url);
        if self.creds.is_some() || self.nkey.is_some() {
            (nats.credentials, nats.nkey) = (self.creds.clone(), self.nkey.clone());
            (nats.user, nats.token) = (None, None);
        }
        if let Some(ca) = &self.tls_ca {
            nats.authorities = Some(ca.clone());
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            nats.certificate = Some((certificate.clone(), key.clone()));
        }
        nats
    }
}

pub(crate) fn run(args: PlaceArgs) -> Result<Verdict> {
    match args.command {
        PlaceCommand::Serve {
            server,
            allow,
            host,
            cpus,
            memory,
            durable,
            take,
            standby,
            listen,
            reached_at,
            metrics,
        } => {
            let kept = match durable {
                None => Kept::Not,
                Some(folder) if take => Kept::Taken(folder),
                Some(folder) if standby => Kept::StoodBy(folder),
                Some(folder) => Kept::In(folder),
            };
            let listen = Listen { at: listen, reached: reached_at };
            serve((&server, listen), allow, host, cpus, memory, kept, metrics.as_deref())
        }
        PlaceCommand::Move { place, server, durable, cpu, allow, memory } => {
            moving::here(&place, &server, &durable, cpu, allow, memory)
        }
        PlaceCommand::Attach { name, stdio: true, .. } => attach::attach_stdio(&name),
        PlaceCommand::Attach { name, command, .. } => attach::attach(&name, &command),
        PlaceCommand::Lend { name, node, command } => {
            attach::lend(&name, node.as_deref(), &command)
        }
        PlaceCommand::Keep { variable } => {
            kumiki_places::keep(&variable, std::io::stdin())?;
            Ok(Verdict::Fine)
        }
        PlaceCommand::Relay { name } => attach::relay(&name),
    }
}

/// Addresses for connections of callers' own.
#[derive(Default)]
struct Listen {
    at: Option<SocketAddr>,
    reached: Option<SocketAddr>,
}

/// Ways in which places are kept.
enum Kept {
    Not,
    /// Kept in this folder.
    In(PathBuf),
    /// Kept in this folder, from whose process they are taken over.
    Taken(PathBuf),
    /// Kept in this folder, when no other process has it any more.
    StoodBy(PathBuf),
    /// The one of this name, on this disk: it has moved there, or moves there now, for which `to` is its name.
    Moved {
        place: String,
        disk: Arc<dyn Disk>,
        to: Option<String>,
    },
}

/// The control by which places ask others for the later steps of chains: as this process may.
fn asks(nats: Option<Nats>) -> Result<Control> {
    let builder = Control::builder();
    Ok(nats.into_iter().fold(builder, Builder::nats).build()?)
}

fn serve(
    (server, listen): (&MaybeNats, Listen),
    allow: Option<PathBuf>,
    host: Option<String>,
    cpus: Option<Vec<usize>>,
    memory: Option<u64>,
    kept: Kept,
    metrics: Option<&str>,
) -> Result<Verdict> {
    // Before anything that others see.
    let metrics = metrics.map(metrics::Metrics::bind).transpose()?;
    let parts = standard::parts();
    let nats = server.nats()?;
    let allow = match allow {
        Some(path) => Allow::read(&path, &parts)?,
        None => {
            let names = if nats.is_some() { "nothing is" } else { "only listing is" };
            output::talk(format_args!("{names} allowed: give an allow-list by --allow FILE"));
            if nats.is_some() { Allow::nothing() } else { Allow::listing() }
        }
    };
    let builder = Interface::builder()
        .kind::<standard::Counter>()
        .kind::<Memory>()
        .kind::<Process>()
        .kind::<Lease>();
    let cpus = match cpus {
        Some(cpus) => cpus,
        None => affinity::current()?.iter().collect(),
    };
    if cpus.is_empty() {
        bail!("--cpu-list names no cpu");
    }
    let interface = builder.cores([]).adopted(cpus).per_core()?;
    let host = host.unwrap_or_else(host_name);
    let (creates, is_chaining) = (allow.creates(Process::NAME), allow.is_chaining());
    let server = match nats.clone() {
        Some(nats) => Server::new(nats, host),
        None => with_lines(Server::here(host))?,
    };
    let server = match listen {
        Listen { at: Some(_), .. } if nats.is_none() => bail!(
            "--listen is for callers that have asked by a NATS server, and none is named: give --nats URL"
        ),
        Listen { at: Some(at), reached: None } => server.listening(at),
        Listen { at: Some(at), reached: Some(reached) } => server.listening(at).reached_at(reached),
        Listen { at: None, .. } => server,
    };
    let server = server.parts(parts).allow(allow).managing();
    let server = match is_chaining {
        true => server.chains(&asks(nats.clone())?),
        false => server,
    };
    let server = match kept {
        Kept::Not => server,
        Kept::In(folder) => server.durable(folder),
        Kept::Taken(folder) => server.taking_over(folder),
        // Whoever interrupts it ends it.
        Kept::StoodBy(folder) => {
            output::talk(format_args!("standing by for the places in {}", folder.display()));
            server.standing_by(folder, &interface)?
        }
        Kept::Moved { place, disk, to } => {
            let server = server.called(&place).durable_on(move |_| Ok(Arc::clone(&disk)));
            if let Some(to) = to {
                // Whoever interrupts it ends it: the place goes on where it is.
                moving::taken(&place, (&server, &interface), nats.as_ref(), &to)?;
            }
            server
        }
    };
    let (sender, receiver) = channel();
    interrupt::each(move |signal| _ = sender.send(signal))?;
    // Before there are threads and processes; it goes after them.
    let _keeper = creates.then(keeper).transpose()?;
    let served = server.serve(&interface)?;
    for restored in served.restored() {
        if let Some(cut) = &restored.cut {
            output::talk(format_args!("{cut}"));
        }
        let (place, resources, answers) = (&restored.place, restored.resources, restored.answers);
        if resources + answers > 0 {
            output::talk(format_args!(
                "{place} has {resources} resources again, and {answers} answers"
            ));
        }
    }
    let share = memory.unwrap_or_else(|| machine_memory() / interface.places().len() as u64);
    for place in interface.places() {
        interface.limit::<Memory>(place, share)?;
    }
    if let Some(metrics) = metrics {
        metrics.tell(served.figures())?;
    }
    // Also for `kumiki resource ls` on this machine; a second server of one user goes without.
    let _published = interface.publish();
    output::line(format!("serving {}", served.names().join(", ")))?;
    let (mut said, mut handed) = (0, 0);
    loop {
        match receiver.recv_timeout(LOOK) {
            // To end is what it was asked for.
            Ok(_) => return Ok(Verdict::Fine),
            Err(RecvTimeoutError::Timeout) => {
                let endings = served.endings();
                let (count, all) = (endings.len(), served.names().len());
                for (place, error) in endings.into_iter().skip(said) {
                    // A name that another machine has is that place's matter alone. Whatever else ends a
                    // place should not be: whoever has started this process starts it anew.
                    let is_its = matches!(*error, Error::PlaceTaken { .. }) && all > 1;
                    if !is_its && !matches!(*error, Error::HandedOver { .. }) {
                        return Err(anyhow!("{error}"))
                            .with_context(|| format!("{place} has ended"));
                    }
                    if matches!(*error, Error::HandedOver { .. }) {
                        output::talk(format_args!("{error}"));
                        handed += 1;
                    } else {
                        output::talk(format_args!(
                            "{error}; this one has ended, and the others serve on"
                        ));
                    }
                }
                said = count;
                if handed == all {
                    return Ok(Verdict::Fine);
                }
                if count == all {
                    bail!("all places have ended");
                }
            }
            Err(RecvTimeoutError::Disconnected) => bail!("nobody hears signals any more"),
        }
    }
}

/// A process of this program that ends what this one's processes have left when it is killed.
fn keeper() -> Result<Keeper> {
    let mut own = std::process::Command::new("/proc/self/exe");
    own.arg0("kumiki").args(["place", "keep"]);
    Ok(Keeper::start(&mut own)?)
}

/// Lets the host of an OS node call by lines in the window, too.
fn with_lines(server: Server) -> Result<Server> {
    Ok(match Lanes::here()? {
        Some(window) => server.window(window),
        None => server,
    })
}

/// Bytes of memory that the machine has.
fn machine_memory() -> u64 {
    let all = rustix::system::sysinfo();
    all.totalram.saturating_mul(u64::from(all.mem_unit))
}
