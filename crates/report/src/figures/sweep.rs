//! Cost against one size, a line for each result and each set of the other
//! parameters.

use std::collections::BTreeSet;

use kumiki_measure::schema::{Params, Results, Row, Slope, Unit, Value};

use super::chart::{self, Axes, Point, Series};
use super::{Figure, Group};
use crate::format::{self, interval, quantity};
use crate::rows;

/// Sizes that a case must have been measured at to get a figure unasked.
const SIZES: usize = 3;

/// A figure that this page knows.
struct Known {
    id: &'static str,
    title: &'static str,
    /// Cases, by their whole name.
    cases: &'static [&'static str],
    param: &'static str,
    /// Axis label of the size.
    axis: &'static str,
    group: Group,
    caption: &'static str,
    /// Figures that differ by orders of magnitude.
    log: bool,
}

const FORK: &[&str] = &["process.fork"];
const EXEC: &[&str] = &["process.exec"];

/// The paper's figures in its order, then ours.
const KNOWN: [Known; 8] = [
    Known {
        id: "fork-data",
        title: "fork against initialised data",
        cases: FORK,
        param: "data_bytes",
        axis: "initialised data",
        group: Group::Paper,
        caption: "Figure 3-2 of the paper. The parent forks, the child exits at once, the parent \
                  waits: one time for all three, as in the paper.",
        log: false,
    },
    Known {
        id: "fork-bss",
        title: "fork against bss",
        cases: FORK,
        param: "bss_bytes",
        axis: "bss",
        group: Group::Paper,
        caption: "Figure 3-3 of the paper. Pages of bss that were never touched do not exist yet, \
                  so fork has nothing to copy for them.",
        log: false,
    },
    Known {
        id: "fork-stack",
        title: "fork against stack",
        cases: FORK,
        param: "stack_bytes",
        axis: "stack",
        group: Group::Paper,
        caption: "Figure 3-4 of the paper.",
        log: false,
    },
    Known {
        id: "exec-data",
        title: "exec against initialised data",
        cases: EXEC,
        param: "data_bytes",
        axis: "initialised data",
        group: Group::Paper,
        caption: "Figure 4-2 of the paper. Two programs exec each other; the new one touches its \
                  data as the line says, so its page faults are part of the cost.",
        log: false,
    },
    Known {
        id: "exec-bss",
        title: "exec against bss",
        cases: EXEC,
        param: "bss_bytes",
        axis: "bss",
        group: Group::Paper,
        caption: "Figure 4-3 of the paper.",
        log: false,
    },
    Known {
        id: "exec-args",
        title: "exec against arguments",
        cases: EXEC,
        param: "args_bytes",
        axis: "arguments",
        group: Group::Paper,
        caption: "Figure 4-4 of the paper. Arguments are copied into the new address space; in \
                  1991 as today the cost is a straight line.",
        log: false,
    },
    Known {
        id: "fork-anon",
        title: "fork against resident memory",
        cases: FORK,
        param: "anon_bytes",
        axis: "anonymous memory of the parent",
        group: Group::Beyond,
        caption: "Anonymous memory, in ordinary and in huge pages. A huge page has one entry to \
                  copy where 512 ordinary ones have 512.",
        log: false,
    },
    Known {
        id: "exec-env",
        title: "exec against environment",
        cases: EXEC,
        param: "env_bytes",
        axis: "environment",
        group: Group::Beyond,
        caption: "The environment is copied as the arguments are.",
        log: false,
    },
];

/// One line of a figure.
pub(crate) struct Line {
    /// Its place in the palette.
    pub colour: usize,
    /// What is special about it.
    pub label: String,
    /// How it grows, if a slope was fitted.
    pub slope: Option<Slope>,
}

/// A line's rows before it is drawn.
struct Raw<'a> {
    result: usize,
    case: &'a str,
    rest: Params,
    rows: Vec<(u64, &'a Row)>,
}

