//! The command line.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Parser;

/// A key-value server that speaks RESP, as Redis does: each core owns its keys
#[derive(Clone, Debug, Parser)]
#[command(name = "kumiki-kv", version, max_term_width = 100)]
#[command(
    after_help = "SIGTERM and SIGINT end the server: it takes no new client and sends what it \
has answered. SIGHUP has it read the password anew. Without --durable nothing is kept on a disk."
)]
pub struct Args {
    /// The port; 0: any that is free
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// Addresses to listen on; several times for several
    #[arg(long, value_name = "ADDRESS", default_values_t = [IpAddr::V4(Ipv4Addr::LOCALHOST)])]
    pub bind: Vec<IpAddr>,
    /// A Unix socket to listen on, too
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// The mode of that socket's file
    #[arg(long, value_name = "MODE", default_value = "700", value_parser = mode)]
    pub unix_mode: u32,
    /// A file whose first line is the password that clients have to say (AUTH); SIGHUP reads it anew
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Refuse clients that are not of this machine while there is no password (`yes`), or take them
    /// (`no`)
    #[arg(long, value_name = "YES|NO", default_value = "yes", value_parser = yes_or_no)]
    pub protected_mode: Yes,
    /// A shard and a thread on each of these cpus, e.g. 2,3 [default: one shard, on any cpu]
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    pub cpu_list: Option<Vec<usize>>,
    /// The former name of that one, for this version
    #[arg(long, value_delimiter = ',', hide = true, conflicts_with = "cpu_list")]
    pub cpus: Option<Vec<usize>>,
    /// Keys, values, and what clients have sent half or not yet received take so much at most, e.g.
    /// 256M; more is refused
    #[arg(long, default_value = "256M", value_parser = size)]
    pub memory: usize,
    /// The longest key or value
    #[arg(long, default_value = "1M", value_parser = size)]
    pub longest: usize,
    /// Clients at the same time, at most
    #[arg(long, default_value_t = 10_000)]
    pub clients: usize,
    /// Seconds after which an idle client is closed; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub timeout: u64,
    /// Keep the keys in FOLDER, so that they outlive the server: what a command has done is on the disk
    /// before its answer leaves
    #[arg(long, value_name = "FOLDER")]
    pub durable: Option<PathBuf>,
    /// Answer `GET /metrics` in the OpenMetrics format, at ADDRESS:PORT or unix:PATH
    #[arg(long, value_name = "WHERE")]
    pub metrics: Option<String>,
}

impl Args {
    /// Turns former names of options into today's, with a word about each.
    pub fn by_todays_names(mut self) -> Args {
        if let Some(cpus) = self.cpus.take() {
            crate::say::say(format_args!(
                "`--cpus` is called `--cpu-list`, and by its former name for this version only"
            ));
            self.cpu_list = Some(cpus);
        }
        self
    }
}

/// Yes or no, as Redis has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yes(pub bool);

fn yes_or_no(text: &str) -> Result<Yes, String> {
    match text {
        "yes" => Ok(Yes(true)),
        "no" => Ok(Yes(false)),
        _ => Err("yes or no is meant".to_owned()),
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "an octal mode up to 777 is meant".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    let size = parse_size::Config::new().with_binary().parse_size(text);
    size.map_err(|error| error.to_string())?.try_into().map_err(|_| "too large".to_owned())
}
