//! Made-up results of a plausible machine. They are for tests only; no figure
//! here was measured.
#![allow(dead_code, unreachable_pub)]

use kumiki_measure::schema::{
    CpuTime, Machine, Params, Results, Row, Run, SCHEMA, Skipped, Slope, Trend, Unit, Value, Visit,
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
        quiet: median,
        quiet_ci: Some([median * 0.9, median * 1.1]),
        wander: 0.0,
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

/// The parameters of a case with sizes, all of them zero.
fn sized(case: &str, touch: &str, huge: bool) -> Params {
    let sizes: &[&str] = match case {
        "process.exec" => &["data_bytes", "bss_bytes", "args_bytes", "env_bytes"],
        _ => &["data_bytes", "bss_bytes", "stack_bytes", "anon_bytes"],
    };
    let mut all = params([("touch", touch.into()), ("huge", huge.into())]);
    all.extend(sizes.iter().map(|name| ((*name).to_owned(), 0u64.into())));
    all
}

/// Rows on a straight line from the base row, and the slope below them.
fn sweep(r: &mut Results, case: &str, size: &str, max: u64, line: [f64; 2], rest: Params) {
    let [base, per_page] = line;
    for share in [1, 2, 4, 8] {
        let bytes = max * share / 8;
        let wobble = 1.0 + 0.01 * ((share * 7 % 5) as f64 - 2.0);
        let mut all = rest.clone();
        all.insert(size.to_owned(), bytes.into());
        let cost = (base + per_page * bytes as f64 / 4096.0) * wobble;
        r.rows.push(row(case, all, cost));
    }
    let mut fixed = rest;
    fixed.remove(size);
    r.slopes.push(Slope {
        case: case.to_owned(),
        param: size.to_owned(),
        params: fixed,
        ns_per_page: per_page,
        ci: [per_page * 0.96, per_page * 1.05],
        trend: Trend::Grows,
        base_ns: base,
        r2: 0.997,
        knee_bytes: None,
        ns_per_page_beyond: None,
        jump: None,
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
            others: Vec::new(),
        },
        machine: Machine {
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
            scratch: "ext4, /var/tmp".to_owned(),
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
    processes(&mut r);
    spawns(&mut r);
    communication(&mut r);
    threads(&mut r);
    rest(&mut r);
    shadows(&mut r);
    parascs(&mut r);
    resources(&mut r);
    for row in &mut r.rows {
        row.ci = row.ci.map(|end| end * factor);
        for value in [&mut row.median, &mut row.p99, &mut row.min] {
            *value *= factor;
        }
    }
    r
}

fn processes(r: &mut Results) {
    let (fork, exec) = ("process.fork", "process.exec");
    r.rows.push(row(fork, sized(fork, "none", false), 44e3));
    r.rows.push(row(exec, sized(exec, "none", false), 33e3));
    for (touch, of_fork, of_exec) in
        [("none", 1.5, 0.2), ("read", 39.0, 85.0), ("write", 42.0, 1450.0)]
    {
        let (f, e) = (|| sized(fork, touch, false), || sized(exec, touch, false));
        sweep(r, fork, "data_bytes", 16 * MIB, [44e3, of_fork], f());
        sweep(r, fork, "bss_bytes", 16 * MIB, [44e3, of_fork * 0.8], f());
        sweep(r, fork, "stack_bytes", 4 * MIB, [44e3, of_fork * 1.1], f());
        sweep(r, exec, "data_bytes", 16 * MIB, [33e3, of_exec], e());
        sweep(r, exec, "bss_bytes", 16 * MIB, [33e3, of_exec * 0.8], e());
    }
    sweep(r, exec, "args_bytes", MIB, [33e3, 1900.0], sized(exec, "none", false));
    sweep(r, exec, "env_bytes", MIB, [33e3, 1880.0], sized(exec, "none", false));
    for (huge, per_page) in [(false, 57.0), (true, 0.9)] {
        sweep(r, fork, "anon_bytes", 256 * MIB, [44e3, per_page], sized(fork, "write", huge));
    }
    let anon = r.slopes.iter_mut().find(|s| s.param == "anon_bytes").expect("just made");
    (anon.knee_bytes, anon.ns_per_page_beyond) = (Some(128 * MIB), Some(78.0));
}

fn spawns(r: &mut Results) {
    let ways = [
        ("fork_exec", 94e3, 58.0),
        ("vfork", 37e3, 0.0),
        ("clone3", 36e3, 0.0),
        ("posix_spawn", 60e3, 0.0),
        ("command", 61e3, 0.0),
        ("command_pre_exec", 125e3, 57.0),
        ("system", 820e3, 0.0),
    ];
    for (way, base, per_page) in ways {
        for bytes in [0, 64 * MIB, 256 * MIB] {
            let cost = base + per_page * bytes as f64 / 4096.0;
            let all = params([("anon_bytes", bytes.into())]);
            r.rows.push(row(&format!("process.spawn.{way}"), all, cost));
        }
    }
}

/// A row on one cpu and one between two, which somebody else disturbed.
fn both(r: &mut Results, case: &str, rest: Params, [same, other]: [f64; 2]) {
    let at = |cpu: &str| {
        let mut all = rest.clone();
        all.insert("cpu".to_owned(), cpu.into());
        all
    };
    r.rows.push(row(case, at("same"), same));
    r.rows.push(disturbed(crossing(row(case, at("other"), other)), "steal 3.1 % of visit 2"));
}

fn communication(r: &mut Results) {
    let ways = [
        ("pipe", 5.8e3, 86e3),
        ("unix_stream", 7.1e3, 90e3),
        ("unix_datagram", 7.9e3, 91e3),
        ("tcp", 18e3, 99e3),
        ("mqueue", 6.2e3, 84e3),
    ];
    for (way, same, other) in ways {
        for bytes in [1, 64, 4 * KIB, 64 * KIB] {
            let copy = bytes as f64 / 4.0;
            let all = || params([("bytes", bytes.into())]);
            both(r, &format!("ipc.{way}.latency"), all(), [same + copy, other + copy]);
            let rate = |base: f64| bytes as f64 / (base / 5.0 + bytes as f64 / 5.0);
            let case = format!("ipc.{way}.bandwidth");
            both(r, &case, all(), [rate(same), rate(other)]);
            let made = r.rows.len() - 2;
            r.rows[made..].iter_mut().for_each(|row| row.unit = Unit::GigabytesPerSecond);
        }
    }
    both(r, "ipc.futex.latency", Params::new(), [4.2e3, 82e3]);
    both(r, "ipc.eventfd.latency", Params::new(), [5.1e3, 83e3]);
}

fn threads(r: &mut Results) {
    both(r, "thread.create.pthread", Params::new(), [11e3, 81e3]);
    both(r, "thread.wake.round_trip", Params::new(), [3.9e3, 82e3]);
    both(r, "thread.condvar", Params::new(), [4.8e3, 84e3]);
    for processes in [1u64, 2, 8] {
        for bytes in [0, 16 * KIB, 64 * KIB, 256 * KIB] {
            let work = 700.0 + bytes as f64 / 60.0;
            let switch =
                if processes > 1 { 900.0 + processes as f64 * bytes as f64 / 900.0 } else { 0.0 };
            let all =
                params([("processes", processes.into()), ("working_set_bytes", bytes.into())]);
            r.rows.push(row("thread.context_switch", all, work + switch));
        }
    }
    r.rows.push(row("thread.nanosleep", params([("asked_ns", 1000u64.into())]), 61e3));
}

fn shadows(r: &mut Results) {
    // It crosses to no other cpu.
    r.rows.push(row("shadow.null", params([("way", "ucontext".into())]), 412.0));
    let mut add = |case: &str, all: Params, median: f64| {
        r.rows.push(crossing(row(&format!("shadow.{case}"), all, median)));
        r.rows.len() - 1
    };
    let spin = [("spin", 318.0), ("two_phase", 323.0)];
    let sleep = [("sleep_by_futex", 41e3), ("park", 62e3), ("pthread", 83e3)];
    for (way, ns) in spin.into_iter().chain(sleep) {
        add("null", params([("way", way.into())]), ns);
    }
    let thresholds = [0, 100, 10_000, 1_000_000, 100_000_000].map(Value::Number);
    let thresholds = thresholds.into_iter().chain(["adaptive".into(), "infinite".into()]);
    let costs = [(61e3, 0.0004), (58e3, 0.0004), (325.0, 0.0005), (324.0, 0.004), (323.0, 0.38)];
    let costs = costs.into_iter().chain([(322.0, 0.0006), (319.0, 1.0)]);
    let mut idle = Vec::new();
    for (threshold, (ns, cpu)) in thresholds.zip(costs) {
        add("threshold", params([("threshold_ticks", threshold.clone())]), ns);
        let both = [("threshold_ticks", threshold.clone())];
        add("threshold_both", params(both), if ns > 1e3 { 2.0 * ns } else { ns });
        for after in [0_u64, 800, 20_000] {
            let age = [("threshold_ticks", threshold.clone()), ("after_ms", after.into())];
            idle.push(add("idle_over", params(age), if after == 0 { 1.5 } else { cpu }));
        }
        idle.push(add("idle", params([("threshold_ticks", threshold)]), cpu));
    }
    let cpus = 4u64;
    for (main, helper) in (0..cpus * cpus).map(|i| (i / cpus, i % cpus)).filter(|(a, b)| a != b) {
        let near = if main / 2 == helper / 2 { 1.0 } else { 2.1 };
        for (wait, ns) in [("spin", 318.0), ("sleep", 41e3)] {
            let cpu = [("main_cpu", main.into()), ("helper_cpu", helper.into())];
            let mut all = params(cpu);
            all.insert("wait".to_owned(), wait.into());
            let relation = if near > 1.0 { "other_socket" } else { "one_l3" };
            all.insert("relation".to_owned(), relation.into());
            add("pair", all, ns * near);
        }
    }
    let mut copies = Vec::new();
    let ways = ["libc", "prefetch", "block_256", "block_1024", "block_4096", "split", "auto"];
    for (way, rate) in ways.into_iter().zip([7.0, 8.0, 7.1, 8.2, 12.0, 13.0, 17.0]) {
        for bytes in [4 * KIB, 64 * KIB, MIB, 16 * MIB] {
            let half_rate_at = if way == "libc" { 2e3 } else { 4e4 };
            let rate = rate * bytes as f64 / (bytes as f64 + half_rate_at);
            let all = params([("way", way.into()), ("bytes", bytes.into())]);
            copies.push(add("copy", all, rate));
        }
    }
    idle.into_iter().for_each(|i| r.rows[i].unit = Unit::Cpus);
    copies.into_iter().for_each(|i| r.rows[i].unit = Unit::GigabytesPerSecond);
    let pairs = r.rows.iter_mut().filter(|row| row.case == "shadow.pair");
    for row in pairs {
        let cpu = |name: &str| match row.params[name] {
            Value::Number(cpu) => cpu as usize,
            _ => unreachable!("made just now"),
        };
        row.cpus = vec![cpu("main_cpu"), cpu("helper_cpu")];
    }
}

fn parascs(r: &mut Results) {
    let steps = [
        ("init", 92e3),
        ("struct", 2.1),
        ("gettid_asleep", 41e3),
        ("gettid_awake", 540.0),
        ("end", 47e3),
        ("normal", 88.0),
    ];
    for (step, ns) in steps {
        let row = row("parasc.steps", params([("step", step.into())]), ns);
        let alone = ["struct", "normal"].contains(&step);
        r.rows.push(if alone { row } else { crossing(row) });
    }
    for files in ["own", "one"] {
        for requests in [1u64, 10, 50, 100, 300] {
            let all = |threads: u64| {
                params([
                    ("files", files.into()),
                    ("processing_threads", threads.into()),
                    ("requests", requests.into()),
                ])
            };
            let plain = 170.0 * requests as f64;
            r.rows.push(row("parasc.requests", all(0), plain));
            for threads in [1u64, 2] {
                // Faster from 50 requests on, or, with one open file, never.
                let share = if files == "own" { 1.0 / (threads + 1) as f64 } else { 1.1 };
                let ns = plain * share + if requests == 1 { 0.0 } else { 2e3 };
                let ns = if requests == 1 { plain } else { ns };
                r.rows.push(crossing(row("parasc.requests", all(threads), ns)));
            }
            for (by, share) in [("mechanism", 1.2), ("bare threads", 0.5)] {
                let mut params = all(1);
                params.insert("by".to_owned(), by.into());
                r.rows.push(crossing(row("parasc.requests", params, plain * share)));
            }
        }
    }
    for (call, ns, share) in
        [("getppid", 86.0, 0.58), ("mmap", 2e3, 1.02), ("open_close", 1e3, 0.64)]
    {
        for requests in [10u64, 300] {
            let all = |way: &str| {
                params([("call", call.into()), ("way", way.into()), ("requests", requests.into())])
            };
            let plain = ns * requests as f64;
            r.rows.push(row("parasc.calls", all("plain"), plain));
            r.rows.push(crossing(row("parasc.calls", all("parallel"), plain * share)));
        }
    }
    for (way, ns) in [
        ("plain", 26e3),
        ("user", 24e3),
        ("kernel", 13e3),
        ("kernel_helped", 7e3),
        ("one_entry", 15e3),
    ] {
        let params =
            params([("call", "getppid".into()), ("way", way.into()), ("requests", 300_u64.into())]);
        let made = row("parasc.inside", params, ns);
        r.rows.push(if ["plain", "one_entry"].contains(&way) { made } else { crossing(made) });
    }
}

fn resources(r: &mut Results) {
    for (kind, one, two) in [("per_core", 80.0, 82.0), ("shared", 110.0, 900.0)] {
        for (cores, ns) in [(1_u64, one), (2, two)] {
            let params = params([("type", kind.into()), ("cores", cores.into())]);
            let row = row("resource.memory", params, ns);
            r.rows.push(if cores == 1 { row } else { crossing(row) });
        }
    }
    for (kind, one, two) in [("per_core", 50e3, 55e3), ("shared", 50e3, 100e3)] {
        for (cores, ns) in [(1_u64, one), (2, two)] {
            let params = params([("type", kind.into()), ("cores", cores.into())]);
            let row = row("resource.process", params, ns);
            r.rows.push(if cores == 1 { row } else { crossing(row) });
        }
    }
    for (way, small, large) in
        [("kumiki", 44e3, 45e3), ("kumiki/server", 60e3, 60e3), ("fork_exec", 90e3, 2e6)]
    {
        for (bytes, ns) in [(1_u64 << 20, small), (64 << 20, large)] {
            let params = params([("way", way.into()), ("anon_bytes", bytes.into())]);
            r.rows.push(row("resource.spawn", params, ns));
        }
    }
    for (in_flight, ns) in [(1_u64, 110.0), (2, 80.0), (8, 40.0), (32, 30.0)] {
        let params = params([("in_flight", in_flight.into())]);
        r.rows.push(crossing(row("resource.call", params, ns)));
    }
}

fn rest(r: &mut Results) {
    let none = Params::new;
    r.rows.push(row("entry.getppid", none(), 86.0));
    r.rows.push(row("entry.clock.vdso", none(), 22.0));
    r.rows.push(row("entry.clock.syscall", none(), 131.0));
    r.rows.push(row("memory.fault.anon", params([("touch", "write".into())]), 540.0));
    for bytes in [4 * KIB, 64 * KIB, MIB, 16 * MIB] {
        let pages = bytes as f64 / 4096.0;
        for (touch, per_page) in [("none", 0.0), ("write", 540.0)] {
            let all = params([("bytes", bytes.into()), ("touch", touch.into())]);
            r.rows.push(row("memory.mmap_munmap", all, 900.0 + per_page * pages));
        }
        let all = || params([("bytes", bytes.into())]);
        r.rows.push(row("memory.mprotect", all(), 800.0 + 3.0 * pages));
        r.rows.push(row("file.read", all(), 160.0 + 280.0 * pages));
        r.rows.push(row("file.write", all(), 240.0 + 340.0 * pages));
    }
    r.rows.push(row("signal.catch", none(), 1.3e3));
    r.rows.push(disturbed(row("file.fsync", none(), 2.4e6), "another program used 12 % of cpu 0"));
    for depth in [1u64, 8] {
        r.rows.push(row(
            "file.open_close",
            params([("depth", depth.into())]),
            1.1e3 + depth as f64 * 90.0,
        ));
    }
    let mut huge = sized("process.fork", "write", true);
    huge.insert("anon_bytes".to_owned(), (1u64 << 30).into());
    r.skipped.push(Skipped {
        case: "process.fork".to_owned(),
        params: huge,
        reason: "huge pages are not available: enable transparent huge pages".to_owned(),
    });
}