/// Every figure that the results can fill.
pub(super) fn figures(results: &[Results], names: &[String]) -> Vec<Figure> {
    let mut out = Vec::new();
    for known in &KNOWN {
        let raws = collect(results, known.cases, known.param, Unit::Nanoseconds);
        out.extend(draw(known, raws, results, names));
    }
    out.extend(spawns(results, names));
    for (case, param, unit) in others(results) {
        let raws = collect(results, &[case], param, unit);
        let title = format!("{case} against {}", axis_label(param));
        let about = About {
            id: format!("{}-{}", case.replace('.', "-"), param.replace('_', "-")),
            title,
            caption: String::new(),
            axis: axis_label(param),
            group: Group::Other,
            unit,
            log: false,
        };
        out.extend(figure(about, raws, results, names));
    }
    out
}

/// Ways to start a program from parents of different sizes: one line a case.
fn spawns(results: &[Results], names: &[String]) -> Option<Figure> {
    let cases = distinct(results.iter().flat_map(|r| &r.rows).filter_map(|row| {
        let sized = rows::number(&row.params, "anon_bytes").is_some();
        (sized && is_spawn(&row.case)).then_some(row.case.as_str())
    }));
    let raws = collect(results, &cases, "anon_bytes", Unit::Nanoseconds);
    let about = About {
        id: "spawn-anon".to_owned(),
        title: "ways to start a program, against the parent's memory".to_owned(),
        caption: "fork copies the parent's page tables; the others borrow or skip them, so they \
                  stay flat whatever the parent's size."
            .to_owned(),
        axis: "anonymous memory of the parent".to_owned(),
        group: Group::Beyond,
        unit: Unit::Nanoseconds,
        log: true,
    };
    figure(about, raws, results, names)
}

/// Whether a case starts a program from a parent of a chosen size.
fn is_spawn(case: &str) -> bool {
    case.starts_with("process.spawn")
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut out: Vec<&str> = Vec::new();
    for name in names {
        if !out.contains(&name) {
            out.push(name);
        }
    }
    out
}

/// Cases and sizes that no known figure shows, each with at least [`SIZES`].
fn others(results: &[Results]) -> Vec<(&str, &str, Unit)> {
    let mut sweeps: Vec<((&str, &str, Unit), BTreeSet<u64>)> = Vec::new();
    for row in results.iter().flat_map(|r| &r.rows) {
        for (name, value) in &row.params {
            let Value::Number(size) = value else { continue };
            let known = KNOWN.iter().any(|k| k.cases.contains(&&*row.case) && k.param == name);
            if !name.ends_with("bytes") || known || is_spawn(&row.case) {
                continue;
            }
            let key = (row.case.as_str(), name.as_str(), row.unit);
            match sweeps.iter_mut().find(|(k, _)| *k == key) {
                Some((_, sizes)) => drop(sizes.insert(*size)),
                None => sweeps.push((key, BTreeSet::from([*size]))),
            }
        }
    }
    sweeps.retain(|(_, sizes)| sizes.len() >= SIZES);
    sweeps.into_iter().map(|(key, _)| key).collect()
}

/// Rows by line; only lines with two points or more.
fn collect<'a>(results: &'a [Results], cases: &[&str], param: &str, unit: Unit) -> Vec<Raw<'a>> {
    let mut lines: Vec<Raw<'a>> = Vec::new();
    for (result, r) in results.iter().enumerate() {
        for row in r.rows.iter().filter(|row| row.unit == unit && cases.contains(&&*row.case)) {
            let Some(size) = rows::number(&row.params, param) else {
                continue;
            };
            let Some(rest) = rows::without(&row.params, param) else {
                continue;
            };
            let same =
                |l: &&mut Raw<'_>| l.result == result && l.case == row.case && l.rest == rest;
            match lines.iter_mut().find(same) {
                Some(line) => line.rows.push((size, row)),
                None => lines.push(Raw { result, case: &row.case, rest, rows: vec![(size, row)] }),
            }
        }
    }
    lines.retain(|line| line.rows.len() > 1);
    for line in &mut lines {
        line.rows.sort_by_key(|(size, _)| *size);
    }
    lines
}

