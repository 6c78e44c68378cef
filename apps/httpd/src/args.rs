//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;

/// Serve a folder over HTTP: GET and HEAD, from few threads that no cold file stops.
#[derive(Clone, Debug, Parser)]
#[command(name = "kumiki-httpd", version, after_help = SIGNALS)]
pub struct Args {
    /// Folder to serve; nothing outside of it is reached, by symbolic links neither
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Address and port to listen on; several times for several. A socket that systemd hands over takes its place
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: Vec<SocketAddr>,
    /// Threads that serve [default: as many as there are cpus]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// A thread that serves on each of these cpus, and on no other, e.g. 2,3
    #[arg(long, value_name = "CPU,…", value_delimiter = ',', conflicts_with = "workers")]
    pub cpu_list: Option<Vec<usize>>,
    /// Name of the file that answers for a folder
    #[arg(long, value_name = "NAME", default_value = "index.html")]
    pub index: String,
    /// Answer a folder without such a file by 403, not by a list of its files
    #[arg(long)]
    pub no_list: bool,
    /// Answer 404 for names that begin with a dot, but below .well-known, and leave them out of lists
    #[arg(long)]
    pub hide_dot: bool,
    /// Answer with FILE.br, FILE.zst or FILE.gz if there is one and the client takes it
    #[arg(long)]
    pub precompressed: bool,
    /// Write a line a request to this file, in the combined format; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Answer `GET /metrics` in the OpenMetrics format, at ADDRESS:PORT or unix:PATH
    #[arg(long, value_name = "WHERE")]
    pub metrics: Option<String>,
    /// Connections at the same time, of all threads [default: 10,000, or as many as there may be open files for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: Option<u32>,
    /// Seconds for a request's head to come in, from its first byte on
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub head_time: u64,
    /// Seconds that a connection may be idle between requests
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub idle_time: u64,
    /// Seconds for a client to take 64 KiB of an answer, or what is left of it
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub send_time: u64,
    /// Seconds for a disk to give what a client waits for; then the answer is 503, or ends
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub disk_time: u64,
    /// Seconds for requests under way after the signal to end
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub grace: u64,
    /// HTTPS with the certificate chain and the key in these two files (PEM), read again by SIGHUP
    #[cfg(feature = "tls")]
    #[arg(long, num_args = 2, value_names = ["CHAIN", "KEY"])]
    pub tls: Option<Vec<PathBuf>>,
}

const SIGNALS: &str = "\
SIGTERM and SIGINT end the server: it takes no new connection and finishes what is under way. \
SIGHUP makes it open the folder and the log again. It listens on sockets that systemd hands over \
(LISTEN_FDS) in place of --listen.";
