//! `kumiki run`: a command at a place, with this process's streams and signals.

use std::io;
use std::os::fd::AsFd;
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use kumiki_places::run::{self, Process, Program};
use kumiki_places::{Client, Remote, caller_name, program};
use kumiki_stream::exec::{Beside, Client as Near, Ending, Outcome};
use kumiki_stream::frame::HEADER_BYTES;
use kumiki_stream::{Kind, Stream, pair};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::place::{Choose, MaybeNats, asking};
use crate::{Verdict, interrupt, output, started};

/// Signals that end a program unless it handles them.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
const OTHERS: [i32; 3] = [SIGUSR1, SIGUSR2, SIGCONT];

/// Time that a command goes on whose `kumiki run` is not heard of.
const UNHEARD: Duration = Duration::from_secs(60);
/// Time that a line may be down before the command is given up.
const PATIENCE: Duration = Duration::from_secs(45);
/// Time for which a command's end is tried when this process is to end at once.
const LAST: Duration = Duration::from_secs(2);
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The place, e.g. hostb.core3; with --choose those to choose from, e.g. 'hostb.*'
    place: String,
    /// Run it at one of several places
    #[arg(long, value_enum)]
    choose: Option<Choose>,
    /// Set a variable; may be given several times
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Folder at the place to run the command in [default: the one that the place was started in]
    #[arg(short = 'w', long, alias = "workdir", value_name = "FOLDER")]
    cwd: Option<String>,
    #[command(flatten)]
    server: MaybeNats,
    /// Program and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    words: Vec<String>,
}

pub(crate) fn run(args: RunArgs) -> Result<Verdict> {
    let environment = args.env.iter().map(|text| {
        let (name, value) = text.split_once('=').with_context(|| format!("{text:?} has no ="))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let mut program = Program {
        words: args.words,
        environment: environment.collect::<Result<_>>()?,
        folder: args.cwd,
        unheard_ms: Some(UNHEARD.as_millis().try_into()?),
        room: None,
    };
    // Before it starts: none that comes meanwhile ends this process alone.
    let signals = signals()?;
    asking(args.server.nats()?.as_ref(), async |client| {
        let client = client.with_timeout(PATIENCE);
        program.room = Some(client.room());
        // For who looks: whose it is.
        let unique = caller_name();
        let process = match args.choose {
            Some(choose) => {
                client.create_among(&args.place, choose.choice(), Some(&unique), program).await
            }
            None => client.create::<Process>(&args.place, Some(&unique), program).await,
        };
        let process = match process {
            Ok(process) => process,
            Err(error) => return started::at_place(error),
        };
        let outcome = attend(&client, &process, signals).await;
        // It has ended, or is to.
        let ended = client.with_timeout(LAST).destroy(process).await;
        let code = outcome?;
        // Its status is known, whether or not its place has forgotten it.
        let _ = ended;
        Ok(Verdict::Exit(code))
    })
}

/// Carries streams and signals until the process has ended, and gives this one's exit status.
async fn attend(
    client: &Client,
    process: &Remote<Process>,
    signals: UnboundedReceiver<i32>,
) -> Result<u8> {
    let (near, far) = pair(run::WINDOW).context("making a stream")?;
    // Of what this process sends, too, a message has room for a frame.
    let near = near.with_chunk(client.room().saturating_sub(HEADER_BYTES));
    let (sender, receiver) = oneshot::channel();
    // On another thread: who reads it slowly is not to hold up signals.
    let pass = move || {
        let (input, mut out, mut err) = (io::stdin(), output::Stream, io::stderr());
        let input = Some(input.as_fd());
        let mut client = Near { input, out: &mut out, err: &mut err, orders: None };
        let _ = sender.send(client.attend(&mut Stream::new(near), &mut Beside::default()));
    };
    Builder::new().name("streams".to_owned()).spawn(pass).context("passing its streams")?;
    tokio::select! {
        carried = program::carry(client, process, far) => carried?,
        ended = pass_signals(client, process, signals) => return ended,
    }
    match receiver.await.context("passing its streams")?? {
        Outcome::Ended(Ending::Exited(status)) => Ok(status),
        Outcome::Ended(Ending::Signalled(signal)) => Ok(128_u8.wrapping_add(signal)),
        Outcome::Ended(Ending::Refused(refusal)) => Err(anyhow!(refusal.reason)),
        // Neither was asked for.
        other => Err(anyhow!("the command is left: {other:?}")),
    }
}

/// Passes signals on; the second one that would end a program ends this.
async fn pass_signals(
    client: &Client,
    process: &Remote<Process>,
    mut signals: UnboundedReceiver<i32>,
) -> Result<u8> {
    let mut endings = 0;
    while let Some(signal) = signals.recv().await {
        if ENDING.contains(&signal) {
            endings += 1;
            if endings > 1 {
                return Ok(u8::try_from(128 + signal)?);
            }
        }
        program::tell(client, process, Kind::Signal, &signal).await?;
    }
    std::future::pending().await
}

/// Signals to this process.
fn signals() -> Result<UnboundedReceiver<i32>> {
    let is_ignored = interrupt::ignored();
    let watched: Vec<i32> =
        ENDING.into_iter().chain(OTHERS).filter(|signal| !is_ignored(*signal)).collect();
    let (sender, receiver) = unbounded_channel();
    let install = || {
        let mut signals = Signals::new(watched)?;
        let wait = move || signals.forever().for_each(|signal| _ = sender.send(signal));
        Builder::new().name("signals".to_owned()).spawn(wait)
    };
    install().context("installing the handlers for signals")?;
    Ok(receiver)
}