/// What a figure is, beside its lines.
struct About {
    id: String,
    title: String,
    caption: String,
    axis: String,
    group: Group,
    unit: Unit,
    log: bool,
}

fn draw(known: &Known, raws: Vec<Raw<'_>>, all: &[Results], names: &[String]) -> Option<Figure> {
    let about = About {
        id: known.id.to_owned(),
        title: known.title.to_owned(),
        caption: known.caption.to_owned(),
        axis: known.axis.to_owned(),
        group: known.group,
        unit: Unit::Nanoseconds,
        log: known.log,
    };
    figure(about, raws, all, names)
}

fn figure(
    about: About,
    raws: Vec<Raw<'_>>,
    results: &[Results],
    names: &[String],
) -> Option<Figure> {
    if raws.is_empty() {
        return None;
    }
    let param_of = |raw: &Raw<'_>| {
        let full = &raw.rows[0].1.params;
        full.keys().find(|name| !raw.rest.contains_key(*name)).cloned().unwrap_or_default()
    };
    let variants = Variants::of(&raws);
    let mut series = Vec::new();
    let mut lines = Vec::new();
    for raw in &raws {
        let variant = variants.index(raw);
        // With several results a colour is a result, else it is a variant.
        let colour = if results.len() > 1 { raw.result } else { variant };
        let mut label = variants.label(raw);
        if results.len() > 1 {
            let name = &names[raw.result];
            label = if label.is_empty() { name.clone() } else { format!("{name}: {label}") };
        }
        let points = raw.rows.iter().map(|(size, row)| point(*size, row, &label)).collect();
        let param = param_of(raw);
        let slope = results[raw.result]
            .slopes
            .iter()
            .find(|s| s.case == raw.case && s.param == param && s.params == raw.rest);
        series.push(Series { label: label.clone(), colour, variant, points });
        lines.push(Line { colour, label, slope: slope.cloned() });
    }
    let axes = Axes { size: about.axis, unit: about.unit, log: about.log };
    Some(Figure {
        id: about.id,
        group: about.group,
        title: about.title,
        caption: about.caption,
        kind: "sizes",
        json: chart::lines(&axes, &series),
        lines,
    })
}

fn point(size: u64, row: &Row, label: &str) -> Point {
    let mut text = vec![
        label.to_owned(),
        format!("{}: {}", format::bytes(size), quantity(row.median, row.unit)),
        format!("95 % CI {}", interval(row.ci, row.unit)),
        format!("p99 {}, n {}", quantity(row.p99, row.unit), format::count(row.n as u64)),
    ];
    text.retain(|line| !line.is_empty());
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    Point { at: size as f64, value: row.median, ci: row.ci, disturbed: row.disturbed, text }
}

fn axis_label(param: &str) -> String {
    match param {
        "bytes" => "size".to_owned(),
        other => format::words(other),
    }
}

/// The different (case, other parameters) of a figure's lines, and how to name
/// each: by what is not the same for all.
struct Variants<'a> {
    all: Vec<(&'a str, &'a Params)>,
}

impl<'a> Variants<'a> {
    fn of(raws: &'a [Raw<'a>]) -> Self {
        let mut all: Vec<(&str, &Params)> = Vec::new();
        for raw in raws {
            if !all.contains(&(raw.case, &raw.rest)) {
                all.push((raw.case, &raw.rest));
            }
        }
        Variants { all }
    }

    fn index(&self, raw: &Raw<'_>) -> usize {
        self.all.iter().position(|v| *v == (raw.case, &raw.rest)).unwrap_or(0)
    }

    fn label(&self, raw: &Raw<'_>) -> String {
        let mut words = Vec::new();
        if self.all.iter().any(|(case, _)| *case != raw.case) {
            words.push(raw.case.rsplit('.').next().unwrap_or(raw.case).replace('_', " "));
        }
        for (name, value) in &raw.rest {
            if self.all.iter().any(|(_, rest)| rest.get(name) != Some(value)) {
                words.push(format::param(name, value));
            }
        }
        words.join(", ")
    }
}
