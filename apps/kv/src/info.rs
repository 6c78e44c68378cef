//! `INFO`: what the server is and counts, by the names that Redis has for it.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crate::counters::Sums;
use crate::shared::{REDIS_VERSION, Shared, VERSION, now};

type Section = (&'static str, fn(&Shared, &Sums, &mut String));

const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Keyspace", keyspace),
];

/// Text of these sections, or of all.
pub(crate) fn text(shared: &Shared, wanted: &[String]) -> String {
    let all = ["all", "default", "everything"];
    let wants_all = wanted.is_empty() || wanted.iter().any(|name| all.contains(&&**name));
    let (sums, mut text) = (shared.sums(), String::new());
    for (name, write) in SECTIONS {
        if wants_all || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name)) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            say(&mut text, format_args!("# {name}"));
            write(shared, &sums, &mut text);
        }
    }
    text
}

fn say(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Into a String it cannot fail.
    let _ = write!(text, "{line}\r\n");
}

macro_rules! lines {
    ($text:ident, $($name:literal: $value:expr),* $(,)?) => {
        $(say($text, format_args!("{}:{}", $name, $value));)*
    };
}

fn server(shared: &Shared, _: &Sums, text: &mut String) {
    let uptime = shared.uptime();
    lines!(text,
        "redis_version": REDIS_VERSION,
        "server_name": "kumiki-kv",
        "kumiki_kv_version": VERSION,
        "redis_mode": "standalone",
        "os": format_args!("Linux {}", rustix::system::uname().release().to_string_lossy()),
        "arch_bits": usize::BITS,
        "multiplexing_api": "epoll",
        "process_id": std::process::id(),
        "run_id": shared.run_id,
        "tcp_port": shared.port.load(Relaxed),
        "server_time_usec": now() * 1000,
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86400,
        "shards": shared.counters.len(),
        "executable": std::env::current_exe().unwrap_or_default().display(),
        "config_file": "",
    );
}

fn clients(shared: &Shared, sums: &Sums, text: &mut String) {
    lines!(text,
        "connected_clients": sums.clients,
        "maxclients": shared.clients.load(Relaxed),
        "client_recent_max_input_buffer": 0,
        "blocked_clients": 0,
        "tracking_clients": sums.followers,
    );
}

/// Bytes of this process that are in memory.
pub(crate) fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

fn memory(shared: &Shared, sums: &Sums, text: &mut String) {
    let used = sums.key_bytes + sums.client_bytes;
    lines!(text,
        "used_memory": used,
        "used_memory_human": human(used),
        "used_memory_rss": resident(),
        "used_memory_rss_human": human(resident()),
        "used_memory_dataset": sums.key_bytes,
        "mem_clients_normal": sums.client_bytes,
        "maxmemory": shared.memory.load(Relaxed),
        "maxmemory_human": human(shared.memory.load(Relaxed) as u64),
        "maxmemory_keys": shared.key_memory(),
        "maxmemory_clients": shared.client_memory(),
        "maxmemory_policy": "noeviction",
        "mem_allocator": "libc",
    );
}

fn human(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["K", "M", "G", "T"] {
        if value >= 1024.0 {
            (value, unit) = (value / 1024.0, next);
        }
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") }
}

fn persistence(shared: &Shared, _: &Sums, text: &mut String) {
    let Some(kept) = &shared.kept else {
        lines!(text, "loading": 0, "rdb_bgsave_in_progress": 0, "aof_enabled": 0);
        return;
    };
    let counts = &kept.counts;
    let (log, snapshot) = (counts.log_bytes.load(Relaxed), counts.snapshot_bytes.load(Relaxed));
    let state = |is_fine| if is_fine { "ok" } else { "err" };
    lines!(text,
        "loading": 0,
        "rdb_changes_since_last_save": counts.changes.load(Relaxed),
        "rdb_bgsave_in_progress": u8::from(kept.is_saving()),
        "rdb_last_save_time": counts.saved.load(Relaxed),
        "rdb_last_bgsave_status": state(counts.failed.load(Relaxed) == 0),
        "aof_enabled": 1,
        "aof_rewrite_in_progress": u8::from(kept.is_saving()),
        "aof_last_write_status": state(!kept.is_full()),
        "aof_current_size": log + snapshot,
        "aof_base_size": snapshot,
        "aof_flushes": counts.flushes.load(Relaxed),
        "commands_refused_for_disk": counts.refused.load(Relaxed),
        "durable_folder": kept.folder(),
    );
}

fn stats(_: &Shared, sums: &Sums, text: &mut String) {
    lines!(text,
        "total_connections_received": sums.connections,
        "total_commands_processed": sums.commands,
        "total_net_input_bytes": sums.input,
        "total_net_output_bytes": sums.output,
        "rejected_connections": sums.turned_away + sums.protected,
        "connections_without_descriptor": sums.not_taken,
        "expired_keys": sums.expired,
        "evicted_keys": 0,
        "evicted_clients": sums.evicted,
        "keyspace_hits": sums.hits,
        "keyspace_misses": sums.misses,
        "commands_refused_for_memory": sums.refused,
        "tracking_total_keys": sums.followed_keys,
        "tracking_total_items": sums.followed_items,
        "tracking_total_prefixes": sums.prefixes,
        "acl_access_denied_auth": sums.wrong_passwords,
    );
}

fn replication(shared: &Shared, _: &Sums, text: &mut String) {
    lines!(text,
        "role": "master",
        "connected_slaves": 0,
        "master_replid": shared.run_id,
        "master_repl_offset": 0,
    );
}

fn cpu(_: &Shared, _: &Sums, text: &mut String) {
    let times = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have spaces in it.
    let mut fields = times.rsplit(") ").next().unwrap_or_default().split(' ').skip(11);
    let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
    let mut seconds =
        || fields.next().and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / ticks;
    let (user, system) = (seconds(), seconds());
    lines!(text,
        "used_cpu_sys": format_args!("{system:.6}"),
        "used_cpu_user": format_args!("{user:.6}"),
    );
}

fn keyspace(_: &Shared, sums: &Sums, text: &mut String) {
    if sums.keys > 0 {
        let (keys, going) = (sums.keys, sums.going);
        lines!(text, "db0": format_args!("keys={keys},expires={going},avg_ttl=0"));
    }
}
