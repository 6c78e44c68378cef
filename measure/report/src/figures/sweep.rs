//! Cost against one size, a line for each result and each set of the other
//! parameters.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::{IndexMap, IndexSet};
use kumiki_measure::schema::{Params, Results, Row, Slope, Unit, Value};

use super::axis::Quantity;
use super::chart::{self, Axes, ChartPoint, Series};
use super::known::{KNOWN, Known};
use super::{Line, PageFigure};
use crate::format::{self, interval, quantity};
use crate::rows;

/// Sizes that a case must have been measured at to get a figure unasked.
const SIZES: usize = 3;

/// A line's rows before it is drawn.
struct Raw<'a> {
    result: usize,
    case: &'a str,
    /// The other parameters.
    rest: Params,
    rows: Vec<(u64, &'a Row)>,
}

/// Every figure that the results can fill: the known ones, then for each part
/// the cases that were measured at [`SIZES`] sizes or more and are in none.
pub(super) fn figures(results: &[Results], names: &[String]) -> Vec<PageFigure> {
    let mut out = Vec::new();
    let slopes: Vec<Slopes<'_>> = results.iter().map(slopes).collect();
    for known in &KNOWN {
        let lines = collect(
            results.iter().enumerate().flat_map(|(at, r)| {
                r.rows.iter().filter(|row| belongs(known, row)).map(move |row| (at, row))
            }),
            known.param,
        );
        let about = About {
            id: known.id.to_owned(),
            part: None,
            title: known.title.to_owned(),
            caption: caption(known, &lines, &slopes, names),
            axes: Axes {
                along: known.axis.to_owned(),
                quantity: Quantity::Bytes,
                values: match known.against {
                    Some(_) => Quantity::Count,
                    None => Quantity::Measured(known.unit),
                },
                log: known.log,
            },
            against: known.against,
        };
        out.extend(figure(about, known.param, lines, &slopes, names));
    }
    for ((part, param, unit), Other { rows, cases }) in others(results) {
        let lines = collect(rows.into_iter(), param);
        let size = if param == "bytes" { "size".to_owned() } else { format::words(param) };
        let about = About {
            id: format!("other-{part}-{}", param.replace('_', "-")),
            part: Some(part.to_owned()),
            title: format!("{}, by {size}", rows::title_of(part)),
            caption: match cases.keys().collect::<Vec<_>>()[..] {
                [one] => format!("The case {one}."),
                _ => String::new(),
            },
            axes: Axes {
                along: size,
                quantity: Quantity::Bytes,
                values: Quantity::Measured(unit),
                log: [true, true],
            },
            against: None,
        };
        out.extend(figure(about, param, lines, &slopes, names));
    }
    out
}

/// A result's slopes: by case, parameter and the parameters that stay.
type Slopes<'a> = HashMap<(&'a str, &'a str, &'a Params), &'a Slope>;

fn slopes(results: &Results) -> Slopes<'_> {
    // Of two alike the first counts.
    let all = results.slopes.iter().rev();
    all.map(|slope| ((slope.case.as_str(), slope.param.as_str(), &slope.params), slope)).collect()
}

/// Caption: the figure's subject, the paper's finding, and the agreement of each result.
fn caption(known: &Known, lines: &[Raw<'_>], slopes: &[Slopes<'_>], names: &[String]) -> String {
    let mut text = known.caption.to_owned();
    let Some(found) = &known.found else { return text };
    text = format!("{text} {}", found.there);
    // Of lines that differ in what is done with memory, the one that does nothing.
    let untouched =
        |raw: &&Raw<'_>| raw.rest.get("touch").is_none_or(|touch| *touch == Value::from("none"));
    for (result, name) in names.iter().enumerate() {
        let own = lines.iter().filter(|raw| raw.result == result).find(untouched);
        let slope =
            own.and_then(|raw| slopes[result].get(&(raw.case, known.param, &raw.rest)).copied());
        let Some(slope) = slope else { continue };
        let here = (found.here)(slope);
        text += &if names.len() > 1 { format!(" {name}: {here}") } else { format!(" {here}") };
    }
    text
}

fn belongs(known: &Known, row: &Row) -> bool {
    let placed = known.only.is_none_or(|(name, word)| {
        row.params.get(name).is_none_or(|value| *value == Value::from(word))
    });
    (known.cases)(&row.case) && row.unit == known.unit && placed
}

