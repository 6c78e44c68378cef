//! Cost against one size, a line for each result and each set of the other
//! parameters.

use std::collections::{BTreeMap, BTreeSet};

use kumiki_measure::schema::{Params, Results, Row, Unit, Value};

use super::axis::Quantity;
use super::chart::{self, Axes, Point, Series};
use super::known::{KNOWN, Known};
use super::{Figure, Line};
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
pub(super) fn figures(results: &[Results], names: &[String]) -> Vec<Figure> {
    let mut out = Vec::new();
    for known in &KNOWN {
        let lines = collect(results, known.param, |row| belongs(known, row));
        let about = About {
            id: known.id.to_owned(),
            title: known.title.to_owned(),
            caption: caption(known, &lines, results, names),
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
        out.extend(figure(about, known.param, lines, results, names));
    }
    for Other { part, param, unit, cases } in others(results) {
        let wanted = |row: &Row| row.unit == unit && cases.contains_key(row.case.as_str());
        let lines = collect(results, param, wanted);
        let size = if param == "bytes" { "size".to_owned() } else { format::words(param) };
        let about = About {
            id: format!("other-{part}-{}", param.replace('_', "-")),
            title: format!("{}, by {size}", rows::title_of(part)),
            caption: match cases.keys().collect::<Vec<_>>().as_slice() {
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
        out.extend(figure(about, param, lines, results, names));
    }
    out
}

/// What a figure shows, what the paper found there, and whether each result agrees.
fn caption(known: &Known, lines: &[Raw<'_>], results: &[Results], names: &[String]) -> String {
    let mut text = known.caption.to_owned();
    let Some(found) = &known.found else { return text };
    text = format!("{text} {}", found.there);
    // Of lines that differ in what is done with memory, the one that does nothing.
    let untouched =
        |raw: &&Raw<'_>| raw.rest.get("touch").is_none_or(|touch| *touch == Value::from("none"));
    for (result, name) in names.iter().enumerate() {
        let own = lines.iter().filter(|raw| raw.result == result).find(untouched);
        let slope = own.and_then(|raw| {
            let mut slopes = results[result].slopes.iter();
            slopes.find(|s| s.case == raw.case && s.param == known.param && s.params == raw.rest)
        });
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
struct Other<'a> {
    part: &'a str,
    param: &'a str,
    unit: Unit,
    /// Each case with its sizes.
    cases: BTreeMap<&'a str, BTreeSet<u64>>,
}

fn others(results: &[Results]) -> Vec<Other<'_>> {
    let mut out: Vec<Other<'_>> = Vec::new();
    for row in results.iter().flat_map(|r| &r.rows) {
        for param in row.params.keys().filter(|name| rows::is_size(name)) {
            let Some(size) = rows::number(&row.params, param) else { continue };
            if KNOWN.iter().any(|known| known.param == param && belongs(known, row)) {
                continue;
            }
            let (part, unit) = (rows::part_of(&row.case), row.unit);
            let same = |o: &Other<'_>| (o.part, o.param, o.unit) == (part, param.as_str(), unit);
            let at = out.iter().position(same).unwrap_or_else(|| {
                out.push(Other { part, param, unit, cases: BTreeMap::new() });
                out.len() - 1
            });
            out[at].cases.entry(&row.case).or_default().insert(size);
        }
    }
    for other in &mut out {
        other.cases.retain(|_, sizes| sizes.len() >= SIZES);
    }
    out
}

/// Rows by line; only lines with two points or more. A row without any size is
/// measured once: it begins each line that differs only in what is done with
/// memory.
fn collect<'a>(results: &'a [Results], param: &str, wanted: impl Fn(&Row) -> bool) -> Vec<Raw<'a>> {
    let mut lines: Vec<Raw<'a>> = Vec::new();
    for (result, r) in results.iter().enumerate() {
        let first = lines.len();
        let rows = || r.rows.iter().filter(|row| wanted(row));
        for row in rows() {
            let Some(size) = rows::number(&row.params, param) else {
                continue;
            };
            let Some(rest) = rows::without(&row.params, param) else {
                continue;
            };
            let same = |l: &&mut Raw<'_>| l.case == row.case && l.rest == rest;
            match lines[first..].iter_mut().find(same) {
                Some(line) => line.rows.push((size, row)),
                None => lines.push(Raw { result, case: &row.case, rest, rows: vec![(size, row)] }),
            }
        }
        for line in &mut lines[first..] {
            let sized = line.rows.iter().all(|(size, _)| *size > 0);
            let begins = |row: &&Row| row.case == line.case && rows::begins(row, param, &line.rest);
            if let Some(base) = rows().find(begins).filter(|_| sized) {
                line.rows.push((0, base));
            }
        }
    }
    lines.retain(|line| line.rows.iter().any(|(size, _)| *size != line.rows[0].0));
    // Cases stay in their order, so that a rest of parameters has one colour in
    // every figure.
    let cases: Vec<&str> = lines.iter().map(|line| line.case).collect();
    lines.sort_by_key(|line| {
        let values: Vec<String> = line.rest.values().map(in_order).collect();
        (line.result, cases.iter().position(|case| *case == line.case), values)
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

/// What a figure is, beside its lines.
struct About {
    id: String,
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
    results: &[Results],
    names: &[String],
) -> Option<Figure> {
    if raws.is_empty() {
        return None;
    }
    let variants = Variants::of(&raws);
    let (mut series, mut lines) = (Vec::new(), Vec::new());
    for raw in &raws {
        let variant = variants.index(raw);
        // With several results a colour is a result, else it is a variant.
        let several = results.len() > 1;
        let colour = if several { raw.result } else { variant };
        let label = match (several, variants.label(raw)) {
            (false, label) => label,
            (true, label) if label.is_empty() => names[raw.result].clone(),
            (true, label) => format!("{}: {label}", names[raw.result]),
        };
        let mut slopes = results[raw.result].slopes.iter();
        let slope = slopes.find(|s| s.case == raw.case && s.param == param && s.params == raw.rest);
        let points = raw.rows.iter().map(|(size, row)| point(*size, row, &label));
        let points: Vec<Point> = match about.against {
            None => points.collect(),
            Some((param, word)) => {
                let base = raws.iter().find(|other| {
                    other.result == raw.result
                        && other.case == raw.case
                        && other.rest.get(param) == Some(&Value::from(word))
                });
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
    (!series.is_empty()).then(|| Figure {
        id: about.id,
        caption: about.caption,
        dots: false,
        svg: chart::lines(&about.title, about.axes, &series),
        title: about.title,
        lines,
    })
}

/// The same as a multiple of another line's value at this size.
fn divided(point: Point, base: &Raw<'_>, word: &str) -> Option<Point> {
    let (_, row) = base.rows.iter().find(|(size, _)| *size as f64 == point.at)?;
    let ratio = point.value / row.median;
    let mut text = point.text;
    text.push(format!("{} {word}", format::times(ratio)));
    let ci = point.ci.map(|end| end / row.median);
    ratio.is_finite().then_some(Point { value: ratio, ci, text, ..point })
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
            words.push(self.case(raw.case));
        }
        for (name, value) in &raw.rest {
            // Cases differ in which parameters they have; only values tell.
            let differs =
                |(case, rest): &(&str, &Params)| *case == raw.case && rest.get(name) != Some(value);
            if self.all.iter().any(differs) {
                words.push(format::param(name, value));
            }
        }
        words.join(", ")
    }

    /// A case without the words that all cases of the figure begin or end with.
    fn case(&self, case: &str) -> String {
        let cases: Vec<Vec<&str>> = self.all.iter().map(|(c, _)| c.split('.').collect()).collect();
        let own: Vec<&str> = case.split('.').collect();
        let same = |at: &dyn Fn(&[&str]) -> Option<String>| cases.iter().all(|c| at(c) == at(&own));
        let shortest = cases.iter().map(Vec::len).min().unwrap_or(0);
        let mut front = 0;
        while front + 1 < shortest && same(&|c| c.get(front).map(|w| (*w).to_owned())) {
            front += 1;
        }
        let mut back = 0;
        while front + back + 1 < shortest
            && same(&|c| c.len().checked_sub(back + 1).map(|i| c[i].to_owned()))
        {
            back += 1;
        }
        own[front..own.len() - back].join(" ")
    }
}
