//! Ways of doing one thing, one below the other.

use indexmap::IndexMap;
use kumiki_measure::schema::{Params, Results, Row, Unit, Value};

use super::chart::{self, ChartPoint, Series};
use super::{Line, PageFigure};
use crate::format::{self, interval, quantity, times};
use crate::rows;

/// Parts whose operations without a size are shown side by side, with a heading.
const PARTS: [(&str, &str); 5] = [
    ("process", "programs side by side"),
    ("memory", "page faults"),
    ("file", "calls on files"),
    ("signal", "ways to use a signal"),
    ("entry", "calls that do next to nothing"),
];

/// Every figure of this kind that the results can fill.
pub(super) fn figures(results: &[Results], names: &[String]) -> Vec<PageFigure> {
    let mut out: Vec<PageFigure> = latency(results, names).into_iter().collect();
    for (part, title) in PARTS {
        let wanted = |row: &Row| {
            let sized = row.params.keys().any(|name| rows::is_size(name));
            rows::part_of(&row.case) == part && row.unit == Unit::Nanoseconds && !sized
        };
        let rows = each(results, |r| r.rows.iter().filter(|row| wanted(row)).collect());
        out.extend(figure(&format!("ways-{part}"), title, "", rows, names));
    }
    out
}

/// Round trip of each way to talk, at its smallest message; dots by placement.
fn latency(results: &[Results], names: &[String]) -> Option<PageFigure> {
    let rows =
        each(results, |r| smallest(r.rows.iter().filter(|row| is_round_trip(row)).collect()));
    let caption = "There and back, each way at its smallest message. Who sleeps on another cpu \
                   must be woken, twice a round trip.";
    figure("round-trips", "round trip between two tasks", caption, rows, names)
}

/// Rows, each with the number of its result.
fn each<'a>(
    results: &'a [Results],
    of: impl Fn(&'a Results) -> Vec<&'a Row>,
) -> Vec<(usize, &'a Row)> {
    let all = results.iter().enumerate();
    all.flat_map(|(result, r)| of(r).into_iter().map(move |row| (result, row))).collect()
}

fn figure(
    id: &str,
    title: &str,
    caption: &str,
    rows: Vec<(usize, &Row)>,
    names: &[String],
) -> Option<PageFigure> {
    // Fastest first, by the fastest placement.
    let mut ways: IndexMap<String, f64> = IndexMap::new();
    for (_, row) in &rows {
        let (_, name) = way(row);
        let best = ways.entry(name).or_insert(row.median);
        *best = best.min(row.median);
    }
    if ways.len() < 2 {
        return None;
    }
    ways.sort_by(|_, a, _, b| a.total_cmp(b));

    let placed = rows.iter().any(|(_, row)| row.params.contains_key("cpu"));
    let mut series: IndexMap<String, Series> = IndexMap::new();
    for (result, row) in rows {
        let (placement, way) = way(row);
        let placement = match placement.is_empty() && placed {
            true => "one thread".to_owned(),
            false => placement,
        };
        let label = match (names.len() > 1, placement.is_empty()) {
            (true, true) => names[result].clone(),
            (true, false) => format!("{}: {placement}", names[result]),
            (false, _) => placement,
        };
        let at = ways.get_index_of(&way).unwrap_or_default();
        let point = point(at, row, &way, &label);
        let place = series.len();
        let new = || Series { label: label.clone(), colour: place, variant: place, points: vec![] };
        series.entry(label.clone()).or_insert_with(new).points.push(point);
    }
    let ways: Vec<String> = ways.into_keys().collect();
    let series: Vec<Series> = series.into_values().collect();
    Some(PageFigure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        part: None,
        dots: true,
        svg: chart::dots(title, Unit::Nanoseconds, &ways, &series),
        lines: series.iter().map(Line::of).collect(),
    })
}

/// Round trips of processes, and those of two threads beside them.
fn is_round_trip(row: &Row) -> bool {
    let process = row.case.starts_with("ipc.") && row.case.ends_with(".latency");
    let thread = ["thread.wake.round_trip", "thread.condvar"].contains(&row.case.as_str());
    (process || thread) && row.unit == Unit::Nanoseconds
}

/// Keeps, of rows that differ only in their size, the one with the smallest.
fn smallest(all: Vec<&Row>) -> Vec<&Row> {
    let size = |row: &Row| rows::number(&row.params, "bytes").unwrap_or(0);
    let rest =
        |row: &Row| rows::without(&row.params, "bytes").unwrap_or_else(|| row.params.clone());
    let mut out: IndexMap<(&str, Params), &Row> = IndexMap::new();
    for row in all {
        let least = out.entry((&row.case, rest(row))).or_insert(row);
        if size(row) < size(least) {
            *least = row;
        }
    }
    out.into_values().collect()
}

/// Relation of the two ends, in words, and the rest of the row that names the way.
fn way(row: &Row) -> (String, String) {
    let mut rest: Params = row.params.clone();
    rest.remove("bytes");
    let placement = match rest.remove("cpu") {
        Some(cpu) => format::param("cpu", &cpu),
        None => String::new(),
    };
    let case = match row.case.as_str() {
        "thread.wake.round_trip" => "futex, threads",
        "thread.condvar" => "condvar, threads",
        other => other.split_once('.').map_or(other, |(_, rest)| rest).trim_end_matches(".latency"),
    };
    let case = case.replace(['_', '.'], " ");
    // A word says enough without its parameter's name.
    let words = rest.iter().map(|(name, value)| match value {
        Value::Word(_) => format::value(name, value),
        _ => format::param(name, value),
    });
    let way = [case].into_iter().chain(words).collect::<Vec<_>>().join(", ");
    (placement, way)
}

fn point(at: usize, row: &Row, way: &str, label: &str) -> ChartPoint {
    let mut text = vec![
        way.to_owned(),
        label.to_owned(),
        quantity(row.median, row.unit),
        format!("95 % CI {}", interval(row.ci, row.unit)),
    ];
    if let Some(ratio) = rows::round_trips(row) {
        text.push(format!("{} the cache line’s round trip", times(ratio)));
    }
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    text.retain(|line| !line.is_empty());
    ChartPoint { at: at as f64, value: row.median, ci: row.ci, disturbed: row.disturbed, text }
}
