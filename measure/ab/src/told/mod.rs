//! A comparison of two commands for a terminal, for a pull request and for Prometheus.

mod hyperfine;
mod why;

use std::fmt::Write as _;

use kumiki_measure::format::{bytes, count, interval, number, time, wait};
use kumiki_measure::schema::Unit;

pub use self::hyperfine::{first as hyperfine, second as hyperfine2};
use self::why::percent;
use crate::{Against, Clear, Figures, Finding, Measure, Outcome, Verdict};

/// The verdict in a sentence, by the measure that answers.
pub fn sentence(outcome: &Outcome) -> String {
    let pairs = outcome.pairs_counted as u64;
    let of = format!(
        "{} {} in {}",
        count(pairs),
        if pairs == 1 { "pair" } else { "pairs" },
        wait(outcome.seconds)
    );
    let stood = outcome.finding(outcome.by).and_then(|finding| finding.stood_after);
    let after = match stood.filter(|stood| outcome.by != Measure::Wall && (*stood as u64) < pairs) {
        Some(stood) => format!("beyond doubt after {stood} of {of}"),
        None => of,
    };
    let matters = percent(outcome.detect);
    let Some(ratio) = outcome.ratio else {
        return format!("It cannot be said whether B is slower: no pair counts, {after}.");
    };
    let figure = figure(ratio, outcome.interval);
    let verdict = outcome.verdict;
    match outcome.by {
        Measure::Wall | Measure::Own => match verdict {
            Verdict::Slower => format!("B is slower: {figure}, {after}."),
            Verdict::Faster => format!("B is faster: {figure}, {after}."),
            Verdict::Same => format!("B is the same within {matters}: {figure}, {after}."),
            Verdict::NotSlower => format!("B is not slower by {matters}: {figure}, {after}."),
            Verdict::CannotSay => {
                format!("It cannot be said whether B is slower by {matters}: {figure}, {after}.")
            }
        },
        by => {
            format!("B {}, {after}.", costs(by, verdict, ratio, outcome.interval, outcome.detect))
        }
    }
}

fn figure(ratio: f64, interval: Option<[f64; 2]>) -> String {
    match interval {
        Some([low, high]) => format!("{ratio:.3} × A [{low:.3}, {high:.3}]"),
        None => format!("{ratio:.3} × A, with no interval yet"),
    }
}

/// Extra work of the processor for B: "costs 17 % more processor time [16.5, 17.4]".
fn costs(
    by: Measure,
    verdict: Verdict,
    ratio: f64,
    interval: Option<[f64; 2]>,
    detect: f64,
) -> String {
    let (does, of) = match by {
        Measure::Instructions => ("executes", "instructions"),
        _ => ("costs", "processor time"),
    };
    let (figure, matters) = (figure(ratio, interval), percent(detect));
    match (verdict, interval) {
        (Verdict::Slower | Verdict::Faster, Some(ends)) if (0.5..2.0).contains(&ratio) => {
            let more = ratio > 1.0;
            let share = |ratio: f64| 100.0 * if more { ratio - 1.0 } else { 1.0 - ratio };
            let [low, high] = ends.map(share);
            let (low, high) = if more { (low, high) } else { (high, low) };
            let word = if more { "more" } else { "less" };
            format!("{does} {:.1} % {word} {of} [{low:.1}, {high:.1}]", share(ratio))
        }
        (Verdict::Slower, _) => format!("{does} more {of}: {figure}"),
        (Verdict::Faster, _) => format!("{does} less {of}: {figure}"),
        (Verdict::Same, _) => format!("{does} the same {of} within {matters}: {figure}"),
        (Verdict::NotSlower, _) => format!("{does} at most {matters} more {of}: {figure}"),
        (Verdict::CannotSay, _) => {
            format!("{does} {of} of which it cannot be said whether it is {matters} more: {figure}")
        }
    }
}

