//! Figure 7 of Nakamura's paper on parallel system calls: requests and plain
//! calls, by their number.

use std::collections::HashMap;

use indexmap::IndexMap;
use kumiki_measure::schema::{Results, Row, Unit};

use super::axis::Quantity;
use super::chart::{self, Axes, ChartPoint, Series};
use super::{Line, PageFigure};
use crate::format::{self, interval, quantity, times};
use crate::parasc::{against, measured};

/// Ways other than the engine as it is, and how their lines are named.
const BY: [(&str, &str); 2] = [("mechanism", "alone: "), ("bare threads", "bare, beside ")];
/// Processing threads of a way, at most.
const MOST: usize = 5;

/// Figures with own open files, and with one.
pub(super) fn requests(results: &[Results], names: &[String]) -> Vec<PageFigure> {
    ["own", "one"].iter().filter_map(|files| figure(results, names, files)).collect()
}

fn figure(results: &[Results], names: &[String], files: &str) -> Option<PageFigure> {
    let several = names.len() > 1;
    let mut series: IndexMap<String, Series> = IndexMap::new();
    for (result, r) in results.iter().enumerate() {
        let rows = measured(r, files, None);
        let alone = rows.iter().filter(|one| one.0 == 0);
        let plain: HashMap<u64, &Row> = alone.map(|(_, requests, row)| (*requests, *row)).collect();
        let others = BY.iter().flat_map(|(by, word)| {
            measured(r, files, Some(by)).into_iter().map(move |row| (*word, row))
        });
        let own = rows.iter().map(|row| ("", *row));
        for (by, (threads, requests, row)) in own.chain(others) {
            let way = format!("{by}{}", format::value("processing_threads", &threads.into()));
            let label = if several { format!("{}: {way}", names[result]) } else { way };
            let plain = plain.get(&requests).copied().filter(|_| threads > 0);
            let point = point(requests, row, plain, &label);
            let new = || {
                // Of each way its own lines, 0 of them the plain calls'.
                let at = BY.iter().position(|(_, word)| *word == by).map_or(0, |at| at + 1);
                let variant = MOST * at + threads as usize;
                let colour = if several { result } else { variant };
                Series { label: label.clone(), colour, variant, points: Vec::new() }
            };
            series.entry(label.clone()).or_insert_with(new).points.push(point);
        }
    }
    let mut series: Vec<Series> = series.into_values().filter(|one| one.points.len() > 1).collect();
    series.iter_mut().for_each(|one| one.points.sort_by(|a, b| a.at.total_cmp(&b.at)));
    if series.is_empty() {
        return None;
    }
    let said = results.iter().zip(names).flat_map(|(r, name)| {
        let who = if several { format!("{name}: ") } else { String::new() };
        against(r, files).into_iter().map(move |one| format!(" {who}{}", one.sentence()))
    });
    let title = format!("reads of /dev/zero, {}", format::value("files", &files.into()));
    let axes = Axes {
        along: "requests".to_owned(),
        quantity: Quantity::Count,
        values: Quantity::Measured(Unit::Nanoseconds),
        log: [true, true],
    };
    Some(PageFigure {
        id: format!("parasc-requests-{files}"),
        caption: format!(
            "Figure 7 of Nakamura: so many reads of 4096 bytes, from the first request until the \
             last result has been collected. Where nothing else is said by the engine as it is: \
             its requesting thread helps, and it makes plain calls where these have proved \
             faster. The mechanism alone is as in the paper: all calls by threads that are in \
             parasc_proc and spin, none by the requesting thread. Bare threads have a part each \
             and do nothing else: what there is to be had.{}",
            said.collect::<String>()
        ),
        part: None,
        dots: false,
        svg: chart::lines(&title, axes, &series),
        title,
        lines: series.iter().map(Line::of).collect(),
    })
}

fn point(requests: u64, row: &Row, plain: Option<&Row>, label: &str) -> ChartPoint {
    let mut text = vec![
        label.to_owned(),
        format!(
            "{}: {}",
            format::param("requests", &requests.into()),
            quantity(row.median, row.unit)
        ),
        format!("95 % CI {}", interval(row.ci, row.unit)),
    ];
    if let Some(plain) = plain {
        text.push(format!("{} plain calls", times(row.median / plain.median)));
    }
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    ChartPoint {
        at: requests as f64,
        value: row.median,
        ci: row.ci,
        disturbed: row.disturbed,
        text,
    }
}
