//! Ways of doing one thing, one below the other: latency between two tasks, and
//! ways to start a program.

use kumiki_measure::schema::{Params, Results, Row, Unit, Value};

use super::chart::{self, Point, Series};
use super::{Figure, Group};
use crate::format::{self, interval, quantity, time, times};
use crate::rows;

/// Every figure of this kind that the results can fill.
pub(super) fn figures(results: &[Results], names: &[String]) -> Vec<Figure> {
    latency(results, names).into_iter().collect()
}

/// Latency of each way to talk, at its smallest message; dots by placement.
fn latency(results: &[Results], names: &[String]) -> Option<Figure> {
    let mut ways: Vec<String> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for (result, r) in results.iter().enumerate() {
        for row in smallest(r.rows.iter().filter(|row| is_latency(row)).collect()) {
            let (placement, way) = way(row);
            let at = ways.iter().position(|w| *w == way).unwrap_or_else(|| {
                ways.push(way.clone());
                ways.len() - 1
            });
            let label = match (names.len() > 1, placement.is_empty()) {
                (true, true) => names[result].clone(),
                (true, false) => format!("{}: {placement}", names[result]),
                (false, _) => placement,
            };
            let point = point(at, row, &way, &label);
            match series.iter_mut().find(|s| s.label == label) {
                Some(one) => one.points.push(point),
                None => {
                    let (colour, variant) = (series.len(), series.len());
                    series.push(Series { label, colour, variant, points: vec![point] });
                }
            }
        }
    }
    if ways.len() < 2 {
        return None;
    }
    Some(Figure {
        id: "ipc-latency".to_owned(),
        group: Group::Beyond,
        title: "latency between two tasks".to_owned(),
        caption: "Each way at its smallest message. What goes to another cpu that sleeps pays \
                  for waking it."
            .to_owned(),
        kind: "ways",
        json: chart::dots(Unit::Nanoseconds, &ways, &series),
        lines: Vec::new(),
    })
}

fn is_latency(row: &Row) -> bool {
    rows::part_of(&row.case) == "ipc" && row.unit == Unit::Nanoseconds
}

/// Of rows that differ only in their size, the one with the smallest.
fn smallest(all: Vec<&Row>) -> Vec<&Row> {
    let size = |row: &Row| rows::number(&row.params, "bytes").unwrap_or(0);
    let rest =
        |row: &Row| rows::without(&row.params, "bytes").unwrap_or_else(|| row.params.clone());
    let mut out: Vec<&Row> = Vec::new();
    for row in all {
        match out.iter_mut().find(|o| o.case == row.case && rest(o) == rest(row)) {
            Some(other) if size(row) < size(other) => *other = row,
            Some(_) => {}
            None => out.push(row),
        }
    }
    out
}

/// Where the two ends run, in words, and what is left to name the way.
fn way(row: &Row) -> (String, String) {
    let mut rest: Params = row.params.clone();
    rest.remove("bytes");
    let placement = match rest.remove("cpu") {
        Some(Value::Word(word)) => format!("{word} cpu"),
        Some(other) => format!("cpu {other}"),
        None => String::new(),
    };
    let case = row.case.strip_prefix("ipc.").unwrap_or(&row.case).replace('_', " ");
    let way = match format::params(&rest) {
        words if words.is_empty() => case,
        words => format!("{case}, {words}"),
    };
    (placement, way)
}

fn point(at: usize, row: &Row, way: &str, label: &str) -> Point {
    let mut text = vec![
        way.to_owned(),
        label.to_owned(),
        quantity(row.median, row.unit),
        format!("95 % CI {}", interval(row.ci, row.unit)),
    ];
    if let (Some(ratio), Some(ns)) = (rows::round_trips(row), row.round_trip_ns) {
        text.push(format!("{} the line's round trip of {}", times(ratio), time(ns)));
    }
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    text.retain(|line| !line.is_empty());
    Point { at: at as f64, value: row.median, ci: row.ci, disturbed: row.disturbed, text }
}