/// A figure that nobody asked for: a part's cases that vary in one size.
#[derive(Default)]
struct Other<'a> {
    /// Each case with its sizes, where no known figure has them.
    cases: BTreeMap<&'a str, BTreeSet<u64>>,
    /// Rows with that size, each with the number of its result.
    rows: Vec<(usize, &'a Row)>,
}

/// Other rows of each part, parameter and unit.
fn others(results: &[Results]) -> IndexMap<(&str, &str, Unit), Other<'_>> {
    let mut out: IndexMap<(&str, &str, Unit), Other<'_>> = IndexMap::new();
    let all = results.iter().enumerate();
    for (result, row) in all.flat_map(|(at, r)| r.rows.iter().map(move |row| (at, row))) {
        for param in row.params.keys().filter(|name| rows::is_size(name)) {
            let Some(size) = rows::number(&row.params, param) else { continue };
            let other = out.entry((rows::part_of(&row.case), param, row.unit)).or_default();
            other.rows.push((result, row));
            if !KNOWN.iter().any(|known| known.param == param && belongs(known, row)) {
                other.cases.entry(&row.case).or_default().insert(size);
            }
        }
    }
    for other in out.values_mut() {
        other.cases.retain(|_, sizes| sizes.len() >= SIZES);
        other.rows.retain(|(_, row)| other.cases.contains_key(row.case.as_str()));
    }
    out
}

/// Rows with their sizes, by result, case and other parameters.
type ByLine<'a> = IndexMap<(usize, &'a str, Params), Vec<(u64, &'a Row)>>;

/// Rows by line, each given with the number of its result; only lines with two points or
/// more. A row without any size is measured once: it begins each line that differs only in
/// what is done with memory.
fn collect<'a>(rows: impl Iterator<Item = (usize, &'a Row)>, param: &str) -> Vec<Raw<'a>> {
    let mut lines: ByLine<'a> = IndexMap::new();
    let mut bases: Vec<(usize, &Row, Params)> = Vec::new();
    for (result, row) in rows {
        let Some(size) = rows::number(&row.params, param) else { continue };
        let Some(rest) = rows::without(&row.params, param) else { continue };
        if rows::size(row) == 0 {
            bases.push((result, row, rest.clone()));
        }
        lines.entry((result, &row.case, rest)).or_default().push((size, row));
    }
    let mut beginnings = HashMap::new();
    for (result, row, rest) in &bases {
        beginnings.entry((*result, rows::beginning(&row.case, rest))).or_insert(*row);
    }
    for ((result, case, rest), own) in &mut lines {
        let sized = own.iter().all(|(size, _)| *size > 0);
        let base = beginnings.get(&(*result, rows::beginning(case, rest))).filter(|_| sized);
        own.extend(base.map(|row| (0, *row)));
    }
    let raw = |((result, case, rest), rows)| Raw { result, case, rest, rows };
    let mut lines: Vec<Raw<'a>> = lines.into_iter().map(raw).collect();
    lines.retain(|line| line.rows.iter().any(|(size, _)| *size != line.rows[0].0));
    // Cases stay in their order, so that a rest of parameters has one colour in
    // every figure.
    let cases: IndexSet<&str> = lines.iter().map(|line| line.case).collect();
    lines.sort_by_cached_key(|line| {
        let values: Vec<String> = line.rest.values().map(in_order).collect();
        (line.result, cases.get_index_of(line.case), values)
    });
    for line in &mut lines {
        line.rows.sort_by_key(|(size, _)| *size);
    }
    lines
}

/// A value as text that sorts as the value does: 2 before 16.
fn in_order(value: &Value) -> String {
    match value {
        Value::Number(n) => format!("{n:020}"),
        other => other.to_string(),
    }
}

/// Description of a figure, beside its lines.
struct About {
    id: String,
    part: Option<String>,
    title: String,
    caption: String,
    axes: Axes,
    /// The parameter and word of the line by whose values all are divided.
    against: Option<(&'static str, &'static str)>,
}

