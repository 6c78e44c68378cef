//! Table 1 and Figure 8 of Hori et al.: what handing over costs, and what a
//! helper that waits.

use std::collections::HashMap;

use indexmap::IndexMap;
use kumiki_measure::schema::{Results, Row, Unit, Value};

use super::chart::{self, ChartPoint, Series};
use super::{Line, PageFigure};
use crate::format::{self, interval, quantity};
use crate::rows;

/// The parameter against which it is drawn.
const THRESHOLD: &str = "threshold_ticks";

/// Figure by power where any result has counted energy, else by processor time.
pub(super) fn idle(results: &[Results], names: &[String]) -> Option<PageFigure> {
    let (rows, unit, measure) = match rows(results, "shadow.idle_power") {
        rows if !rows.is_empty() => {
            (rows, Unit::Watts, "Shown is the power that the machine's energy counters tell")
        }
        _ => (
            rows(results, "shadow.idle"),
            Unit::Cpus,
            "Shown is processor time a second of waiting: no energy counter (RAPL, hwmon) could \
             be read",
        ),
    };
    let mut thresholds: Vec<&Value> = values(&rows, THRESHOLD);
    thresholds.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    thresholds.dedup();
    let caption = format!(
        "Figure 8 of Hori et al., who took the cores' temperature. A helper is left alone for \
         100 ms at a time: it spins until its threshold (at the left), then it sleeps. \
         {measure}.{}",
        doze(results, names)
    );
    let title = "what waiting costs";
    by_value("shadow-idle", title, caption, unit, (THRESHOLD, &thresholds), rows, names)
}

/// Saving of a sleep in the processor, by how long it really slept.
fn doze(results: &[Results], names: &[String]) -> String {
    const CASE: &str = "shadow.idle_doze";
    let said = |(r, name): (&Results, &String)| {
        let who = if names.len() > 1 { format!("{name}: ") } else { String::new() };
        if let Some(row) = rows::find(r, CASE, &[]).next() {
            let slept = 100.0 * (1.0 - row.median);
            return format!(
                " {who}Of a wait by UMWAIT or MWAITX the processor slept {slept:.0} %."
            );
        }
        match r.skipped.iter().any(|skipped| skipped.case == CASE) {
            true => format!(" {who}There is no sleep in the processor here (UMWAIT, MWAITX)."),
            false => String::new(),
        }
    };
    results.iter().zip(names).map(said).collect()
}

/// Table 1 as a chart: the ways to hand over nothing, the fastest first.
pub(super) fn ways(results: &[Results], names: &[String]) -> Option<PageFigure> {
    let rows = rows(results, "shadow.null");
    let mut best: IndexMap<&Value, f64> = IndexMap::new();
    for (_, row) in &rows {
        if let Some(way) = row.params.get("way") {
            let best = best.entry(way).or_insert(f64::INFINITY);
            *best = best.min(row.median);
        }
    }
    best.sort_by(|_, a, _, b| a.total_cmp(b));
    let ways: Vec<&Value> = best.into_keys().collect();
    let caption = "From a thread’s start to its end, when it does nothing: a helper that waits \
                   awake, one that must be woken, and a thread that is made each time. Table 1 of \
                   Hori et al.; ucontext stays on its cpu."
        .to_owned();
    let (title, unit) = ("handing over nothing", Unit::Nanoseconds);
    by_value("shadow-ways", title, caption, unit, ("way", &ways), rows.clone(), names)
}

/// Rows of a case, each with the number of its result.
fn rows<'a>(results: &'a [Results], case: &str) -> Vec<(usize, &'a Row)> {
    let all = results.iter().enumerate();
    all.flat_map(|(at, r)| rows::find(r, case, &[]).map(move |row| (at, row))).collect()
}

fn values<'a>(rows: &[(usize, &'a Row)], param: &str) -> Vec<&'a Value> {
    rows.iter().filter_map(|(_, row)| row.params.get(param)).collect()
}

/// Dots of rows by one parameter's values, from the top in their order.
fn by_value(
    id: &str,
    title: &str,
    caption: String,
    unit: Unit,
    (param, values): (&str, &[&Value]),
    rows: Vec<(usize, &Row)>,
    names: &[String],
) -> Option<PageFigure> {
    if values.is_empty() {
        return None;
    }
    let places: HashMap<&Value, usize> =
        values.iter().enumerate().map(|(at, value)| (*value, at)).collect();
    let mut series: Vec<Series> = Vec::new();
    for (result, row) in rows {
        let at = *row.params.get(param).and_then(|value| places.get(value))?;
        // One result needs no name.
        let label = if names.len() > 1 { names[result].clone() } else { String::new() };
        let point = point(at, row, &label);
        match series.iter_mut().find(|one| one.colour == result) {
            Some(one) => one.points.push(point),
            None => {
                series.push(Series { label, colour: result, variant: result, points: vec![point] });
            }
        }
    }
    let said: Vec<String> = values.iter().map(|value| format::value(param, value)).collect();
    Some(PageFigure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption,
        part: None,
        dots: true,
        svg: chart::dots(title, unit, &said, &series),
        lines: series.iter().map(Line::of).collect(),
    })
}

fn point(at: usize, row: &Row, label: &str) -> ChartPoint {
    let mut text = vec![
        label.to_owned(),
        format::params(&row.params),
        quantity(row.median, row.unit),
        format!("95 % CI {}", interval(row.ci, row.unit)),
    ];
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    text.retain(|line| !line.is_empty());
    ChartPoint { at: at as f64, value: row.median, ci: row.ci, disturbed: row.disturbed, text }
}
