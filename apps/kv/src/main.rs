//! `kumiki-kv`: a key-value server that speaks RESP.
#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use kumiki_kv::worker::{HERE, Server, Settings};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A key-value server that speaks RESP, as Redis does: each core owns its keys.
///
/// GET, SET (EX, PX, NX, XX), DEL, EXISTS, EXPIRE, PEXPIRE, TTL, PTTL, INCR, DECR, INCRBY, MGET,
/// DBSIZE, FLUSHALL. Nothing is kept on disk.
#[derive(Debug, Parser)]
#[command(name = "kumiki-kv", version, max_term_width = 100)]
struct Args {
    /// The port; 0: any that is free
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// The address. There is no password: who reaches it can read and write all keys
    #[arg(long, default_value_t = HERE)]
    bind: Ipv4Addr,
    /// A shard on each of these cpus, e.g. 2,3 [default: all that it may use]
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    cpus: Option<Vec<usize>>,
    /// Keys and values take so much at most, e.g. 256M; more is refused
    #[arg(long, default_value = "256M", value_parser = size)]
    memory: usize,
    /// The longest key or value
    #[arg(long, default_value = "1M", value_parser = size)]
    longest: usize,
    /// Clients of each core, at most
    #[arg(long, default_value_t = 10_000)]
    clients: usize,
}

fn size(text: &str) -> Result<usize, String> {
    let size = parse_size::Config::new().with_binary().parse_size(text);
    size.map_err(|error| error.to_string())?.try_into().map_err(|_| "too large".to_owned())
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kumiki-kv: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: Args) -> Result<()> {
    let cpus = match args.cpus {
        Some(cpus) => cpus,
        None => kumiki_sys::affinity::current()?.iter().collect(),
    };
    ensure!(!cpus.is_empty(), "--cpus names no cpu");
    // Before there are threads that could be interrupted instead.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("hearing signals")?;
    let settings = Settings {
        address: SocketAddrV4::new(args.bind, args.port),
        cpus,
        memory: args.memory,
        word: args.longest,
        clients: args.clients,
    };
    let server = Server::start(&settings)?;
    println!("kumiki-kv: serving {} on cpus {:?}", server.address(), settings.cpus);
    signals.forever().next();
    Ok(())
}