/// Sentences of the measures that do not answer.
pub fn others(outcome: &Outcome) -> Vec<String> {
    let mut all = Vec::new();
    let answered = outcome.verdict != Verdict::CannotSay;
    for finding in outcome.findings.iter().filter(|finding| finding.by != outcome.by) {
        let undecided = finding.verdict == Verdict::CannotSay;
        let figure = figure(finding.ratio, finding.interval);
        match finding.by {
            Measure::Wall if undecided && outcome.waits => {
                all.push(format!("How long it takes cannot be said on this machine yet: {figure}."))
            }
            Measure::Wall if undecided => all.push(format!(
                "By the clock that cannot be said on this machine yet ({figure}); but neither \
                 command waits by itself, so on a cpu of its own B takes as long as it costs."
            )),
            Measure::Wall => {
                let word =
                    if outcome.verdict == Verdict::Slower { "All the same it" } else { "It" };
                all.push(match finding.verdict {
                    Verdict::Slower => format!("{word} takes longer: {figure}."),
                    Verdict::Faster => format!("{word} takes less time: {figure}."),
                    _ => format!("{word} takes as long: {figure}."),
                });
            }
            // Beside an answer what is not known is not missed.
            _ if undecided && answered => {}
            Measure::Cpu if undecided => all
                .push(format!("How much processor time it costs cannot be said either: {figure}.")),
            _ if undecided => {}
            by => {
                let said =
                    costs(by, finding.verdict, finding.ratio, finding.interval, outcome.detect);
                let apart = matches!(
                    (outcome.verdict, finding.verdict),
                    (Verdict::Slower, Verdict::Faster | Verdict::Same | Verdict::NotSlower)
                        | (Verdict::Faster, Verdict::Slower | Verdict::Same)
                );
                let (word, why) = match (apart, by) {
                    (true, Measure::Cpu) => {
                        ("All the same it", ": what differs is waiting, or work on several cpus")
                    }
                    _ => ("It", ""),
                };
                all.push(format!("{word} {said}{why}."));
            }
        }
    }
    all.extend(why::sentence(outcome));
    all.extend(why::leaves(outcome));
    all
}

/// Difference between B and the B that was kept, in a sentence.
pub fn against(against: &Against, detect: f64) -> String {
    let [low, high] = against.interval;
    let figure = format!(
        "{:.3} × what it was [{low:.3}, {high:.3}] (then {:.3} × A)",
        against.ratio, against.then
    );
    let matters = percent(detect);
    match against.verdict {
        Verdict::Slower => format!("Against the one that was kept B is slower: {figure}."),
        Verdict::Faster => format!("Against the one that was kept B is faster: {figure}."),
        Verdict::Same => {
            format!("Against the one that was kept B is the same within {matters}: {figure}.")
        }
        Verdict::NotSlower => {
            format!("Against the one that was kept B is not slower by {matters}: {figure}.")
        }
        Verdict::CannotSay => format!(
            "It cannot be said whether B is slower by {matters} than the one that was kept: {figure}; \
             more pairs narrow it, here or in what was kept."
        ),
    }
}

/// Says what would clear it up, in a sentence.
pub fn remedy(clear: &Clear) -> String {
    let pairs = count(clear.pairs);
    let mut text = format!(
        "About {pairs} more pairs ({}) would tell, if the machine stays as it is",
        wait(clear.seconds)
    );
    if let Some(tells) = clear.tells {
        let _ = write!(text, "; those until now tell differences from {} on", percent(tells));
    }
    text + "."
}

/// Columns of a side.
const COLUMNS: [&str; 8] =
    ["quiet", "median", "95 % CI", "p99", "user", "kernel", "memory", "faults"];

fn cells(figures: &Figures) -> [String; 8] {
    [
        time(figures.quiet_ns),
        time(figures.median_ns),
        interval(figures.ci, Unit::Nanoseconds),
        time(figures.p99_ns),
        time(figures.cpu_ns[0]),
        time(figures.cpu_ns[1]),
        figures.max_rss_bytes.map_or("–".to_owned(), |most| bytes(most as u64)),
        number(figures.faults),
    ]
}

/// Each side's cells under the headings.
pub fn table(outcome: &Outcome) -> Option<(Vec<&'static str>, [Vec<String>; 2])> {
    let figures = outcome.figures.as_ref()?;
    let row = |name: &str, of: &Figures| {
        let mut row = vec![name.to_owned()];
        row.extend(cells(of));
        row
    };
    let mut headings = vec![""];
    headings.extend(COLUMNS);
    Some((headings, [row("A", &figures[0]), row("B", &figures[1])]))
}

