//! Made-up results of a plausible machine. They are for tests only; no figure
//! here was measured.
#![allow(dead_code, unreachable_pub)]

use kumiki_measure::schema::{
    CpuTime, Machine, Params, Results, Row, Run, SCHEMA, Skipped, Slope, Unit, Value, Visit,
};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Parameters from pairs.
pub fn params<const N: usize>(pairs: [(&str, Value); N]) -> Params {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A row with a median, an interval of 2 % around it, and one visit.
pub fn row(case: &str, params: Params, median: f64) -> Row {
    let cpu = CpuTime { user_ns: median * 0.1, system_ns: median * 0.8, children_ns: 0.0 };
    Row {
        case: case.to_owned(),
        params,
        unit: Unit::Nanoseconds,
        n: 120,
        median,
        p99: median * 1.4,
        ci: [median * 0.98, median * 1.02],
        min: median * 0.93,
        mad: median * 0.02,
        outliers: 2,
        cpu_ns: cpu.total_ns(),
        cpu,
        disturbed: false,
        disturbances: vec![],
        round_trip_ns: Some(310.0),
        cpus: vec![0],
        visits: vec![Visit { batch: 10, samples: vec![median; 3], ..Visit::default() }],
    }
}

/// A row that ran on two cpus.
pub fn crossing(mut row: Row) -> Row {
    row.cpus = vec![0, 1];
    row
}

/// A row that something else disturbed.
pub fn disturbed(mut row: Row, why: &str) -> Row {
    row.disturbed = true;
    row.disturbances = vec![why.to_owned()];
    row
}

fn bandwidth(mut row: Row) -> Row {
    row.unit = Unit::GigabytesPerSecond;
    row
}

/// Rows on a straight line, and the slope below them.
fn sweep(results: &mut Results, case: &str, size: &str, max: u64, line: [f64; 2], rest: Params) {
    let [base, per_page] = line;
    for share in [0, 1, 2, 4, 8] {
        let bytes = max * share / 8;
        let wobble = 1.0 + 0.01 * ((share * 7 % 5) as f64 - 2.0);
        let mut all = rest.clone();
        all.insert(size.to_owned(), bytes.into());
        let cost = (base + per_page * bytes as f64 / 4096.0) * wobble;
        results.rows.push(row(case, all, cost));
    }
    results.slopes.push(Slope {
        case: case.to_owned(),
        param: size.to_owned(),
        params: rest,
        ns_per_page: per_page,
        ci: [per_page * 0.96, per_page * 1.05],
        base_ns: base,
        r2: 0.997,
        knee_bytes: None,
        ns_per_page_beyond: None,
    });
}

/// A result with its machine and nothing measured.
pub fn empty(host: &str) -> Results {
    Results {
        schema: SCHEMA,
        run: Run {
            label: None,
            started: "2026-11-20T09:30:00Z".to_owned(),
            seconds: 252.0,
            mode: "default".to_owned(),
            command: "kumiki report --output page.html".to_owned(),
            version: "0.1.0".to_owned(),
            complete: true,
            peak_bytes: Some(41 * MIB),
        },
        machine: Machine {
            scratch: "/tmp on ext4".into(),
            hostname: host.to_owned(),
            kernel: "6.1.0-28-amd64".to_owned(),
            kernel_version: "#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1".to_owned(),
            os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            cpu_model: "Example Processor 8272 @ 2.60GHz".to_owned(),
            cpus: 2,
            cpus_allowed: "0-1".to_owned(),
            cores: 2,
            threads_per_core: 1,
            numa_nodes: 1,
            memory_bytes: 16 << 30,
            cache_bytes: Some(36 * MIB),
            hypervisor: Some("KVM".to_owned()),
            tsc_hz: Some(2.6e9),
            clock: "tsc".to_owned(),
            governor: None,
            boost: None,
            transparent_huge_pages: Some("madvise".to_owned()),
            mitigations: vec![
                "spectre_v2: Retpolines".to_owned(),
                "mds: Clear CPU buffers".to_owned(),
            ],
            load: Some(0.12),
            round_trip_ns: Some(310.0),
        },
        rows: vec![],
        slopes: vec![],
        skipped: vec![],
    }
}

/// A full result. `factor` makes a machine faster or slower.
pub fn full(host: &str, factor: f64) -> Results {
    let mut r = empty(host);
    let touches = [("none", 1.5, 0.2), ("read", 39.0, 85.0), ("write", 42.0, 1450.0)];
    for (touch, fork, exec) in touches {
        let rest = || params([("touch", touch.into())]);
        sweep(&mut r, "process.fork", "data_bytes", 8 * MIB, [44e3, fork], rest());
        sweep(&mut r, "process.fork", "bss_bytes", 8 * MIB, [45e3, fork * 0.8], rest());
        sweep(&mut r, "process.exec", "data_bytes", 8 * MIB, [33e3, exec], rest());
        sweep(&mut r, "process.exec", "bss_bytes", 8 * MIB, [34e3, exec * 0.8], rest());
    }
    sweep(&mut r, "process.fork", "stack_bytes", 4 * MIB, [46e3, 43.0], written());
    sweep(&mut r, "process.exec", "args_bytes", MIB, [37e3, 1900.0], Params::new());
    sweep(&mut r, "process.exec", "env_bytes", MIB, [37e3, 1880.0], Params::new());
    for (huge, per_page) in [(false, 57.0), (true, 0.9)] {
        let mut rest = written();
        rest.insert("huge".to_owned(), huge.into());
        sweep(&mut r, "process.fork", "anon_bytes", 256 * MIB, [60e3, per_page], rest);
    }
    let knee = r.slopes.iter_mut().find(|s| s.param == "anon_bytes").expect("just made");
    (knee.knee_bytes, knee.ns_per_page_beyond) = (Some(128 * MIB), Some(78.0));
    spawns(&mut r);
    communication(&mut r);
    rest(&mut r);
    for row in &mut r.rows {
        row.ci = row.ci.map(|end| end * factor);
        for value in [&mut row.median, &mut row.p99, &mut row.min] {
            *value *= factor;
        }
    }
    r
}

fn written() -> Params {
    params([("touch", "write".into())])
}

fn spawns(r: &mut Results) {
    let ways = [
        ("fork", 94e3, 58.0),
        ("vfork", 37e3, 0.0),
        ("posix_spawn", 60e3, 0.0),
        ("command", 61e3, 0.0),
    ];
    for (way, base, per_page) in ways {
        for bytes in [MIB, 64 * MIB, 256 * MIB] {
            let cost = base + per_page * bytes as f64 / 4096.0;
            let all = params([("anon_bytes", bytes.into())]);
            r.rows.push(row(&format!("process.spawn.{way}"), all, cost));
        }
    }
}

fn communication(r: &mut Results) {
    for (way, same, other) in
        [("pipe", 2.9e3, 43e3), ("futex", 2.1e3, 41e3), ("unix_stream", 3.6e3, 45e3)]
    {
        let at = |cpu: &str| params([("cpu", cpu.into()), ("bytes", 64u64.into())]);
        let case = format!("ipc.{way}");
        r.rows.push(row(&case, at("same"), same));
        r.rows.push(disturbed(crossing(row(&case, at("other"), other)), "steal 3.1 % of visit 2"));
    }
    for bytes in [64, 4 * KIB, 64 * KIB, MIB] {
        let all = params([("bytes", bytes.into()), ("cpu", "same".into())]);
        let rate = 4.0 * bytes as f64 / (bytes as f64 + 8192.0);
        r.rows.push(bandwidth(row("ipc.pipe.bandwidth", all, rate)));
    }
}

fn rest(r: &mut Results) {
    let none = Params::new;
    r.rows.push(row("entry.getppid", none(), 86.0));
    r.rows.push(row("entry.clock.vdso", none(), 22.0));
    r.rows.push(row("entry.clock.syscall", none(), 131.0));
    r.rows.push(row("memory.fault.anon", written(), 540.0));
    r.rows.push(row("signal.catch", none(), 1.3e3));
    r.rows.push(row("thread.create", none(), 11e3));
    for bytes in [0, 64 * KIB, 256 * KIB, MIB] {
        let cost = 750.0 + bytes as f64 / 60.0;
        let all = params([("bytes", bytes.into()), ("processes", 2u64.into())]);
        r.rows.push(row("thread.switch", all, cost));
    }
    r.rows.push(disturbed(row("file.fsync", none(), 2.4e6), "another program used 12 % of cpu 0"));
    r.rows.push(row("file.open_close", none(), 1.1e3));
    r.skipped.push(Skipped {
        case: "process.fork".to_owned(),
        params: params([("anon_bytes", (1u64 << 30).into()), ("huge", true.into())]),
        reason: "huge pages are not available: enable transparent huge pages".to_owned(),
    });
}
