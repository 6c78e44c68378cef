//! Figures 5 to 8 of Horii et al.'s paper: what so many cores do together, and how much of what
//! one does alone each does.

use kumiki_measure::schema::{Results, Row};

use super::chart::{self, ChartPoint, Series};
use super::{Line, PageFigure};
use crate::format::{number, times};
use crate::resource::{TYPES, Type, per_ms, reach};

/// Counts of cores that a line has at least: two points are no curve.
const COUNTS: usize = 3;

/// A pair of the paper's figures.
struct Pair {
    case: &'static str,
    id: &'static str,
    what: &'static str,
    /// Numbers of the figures of throughput, and of gain.
    numbers: [u8; 2],
}

const PAIRS: [Pair; 2] = [
    Pair {
        case: "resource.memory_paper",
        id: "memory",
        what: "4 KiB allocated and freed",
        numbers: [5, 6],
    },
    Pair {
        case: "resource.process_paper",
        id: "process",
        what: "a process created and deleted",
        numbers: [7, 8],
    },
];

/// Quantity that is shown.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Throughput,
    Gain,
}

/// All that the results can fill.
pub(super) fn by_cores(results: &[Results], names: &[String]) -> Vec<PageFigure> {
    let both =
        |pair| [Shown::Throughput, Shown::Gain].map(|shown| figure(pair, shown, results, names));
    PAIRS.iter().flat_map(both).flatten().collect()
}

fn figure(pair: &Pair, shown: Shown, results: &[Results], names: &[String]) -> Option<PageFigure> {
    let mut series: Vec<Series> = Vec::new();
    let mut along = "cores".to_owned();
    for (result, r) in results.iter().enumerate() {
        let who = if names.len() > 1 { format!("{}: ", names[result]) } else { String::new() };
        for (variant, one) in TYPES.into_iter().enumerate() {
            let of = Type::of(r, pair.case, one);
            let label = format!("{who}{}", of.name);
            let points = of.rows.iter();
            let points = points.filter_map(|(&cores, row)| point(&of, shown, cores, row, &label));
            let points: Vec<ChartPoint> = points.collect();
            if points.len() < COUNTS {
                continue;
            }
            if variant == 0 {
                along += &who_is_where(&of, &who);
            }
            let colour = if names.len() > 1 { result } else { variant };
            series.push(Series { label, colour, variant, points });
        }
    }
    if series.is_empty() {
        return None;
    }
    let (id, title, about, number) = match shown {
        Shown::Throughput => (
            "throughput",
            "in a millisecond",
            "how often all cores together do it in a millisecond",
            pair.numbers[0],
        ),
        Shown::Gain => (
            "gain",
            "gain a core",
            "what each core does of what one alone does: 1 where cores do not hinder each other",
            pair.numbers[1],
        ),
    };
    let title = format!("{}, {title}", pair.what);
    Some(PageFigure {
        id: format!("resource-{}-{id}", pair.id),
        caption: format!("Figure {number} of Horii et al.: {about}."),
        part: None,
        dots: false,
        svg: chart::counts(&title, &along, &series),
        title,
        lines: series.iter().map(Line::of).collect(),
    })
}

/// Number of cores from which on cpus are of another sort than a core of the first socket.
fn who_is_where(of: &Type, who: &str) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for &cores in of.rows.keys() {
        let now = reach(of, cores);
        if now != last {
            text += &format!("; {who}from {cores} on{}", now.replacen(',', "", 1));
            last = now;
        }
    }
    text
}

fn point(of: &Type, shown: Shown, cores: u64, row: &Row, label: &str) -> Option<ChartPoint> {
    let one = of.rows.get(&1)?;
    let value = |ns: f64| match shown {
        Shown::Throughput => per_ms(cores, ns),
        Shown::Gain => one.median / ns,
    };
    let mut text = vec![
        label.to_owned(),
        format!("{cores} cores{}", reach(of, cores)),
        format!("{} in a millisecond", number(per_ms(cores, row.median))),
        format!("gain a core {}", times(of.gain(cores)?)),
    ];
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    // The longest time is the least throughput.
    let ci = [value(row.ci[1]), value(row.ci[0])];
    Some(ChartPoint {
        at: cores as f64,
        value: value(row.median),
        ci,
        disturbed: row.disturbed,
        text,
    })
}