fn figure(
    about: About,
    param: &str,
    raws: Vec<Raw<'_>>,
    slopes: &[Slopes<'_>],
    names: &[String],
) -> Option<PageFigure> {
    if raws.is_empty() {
        return None;
    }
    let variants = Variants::of(&raws);
    let bases = about.against.map(|against| bases(&raws, against)).unwrap_or_default();
    let (mut series, mut lines) = (Vec::new(), Vec::new());
    for raw in &raws {
        let variant = variants.index(raw);
        // With several results a colour is a result, else it is a variant.
        let several = names.len() > 1;
        let colour = if several { raw.result } else { variant };
        let label = match (several, variants.label(raw)) {
            (false, label) => label,
            (true, label) if label.is_empty() => names[raw.result].clone(),
            (true, label) => format!("{}: {label}", names[raw.result]),
        };
        let slope = slopes[raw.result].get(&(raw.case, param, &raw.rest)).copied();
        let points = raw.rows.iter().map(|(size, row)| point(*size, row, &label));
        let points: Vec<ChartPoint> = match about.against {
            None => points.collect(),
            Some((_, word)) => {
                let base = bases.get(&(raw.result, raw.case));
                points.filter_map(|point| divided(point, base?, word)).collect()
            }
        };
        // Of what has nothing to be held against there is no line.
        if points.is_empty() {
            continue;
        }
        let one = Series { label, colour, variant, points };
        lines.push(Line { slope: slope.cloned(), ..Line::of(&one) });
        series.push(one);
    }
    (!series.is_empty()).then(|| PageFigure {
        id: about.id,
        caption: about.caption,
        part: about.part,
        dots: false,
        svg: chart::lines(&about.title, about.axes, &series),
        title: about.title,
        lines,
    })
}

/// The rows of each result's and case's line that others are divided by, by their sizes.
type Bases<'a> = HashMap<(usize, &'a str), HashMap<u64, &'a Row>>;

fn bases<'a>(raws: &[Raw<'a>], (param, word): (&str, &str)) -> Bases<'a> {
    let word = Value::from(word);
    let mut bases = Bases::new();
    for raw in raws.iter().filter(|raw| raw.rest.get(param) == Some(&word)) {
        bases.entry((raw.result, raw.case)).or_insert_with(|| raw.rows.iter().copied().collect());
    }
    bases
}

/// Point as a multiple of another line's value at this size.
fn divided(point: ChartPoint, base: &HashMap<u64, &Row>, word: &str) -> Option<ChartPoint> {
    let row = base.get(&(point.at as u64))?;
    let ratio = point.value / row.median;
    let mut text = point.text;
    text.push(format!("{} {word}", format::times(ratio)));
    let ci = point.ci.map(|end| end / row.median);
    ratio.is_finite().then_some(ChartPoint { value: ratio, ci, text, ..point })
}

fn point(size: u64, row: &Row, label: &str) -> ChartPoint {
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
    ChartPoint { at: size as f64, value: row.median, ci: row.ci, disturbed: row.disturbed, text }
}

/// The different (case, other parameters) of a figure's lines, and how to name
/// each: by what is not the same for all.
struct Variants<'a> {
    all: IndexSet<(&'a str, &'a Params)>,
    /// Number of lines of each case, and number of those that have the same value of a parameter.
    lines: HashMap<&'a str, usize>,
    alike: HashMap<(&'a str, &'a str, &'a Value), usize>,
    /// Numbers of words at the beginning and at the end that all cases have in common.
    shared: [usize; 2],
}

impl<'a> Variants<'a> {
    fn of(raws: &'a [Raw<'a>]) -> Self {
        let all: IndexSet<(&str, &Params)> = raws.iter().map(|raw| (raw.case, &raw.rest)).collect();
        let (mut lines, mut alike) = (HashMap::new(), HashMap::new());
        for &(case, rest) in &all {
            *lines.entry(case).or_default() += 1;
            for (name, value) in rest {
                *alike.entry((case, name.as_str(), value)).or_default() += 1;
            }
        }
        let cases: Vec<Vec<&str>> = lines.keys().map(|case| case.split('.').collect()).collect();
        Variants { all, lines, alike, shared: shared(&cases) }
    }

    fn index(&self, raw: &Raw<'_>) -> usize {
        self.all.get_index_of(&(raw.case, &raw.rest)).unwrap_or(0)
    }

    fn label(&self, raw: &Raw<'_>) -> String {
        let mut words = Vec::new();
        if self.lines.len() > 1 {
            words.push(self.case(raw.case));
        }
        for (name, value) in &raw.rest {
            // Cases differ in which parameters they have; only values tell.
            let alike = self.alike.get(&(raw.case, name.as_str(), value));
            if alike != self.lines.get(raw.case) {
                words.push(format::param(name, value));
            }
        }
        words.join(", ")
    }

    /// A case without the words that all cases of the figure begin or end with.
    fn case(&self, case: &str) -> String {
        let own: Vec<&str> = case.split('.').collect();
        let [front, back] = self.shared;
        own[front..own.len() - back].join(" ")
    }
}

