//! `kumiki duel`: two kernels, each in a machine of the lab, visited in turns.
//!
//! ```text
//!  machine A: kernel A   ──▶ case   visit      visit        each visit a process of its own that
//!  machine B: kernel B   ──▶             visit      visit   measures the case for a second
//! ```
//!
//! One machine is idle while the other works, and which is first is drawn, so what moves this machine
//! moves both. What the two machines differ in beside their kernels (where their memory lies) it
//! cannot see: a kernel against itself shows how much that is here.

mod machines;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use kumiki_ab::sequence::MISSES;
use kumiki_ab::{Measure, Outcome, Plan, Side, Verdict as Found, trial};
use kumiki_lab::KernelName;
use serde::Serialize;

use crate::duration::positive;
use crate::percent::percent;
use crate::{Verdict, interrupt, output, select};
use machines::Machines;

/// Compared where nothing else is asked for: what programs ask of a kernel most.
const CASES: [&str; 8] = [
    "entry.getppid",
    "signal.catch",
    "process.fork",
    "process.exec",
    "file.read",
    "memory.mmap_munmap",
    "ipc.pipe.latency",
    "thread.create.pthread",
];

/// Columns of the table.
const HEADINGS: [&str; 6] = ["case", "B is", "B/A", "interval", "pairs", "seconds"];

#[derive(Debug, Args)]
pub(crate) struct Duel {
    /// Kernel A, as of `kumiki lab`: 6.1, 6.12, … or RELEASE/PACKAGE
    a: KernelName,
    /// Kernel B, which may be slower; A once more shows what can be told apart here
    b: KernelName,
    /// Case of `kumiki measure`; may be given several times [default: eight of them]
    #[arg(long = "case", value_name = "CASE", conflicts_with = "words")]
    cases: Vec<String>,
    /// Time for all of it, beside the machines' starts: 10m, 1h
    #[arg(long = "for", default_value = "20m", value_name = "TIME", value_parser = positive)]
    span: Duration,
    /// The least difference that matters, in percent
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT", value_parser = percent)]
    detect: f64,
    /// Go on to the end even if the verdicts stand; so it does where A is B
    #[arg(long)]
    all: bool,
    /// Number of cpus of each machine
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// Print the whole of it as JSON
    #[arg(long)]
    json: bool,
    /// Command to compare by its time, in place of cases
    #[arg(last = true, value_name = "CMD")]
    words: Vec<String>,
}

/// All of it.
#[derive(Serialize)]
struct DuelReport {
    /// Versions of the kernels.
    kernels: [String; 2],
    /// Difference that two machines with one kernel may show here, as a share: only of A against A.
    #[serde(skip_serializing_if = "Option::is_none")]
    told_apart: Option<f64>,
    /// Comparisons by their case or command.
    outcomes: Vec<(String, Outcome)>,
}

pub(crate) fn run(args: &Duel) -> Result<Verdict> {
    output::check()?;
    // Before the machines: they take seconds.
    args.cases.iter().try_for_each(|case| select::known(case))?;
    let interrupt = interrupt::Interrupt::watch(|| {
        trial::end_running();
        kumiki_lab::remove_all();
    })?;
    let machines = Machines::start([&args.a, &args.b], args.cpus)?;
    let is_same = args.a.to_string() == args.b.to_string();
    let subjects = match args.words.is_empty() {
        true if args.cases.is_empty() => CASES.map(str::to_owned).to_vec(),
        true => args.cases.clone(),
        false => vec![args.words.join(" ")],
    };
    let mut outcomes = Vec::new();
    for subject in &subjects {
        if interrupt.signal().is_some() {
            break;
        }
        let side = |at: usize| -> Result<Side> {
            let within = machines.words(at)?;
            Ok(match args.words.is_empty() {
                true => Side::new(within).measuring(subject, "kumiki".as_ref(), "/tmp".as_ref()),
                false => Side::new(within.into_iter().chain(args.words.clone())),
            })
        };
        let plan = Plan {
            detect: args.detect / 100.0,
            // What a command costs in a machine this one's counts do not see.
            by: (!args.words.is_empty()).then_some(Measure::Wall),
            misses: MISSES / subjects.len() as f64,
            span: args.span / subjects.len() as u32,
            all: args.all || is_same,
            ..Plan::new(side(0)?, side(1)?)
        };
        let outcome = trial::run(plan, interrupt.stop(), |_| ());
        let outcome = outcome.with_context(|| format!("comparing by {subject}"))?;
        if !args.json {
            output::talk(format_args!("{subject}: {} pairs", outcome.pairs_counted));
        }
        outcomes.push((subject.clone(), outcome));
    }
    let told_apart = is_same.then(|| told_apart(&outcomes)).flatten();
    let report = DuelReport { kernels: machines.kernels().clone(), told_apart, outcomes };
    machines.end()?;
    if args.json {
        output::json(&report)?;
    } else {
        print(&report, args)?;
    }
    if let Some(signal) = interrupt.signal() {
        return Ok(Verdict::Interrupted(signal));
    }
    let any = |verdict| report.outcomes.iter().any(|(_, outcome)| outcome.verdict == verdict);
    let worst = [Found::Slower, Found::CannotSay].into_iter().find(|verdict| any(*verdict));
    Ok(Verdict::Exit(worst.map_or(0, Found::exit_status)))
}

