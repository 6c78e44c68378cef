//! Figures in the OpenMetrics format, for who asks by HTTP.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use kumiki_metrics::{Endpoint, Kind, Text, label};

use crate::counts::{Count, Counts};
use crate::devices::Devices;
use crate::failure::Failure;
use crate::log::Log;
use crate::say::say;
use crate::worker::Shared;

/// Everything that figures are taken from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) shared: Arc<Shared>,
    pub(crate) devices: Arc<Devices>,
    pub(crate) log: Option<Log>,
}

/// Answers at an address, `ADDRESS:PORT` or `unix:PATH`, by a thread of its own.
///
/// # Errors
/// It is no address, or is taken.
pub(crate) fn start(at: &str, sources: Arc<Sources>, failure: &Arc<Failure>) -> Result<()> {
    let endpoint = Endpoint::bind(at).context("--metrics")?;
    if let Some(address) = endpoint.address() {
        say(format_args!("metrics at http://{address}/metrics"));
    }
    let failure = Arc::clone(failure);
    let work = move || {
        failure.watch("the thread for metrics", || match endpoint.serve(|| text(&sources)) {});
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(work).context("--metrics")?;
    Ok(())
}

/// All figures.
fn text(sources: &Sources) -> String {
    let Sources { shared, devices, log } = sources;
    let sum = |of: fn(&Counts) -> &Count| {
        shared.counts.iter().map(|counts| of(counts).get()).sum::<u64>()
    };
    let mut text = Text::new("kumiki_httpd");
    let answers = (0..5_usize).map(|at| {
        let of_each = shared.counts.iter().filter_map(|counts| counts.answers.get(at));
        let count = of_each.map(Count::get).sum::<u64>();
        (label("code", &format!("{}xx", at + 1)), count as f64)
    });
    text.family(Kind::Counter, "answers", "Answers by their status.", answers);
    let counters: [(&str, &str, u64); 9] = [
        ("hits", "Answers for which no call waited for a disk.", sum(|it| &it.hits)),
        ("body_bytes", "Bytes of answers' bodies.", sum(|it| &it.body_bytes)),
        ("cold_calls", "Calls on files that would have slept.", sum(|it| &it.cold)),
        ("disk_time_over", "Clients that waited for a disk for too long.", sum(|it| &it.disk_time)),
        ("connections_accepted", "Connections that were taken.", sum(|it| &it.accepted)),
        ("connections_refused", "Times that there was no place for one.", sum(|it| &it.refused)),
        ("connections_closed", "Idle ones that were closed for others.", sum(|it| &it.closed)),
        ("panics", "Connections that a fault of the server has ended.", sum(|it| &it.panics)),
        (
            "log_lines_left_out",
            "Lines that the log's disk was too slow for.",
            log.as_ref().map_or(0, Log::all_left_out),
        ),
    ];
    for (name, help, value) in counters {
        text.one(Kind::Counter, name, help, value);
    }
    let gauges: [(&str, &str, u64); 5] = [
        ("cold_calls_under_way", "Calls that other threads are in.", devices.under_way()),
        ("connections", "Connections that are there.", shared.places.taken() as u64),
        ("connections_max", "Connections that there may be.", shared.places.most() as u64),
        ("workers", "Threads that serve.", shared.counts.len() as u64),
        ("resident_memory_bytes", "Memory of the process.", resident()),
    ];
    for (name, help, value) in gauges {
        text.one(Kind::Gauge, name, help, value);
    }
    text.end()
}

/// Bytes of the process in memory, as the kernel counts them.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages.saturating_mul(rustix::param::page_size() as u64)
}
