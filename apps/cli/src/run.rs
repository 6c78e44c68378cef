//! `kumiki run`: a command at a place, with this process's streams and signals.

use std::io::{self, Read, Write};
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kumiki_places::run::{self, Input, Process, Program, Wish};
use kumiki_places::{Client, Remote, caller_name};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, channel, unbounded_channel};

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
/// Longest wait of one call at the place, ms.
const WAIT_MS: u64 = 3000;
/// Bytes of standard input in one call.
const PART: usize = 64 << 10;

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
    let program = Program {
        words: args.words,
        environment: environment.collect::<Result<_>>()?,
        folder: args.cwd,
        unheard_ms: Some(UNHEARD.as_millis().try_into()?),
    };
    // Before it starts: none that comes meanwhile ends this process alone.
    let signals = signals()?;
    asking(args.server.nats()?.as_ref(), async |client| {
        let client = client.with_timeout(PATIENCE);
        // For who looks: whose it is.
        let unique = caller_name();
        let word = program.words.first().cloned().unwrap_or_default();
        let process = match args.choose {
            Some(choose) => {
                client.create_among(&args.place, choose.choice(), Some(&unique), program).await
            }
            None => client.create::<Process>(&args.place, Some(&unique), program).await,
        };
        let process = match process {
            Ok(process) => process,
            Err(error) => return started::none(error.into(), &word),
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
    tokio::select! {
        ended = show(client, process) => ended,
        ended = pass_signals(client, process, signals) => ended,
        // As long as it runs: there may be output after all input.
        failed = feed(client, process, input()?) => failed,
    }
}

/// Writes what the process writes, until it has ended.
async fn show(client: &Client, process: &Remote<Process>) -> Result<u8> {
    // Both streams find room in one message.
    let wish = Wish { wait_ms: WAIT_MS, most: Some(client.room() / 2) };
    loop {
        let have = client.call::<run::Read>(process, wish).await?;
        let ended = have.ended;
        // On another thread: who reads it slowly is not to hold up signals.
        let write = move || {
            let (mut out, mut err) = (output::Stream, io::stderr());
            out.write_all(&have.out).and_then(|()| out.flush())?;
            err.write_all(&have.err)
        };
        let written = tokio::task::spawn_blocking(write).await.context("writing its output")?;
        written.context("writing its output")?;
        if let Some(ended) = ended {
            let by_signal = ended.signal.map(|signal| 128 + signal);
            let code = ended.status.or(by_signal).context("nobody knows how it has ended")?;
            return Ok(code.try_into().unwrap_or(u8::MAX));
        }
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
        client.call::<run::Send>(process, signal).await?.map_err(anyhow::Error::msg)?;
    }
    std::future::pending().await
}

/// Writes this process's standard input to the other's, and closes that at its end.
async fn feed(
    client: &Client,
    process: &Remote<Process>,
    mut input: Receiver<Vec<u8>>,
) -> Result<u8> {
    while let Some(part) = input.recv().await {
        let mut bytes = bytes::Bytes::from(part);
        while !bytes.is_empty() {
            let some = bytes.slice(..bytes.len().min(client.room()));
            let what = Input { bytes: some, wait_ms: WAIT_MS };
            let written = client.call::<run::Write>(process, what).await?;
            let _ = bytes.split_to(written.bytes.min(bytes.len()));
            if written.closed {
                return std::future::pending().await;
            }
        }
    }
    client.call::<run::Close>(process, ()).await?;
    std::future::pending().await
}

/// Standard input, by a thread that ends with it or with this process.
fn input() -> Result<Receiver<Vec<u8>>> {
    let (tell, told) = channel(1);
    let read = move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut part = vec![0; PART];
            match stdin.read(&mut part) {
                Ok(0) => return,
                Ok(count) => part.truncate(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // As at its end.
                Err(_) => return,
            }
            if tell.blocking_send(part).is_err() {
                return;
            }
        }
    };
    Builder::new().name("input".to_owned()).spawn(read).context("reading standard input")?;
    Ok(told)
}

/// Signals to this process.
fn signals() -> Result<UnboundedReceiver<i32>> {
    let is_ignored = interrupt::ignored();
    let watched: Vec<i32> =
        ENDING.into_iter().chain(OTHERS).filter(|signal| !is_ignored(*signal)).collect();
    let (tell, told) = unbounded_channel();
    let install = || {
        let mut signals = Signals::new(watched)?;
        let wait = move || signals.forever().for_each(|signal| _ = tell.send(signal));
        Builder::new().name("signals".to_owned()).spawn(wait)
    };
    install().context("installing the handlers for signals")?;
    Ok(told)
}