/// The furthest end of any interval: what is apart by less may be the machines and not their kernels.
/// Nothing where one has no interval yet.
fn told_apart(outcomes: &[(String, Outcome)]) -> Option<f64> {
    let reach = |(_, outcome): &(String, Outcome)| {
        outcome.interval.map(|[low, high]| low.ln().abs().max(high.ln().abs()).exp_m1())
    };
    let all: Option<Vec<f64>> = outcomes.iter().map(reach).collect();
    all?.into_iter().reduce(f64::max)
}

fn print(report: &DuelReport, args: &Duel) -> Result<()> {
    let mut table = output::Rows::new(&HEADINGS, 2);
    for (subject, outcome) in &report.outcomes {
        let number =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
        let [low, high] = [0, 1].map(|at| number(outcome.interval.map(|ends| ends[at])));
        table.add([
            subject.clone(),
            outcome.verdict.word().to_owned(),
            number(outcome.ratio),
            format!("[{low}, {high}]"),
            outcome.pairs_counted.to_string(),
            format!("{:.0}", outcome.seconds),
        ]);
    }
    table.print()?;
    let [a, b] = &report.kernels;
    let mut text = format!(
        "A is Linux {a}, B is Linux {b}, each in a machine with {} cpus, visited in turns. Where the \
         kernels cost the same, anything is called slower or faster in at most 5 of 100 duels.",
        args.cpus
    );
    if args.a.to_string() == args.b.to_string() {
        text += &match report.told_apart {
            Some(share) => format!(
                " A and B are one kernel: what two machines show here is a difference of up to {:.1} %, \
                 and less is not told apart.",
                100.0 * share
            ),
            None => " A and B are one kernel: too few pairs to say what is told apart (--for)."
                .to_owned(),
        };
    }
    output::text(output::wrapped(&text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(interval: Option<[f64; 2]>) -> (String, Outcome) {
        let plain = serde_json::json!({
            "schema": 2, "a": {"words": []}, "b": {"words": []}, "detect": 0.05, "verdict": "same",
            "ratio": 1.0, "interval": interval, "figures": null, "notes": [], "pairs_counted": 12,
            "rounds": 12, "interrupted": false, "seconds": 1.0, "pairs": [],
        });
        ("x".to_owned(), serde_json::from_value(plain).unwrap())
    }

    #[test]
    fn every_case_that_nobody_asks_for_is_there() {
        CASES.iter().for_each(|case| select::known(case).unwrap());
        assert!(select::known("nosuch.case").is_err());
    }

    #[test]
    fn what_is_told_apart_is_the_furthest_end_of_any_interval() {
        let [near, far] = [[0.99, 1.02], [0.8, 1.01]].map(|ends| outcome(Some(ends)));
        let all = told_apart(&[near.clone(), far]).unwrap();
        assert!((all - 0.25).abs() < 1e-9, "{all}");
        assert_eq!(told_apart(&[near, outcome(None)]), None);
        assert_eq!(told_apart(&[]), None);
    }
}
