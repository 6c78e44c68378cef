//! An outcome as hyperfine exports it (`--export-json`): what reads that reads this.

use kumiki_measure::stats::describe;
use serde_json::{Value, json};

use crate::{End, Outcome, Sample};

/// Version 1 of hyperfine: a list of times, seconds.
pub fn first(outcome: &Outcome) -> Value {
    let side = |at: usize| {
        let own = || outcome.pairs.iter().map(move |pair| &pair[at]);
        let times: Vec<f64> = own().map(|sample| sample.wall_ns * 1e-9).collect();
        let Spread { mean, stddev, median, min, max } = Spread::of(&times);
        let cpu = |of: fn(&Sample) -> f64| {
            Spread::of(&own().map(|sample| of(sample) * 1e-9).collect::<Vec<_>>()).mean
        };
        json!({
            "command": command(outcome, at),
            "mean": mean,
            "stddev": stddev,
            "median": median,
            "user": cpu(|sample| sample.user_ns),
            "system": cpu(|sample| sample.system_ns),
            "min": min,
            "max": max,
            "times": times,
            "exit_codes": own().map(exit_code).collect::<Vec<_>>(),
        })
    };
    json!({ "results": [side(0), side(1)] })
}

/// Time of a run, nanoseconds.
type Nanoseconds = fn(&Sample) -> f64;

/// Names of version 2's times, and what each is of a run.
const TIMES: [(&str, Nanoseconds); 4] = [
    ("time_wall_clock", |sample| sample.wall_ns),
    ("time_cpu", |sample| sample.user_ns + sample.system_ns),
    ("time_user", |sample| sample.user_ns),
    ("time_system", |sample| sample.system_ns),
];
const MEMORY: &str = "memory_peak_resident";

/// Version 2 of hyperfine (its schema 2): each run with its times, memory and exit code.
pub fn second(outcome: &Outcome) -> Value {
    let machine = &outcome.machine;
    json!({
        "schema_version": 2,
        "metadata": {
            "start_time": outcome.started,
            "platform": { "os": "Linux", "architecture": std::env::consts::ARCH },
            "kumiki_ab_version": env!("CARGO_PKG_VERSION"),
            "kernel": machine.kernel,
        },
        "primary_metric": TIMES[0].0,
        "results": [runs(outcome, 0), runs(outcome, 1)],
    })
}

/// Runs of a side, and a summary of each thing that was measured.
fn runs(outcome: &Outcome, at: usize) -> Value {
    let own = || outcome.pairs.iter().map(move |pair| &pair[at]);
    let run = |sample: &Sample| {
        let mut run = serde_json::Map::new();
        for (name, ns) in TIMES {
            run.insert(name.to_owned(), json!({ "value": ns(sample) * 1e-9, "unit": "second" }));
        }
        if let Some(bytes) = sample.max_rss_bytes {
            run.insert(MEMORY.to_owned(), json!({ "value": bytes as f64, "unit": "byte" }));
        }
        run.insert("exit_code".to_owned(), json!(exit_code(sample)));
        Value::Object(run)
    };
    let mut summary = serde_json::Map::new();
    let mut add = |name: &str, unit: &str, values: Vec<f64>| {
        let Spread { mean, stddev, median, min, max } = Spread::of(&values);
        let of = json!({
            "unit": unit, "count": values.len(), "mean": mean, "stddev": stddev,
            "median": median, "min": min, "max": max,
        });
        summary.insert(name.to_owned(), of);
    };
    for (name, ns) in TIMES {
        add(name, "second", own().map(|sample| ns(sample) * 1e-9).collect());
    }
    // Only where every run has told it: a mean of some would be of other runs.
    if let Some(bytes) = own().map(|sample| sample.max_rss_bytes).collect::<Option<Vec<_>>>() {
        add(MEMORY, "byte", bytes.into_iter().map(|bytes| bytes as f64).collect());
    }
    json!({
        "command": command(outcome, at),
        "measurements": own().map(run).collect::<Vec<_>>(),
        "summary": summary,
    })
}

fn command(outcome: &Outcome, at: usize) -> String {
    [&outcome.a, &outcome.b][at].command()
}

/// Exit code of a run; none where a signal has ended it.
fn exit_code(sample: &Sample) -> Option<i32> {
    match sample.end {
        End::Success => Some(0),
        End::Status(code) => Some(code),
        End::Signal(_) | End::Slept => None,
    }
}

/// Numbers by which hyperfine describes runs; nothing where there are none.
#[derive(Default)]
struct Spread {
    mean: Option<f64>,
    stddev: Option<f64>,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let sorted = describe::sorted(values.iter().copied());
        let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
            return Spread::default();
        };
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Spread {
            mean: Some(mean),
            stddev: (n > 1.0).then(|| (squares / (n - 1.0)).sqrt()),
            median: Some(describe::median(&sorted)),
            min: Some(*min),
            max: Some(*max),
        }
    }
}
