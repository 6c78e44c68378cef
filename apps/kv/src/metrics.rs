//! Figures in the OpenMetrics format, for who asks by HTTP.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use anyhow::{Context, Result};
use kumiki_metrics::{Endpoint, Kind, Text};

use crate::info::resident;
use crate::say::say;
use crate::shared::Shared;

/// Answers at an address.
pub(crate) fn start(at: &str, shared: Arc<Shared>) -> Result<()> {
    let endpoint = Endpoint::bind(at).context("--metrics")?;
    if let Some(address) = endpoint.address() {
        say(format_args!("metrics at http://{address}/metrics"));
    }
    let builder = thread::Builder::new().name("kv-metrics".to_owned());
    builder.spawn(move || endpoint.serve(|| text(&shared))).context("--metrics")?;
    Ok(())
}

/// All figures.
fn text(shared: &Shared) -> String {
    let sums = shared.totals();
    let mut text = Text::new("kumiki_kv");
    for (name, help, value) in [
        ("commands", "Commands that have been run.", sums.commands),
        ("connections", "Connections that have come.", sums.connections),
        (
            "connections_turned_away",
            "Connections refused as there were too many.",
            sums.turned_away,
        ),
        ("connections_protected", "Connections refused by protected mode.", sums.protected),
        (
            "connections_not_taken",
            "Times that there was no descriptor for a connection.",
            sums.not_taken,
        ),
        ("clients_evicted", "Clients evicted as their memory was full.", sums.evicted),
        ("keyspace_hits", "Keys that were read and there.", sums.hits),
        ("keyspace_misses", "Keys that were read and not there.", sums.misses),
        ("expired_keys", "Keys whose time had come.", sums.expired),
        ("refused_for_memory", "Commands refused for want of memory.", sums.refused),
        ("wrong_passwords", "Passwords that were wrong.", sums.wrong_passwords),
        ("input_bytes", "Bytes that have come.", sums.input),
        ("output_bytes", "Bytes that have been sent.", sums.output),
    ] {
        text.one(Kind::Counter, name, help, value);
    }
    let memory = shared.memory.load(Relaxed) as u64;
    for (name, help, value) in [
        ("clients", "Connections that are there.", sums.clients),
        ("clients_max", "Connections that there may be.", shared.clients.load(Relaxed) as u64),
        ("keys", "Keys that are there.", sums.keys),
        ("keys_expiring", "Keys that go at some time.", sums.going),
        ("followers", "Clients that get invalidations.", sums.followers),
        ("followed_keys", "Keys that they follow.", sums.followed_keys),
        ("key_memory_bytes", "Memory of keys and values.", sums.key_bytes),
        ("client_memory_bytes", "Memory of clients' commands and answers.", sums.client_bytes),
        ("memory_max_bytes", "Memory that both may take.", memory),
        ("resident_memory_bytes", "Memory of the process.", resident()),
        ("uptime_seconds", "For how long it has run.", shared.uptime()),
        ("shards", "Shards of the keys.", shared.counters.len() as u64),
    ] {
        text.one(Kind::Gauge, name, help, value);
    }
    text.end()
}