/// Numbers of words all begin with, and end with, so that each has one left.
fn shared(cases: &[Vec<&str>]) -> [usize; 2] {
    let shortest = cases.iter().map(Vec::len).min().unwrap_or(0);
    let alike = |at: &dyn Fn(&[&str]) -> usize| {
        cases.windows(2).all(|two| two[0][at(&two[0])] == two[1][at(&two[1])])
    };
    let mut front = 0;
    while front + 1 < shortest && alike(&|_| front) {
        front += 1;
    }
    let mut back = 0;
    while front + back + 1 < shortest && alike(&|words| words.len() - back - 1) {
        back += 1;
    }
    [front, back]
}

#[cfg(test)]
mod tests {
    use kumiki_measure::schema::{Machine, Run, Visit};

    use super::*;

    /// Sizes of the paper's graphs, pages of 4 KiB.
    const PAGES: [u64; 10] = [0, 16, 32, 64, 96, 128, 192, 256, 512, 1024];

    /// A result in which a case costs so much against one size, by visits that differ by a percent.
    fn result(case: &str, param: &str, cost: fn(f64) -> f64) -> Results {
        let row = |pages: u64| {
            let params = [(param.to_owned(), (pages * 4096).into())];
            let visit = |at: u64| {
                let wobble = 1.0 + 0.01 * ((at * 7 + pages) % 5) as f64 / 4.0;
                Visit { samples: vec![cost(pages as f64) * wobble; 9], ..Visit::default() }
            };
            let visits = (0..6).map(visit).collect();
            Row::summarise(case, params.into(), Unit::Nanoseconds, vec![0], visits)
        };
        Results::new(Run::default(), Machine::default(), PAGES.map(row).into(), Vec::new())
    }

    /// Programs up to 512 KB are copied whole, larger ones are not.
    fn threshold(pages: f64) -> f64 {
        if pages > 128.0 { 62e3 } else { 60e3 + 700.0 * pages }
    }

    fn grows(pages: f64) -> f64 {
        60e3 + 700.0 * pages
    }

    fn flat(_: f64) -> f64 {
        90e3
    }

    /// Data shaped as in the paper's six figures give what the paper says of them.
    #[test]
    fn the_papers_figures_give_the_papers_sentences() {
        for (id, case, param, there, systems) in [
            (
                "fork-data",
                "process.fork",
                "data_bytes",
                "a threshold at some hundred KB at which it fell steeply",
                &[
                    (
                        "SunOS 3.2",
                        threshold as fn(f64) -> f64,
                        "it falls at a threshold, as with SunOS 3.2.",
                    ),
                    ("System V R4", grows, "Here it grows."),
                    ("SunOS 4.0.3", flat, "Here as with copy-on-write."),
                ][..],
            ),
            (
                "fork-bss",
                "process.fork",
                "bss_bytes",
                "zero on SunOS 4.0.3",
                &[("SunOS 4.0.3", flat, "Here, too."), ("copied", grows, "Here it grows.")],
            ),
            (
                "fork-stack",
                "process.fork",
                "stack_bytes",
                "grew where fork copied pages",
                &[
                    ("System V R4", grows, "Here it grows."),
                    ("SunOS 4.0.3", flat, "Here as with copy-on-write."),
                ],
            ),
            (
                "exec-data",
                "process.exec",
                "data_bytes",
                "SunOS had a threshold",
                &[
                    ("SunOS 3.2", threshold, "Here there is a threshold, too, and it falls there."),
                    ("HP-UX", grows, "Here there is no threshold, and it grows."),
                    ("System V R4", flat, "Here there is neither."),
                ],
            ),
            (
                "exec-bss",
                "process.exec",
                "bss_bytes",
                "slopes were small",
                &[("SunOS 4.0.3", flat, "Here, too."), ("cleared", grows, "Here it grows.")],
            ),
            (
                "exec-args",
                "process.exec",
                "args_bytes",
                "linear on every system",
                &[
                    ("all", grows, "Here, too."),
                    ("broken", threshold, "Here there is a threshold, and no one line."),
                ],
            ),
        ] {
            for (system, cost, here) in systems {
                let results = [result(case, param, *cost)];
                let figures = figures(&results, &[(*system).to_owned()]);
                let figure = figures.iter().find(|figure| figure.id == id).expect(id);
                let caption = &figure.caption;
                assert!(caption.contains(there), "{id}: {caption}");
                assert!(
                    caption.ends_with(here),
                    "{id}, {system}: {caption} {:?}",
                    results[0].slopes
                );
            }
        }
    }
}