/// Comment for a pull request.
pub fn markdown(outcome: &Outcome) -> String {
    let sign = match outcome.verdict {
        Verdict::Slower => "🔴",
        Verdict::CannotSay => "⚪",
        _ => "🟢",
    };
    let mut text = format!("{sign} **{}**\n\n", sentence(outcome));
    if let Some(kept) = &outcome.against {
        let _ = writeln!(text, "{}\n", against(kept, outcome.detect));
    }
    let more = others(outcome);
    if !more.is_empty() {
        let _ = writeln!(text, "{}\n", more.join(" "));
    }
    if let Some(clear) = &outcome.clear {
        let _ = writeln!(text, "{}\n", remedy(clear));
    }
    if let Some((headings, rows)) = table(outcome) {
        let _ = writeln!(text, "| {} | command |", headings.join(" | "));
        let _ = writeln!(text, "|---|{}---|", "---:|".repeat(COLUMNS.len()));
        for (row, side) in rows.iter().zip([&outcome.a, &outcome.b]) {
            // A pipe or a back-tick would end the cell.
            let command = side.command().replace('|', "\\|").replace(['`', '\n'], " ");
            let _ = writeln!(text, "| {} | `{command}` |", row.join(" | "));
        }
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "\n- {note}");
    }
    let machine = &outcome.machine;
    if !machine.cpu_model.is_empty() {
        let _ = writeln!(
            text,
            "\n<sub>{}, {} cpus, Linux {}; {}</sub>",
            machine.cpu_model, machine.cpus, machine.kernel, outcome.started
        );
    }
    text
}

fn word(by: Measure) -> &'static str {
    match by {
        Measure::Wall => "wall",
        Measure::Cpu => "cpu",
        Measure::Instructions => "instructions",
        Measure::Own => "own",
    }
}

/// Prometheus's text format (version 0.0.4).
pub fn prometheus(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(text, "# HELP kumiki_ab_{name} {help}\n# TYPE kumiki_ab_{name} gauge");
        for (labels, value) in values {
            let _ = writeln!(text, "kumiki_ab_{name}{labels} {value}");
        }
    };
    let verdicts =
        [Verdict::Slower, Verdict::Faster, Verdict::Same, Verdict::NotSlower, Verdict::CannotSay];
    let told = verdicts.map(|verdict| {
        (
            format!("{{verdict=\"{}\"}}", verdict.word()),
            f64::from(u8::from(verdict == outcome.verdict)),
        )
    });
    gauge("verdict", "1 for the verdict that was given.", &told);
    if let Some(ratio) = outcome.ratio {
        gauge("ratio", "B over A, by the measure that answers.", &[(String::new(), ratio)]);
    }
    if let Some([low, high]) = outcome.interval {
        let ends = [("{end=\"low\"}".to_owned(), low), ("{end=\"high\"}".to_owned(), high)];
        gauge("ratio_interval", "Interval of the ratio, 95 percent at any time.", &ends);
    }
    let by = |finding: &Finding| format!("{{by=\"{}\"}}", word(finding.by));
    let each: Vec<_> = outcome.findings.iter().map(|one| (by(one), one.ratio)).collect();
    if !each.is_empty() {
        gauge("measure_ratio", "B over A, by each measure.", &each);
    }
    let pairs = outcome.pairs_counted as f64;
    gauge("pairs", "Pairs that count.", &[(String::new(), pairs)]);
    let Some(figures) = &outcome.figures else { return text };
    let both = |of: fn(&Figures) -> f64| {
        ["a", "b"]
            .iter()
            .zip(figures)
            .map(|(side, f)| (format!("{{side=\"{side}\"}}"), of(f)))
            .collect::<Vec<_>>()
    };
    gauge("quiet_seconds", "Lower quartile of the wall time.", &both(|f| f.quiet_ns * 1e-9));
    gauge("median_seconds", "Median wall time.", &both(|f| f.median_ns * 1e-9));
    gauge("p99_seconds", "99th percentile of the wall time.", &both(|f| f.p99_ns * 1e-9));
    gauge("user_seconds", "Median processor time in user mode.", &both(|f| f.cpu_ns[0] * 1e-9));
    gauge("system_seconds", "Median processor time in the kernel.", &both(|f| f.cpu_ns[1] * 1e-9));
    if figures.iter().all(|f| f.max_rss_bytes.is_some()) {
        let most = both(|f| f.max_rss_bytes.unwrap_or_default());
        gauge("max_rss_bytes", "Median of the most memory.", &most);
    }
    gauge(
        "disturbed_ratio",
        "Share of runs beside which others were busy.",
        &both(|f| f.disturbed),
    );
    text
}
