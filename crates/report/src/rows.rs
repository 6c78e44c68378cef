//! Finding rows, and putting them in the order in which they are shown.

use kumiki_measure::schema::{Params, Results, Row, Slope, Unit, Value};

/// Parts in the order of the page: a case's first word, and its heading.
const PARTS: [(&str, &str); 7] = [
    ("process", "Processes"),
    ("memory", "Memory"),
    ("signal", "Signals"),
    ("file", "Files"),
    ("ipc", "Communication between processes"),
    ("thread", "Threads and scheduling"),
    ("entry", "Entering the kernel"),
];

/// The rows of one part, case by case.
pub(crate) struct Part<'a> {
    /// A case's first word; also an anchor's name.
    pub name: &'a str,
    /// Heading.
    pub title: &'a str,
    /// Rows of each case, as they were measured.
    pub cases: Vec<(&'a str, Vec<&'a Row>)>,
}

/// A case's first word.
pub(crate) fn part_of(case: &str) -> &str {
    case.split_once('.').map_or(case, |(part, _)| part)
}

/// All rows by part and case. Parts that this page does not know come last,
/// under their own name.
pub(crate) fn by_part(results: &Results) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for row in &results.rows {
        let name = part_of(&row.case);
        let at = parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
            let title = PARTS.iter().find(|(known, _)| *known == name).map_or(name, |(_, t)| t);
            parts.push(Part { name, title, cases: Vec::new() });
            parts.len() - 1
        });
        let cases = &mut parts[at].cases;
        match cases.iter_mut().find(|(case, _)| *case == row.case) {
            Some((_, rows)) => rows.push(row),
            None => cases.push((&row.case, vec![row])),
        }
    }
    for (_, rows) in parts.iter_mut().flat_map(|part| &mut part.cases) {
        rows.sort_by(|a, b| a.params.partial_cmp(&b.params).unwrap_or(std::cmp::Ordering::Equal));
    }
    let rank = |name| PARTS.iter().position(|(known, _)| *known == name).unwrap_or(PARTS.len());
    parts.sort_by_key(|part| rank(part.name));
    parts
}

/// A parameter that is a number.
pub(crate) fn number(params: &Params, name: &str) -> Option<u64> {
    match params.get(name) {
        Some(Value::Number(n)) => Some(*n),
        _ => None,
    }
}

/// Whether `params` say what `wanted` says. A switch that is not there is off,
/// a size that is not there is zero.
pub(crate) fn says(params: &Params, wanted: &[(&str, Value)]) -> bool {
    wanted.iter().all(|(name, value)| match (params.get(*name), value) {
        (Some(has), value) => has == value,
        (None, Value::Flag(false) | Value::Number(0)) => true,
        (None, _) => false,
    })
}

/// Rows of `case` that say `wanted`.
pub(crate) fn find<'a>(
    results: &'a Results,
    case: &str,
    wanted: &[(&str, Value)],
) -> impl Iterator<Item = &'a Row> {
    results.rows.iter().filter(move |row| row.case == case && says(&row.params, wanted))
}

/// The slope of `case` over `param` that says `wanted`.
pub(crate) fn slope<'a>(
    results: &'a Results,
    case: &str,
    param: &str,
    wanted: &[(&str, Value)],
) -> Option<&'a Slope> {
    let mut slopes = results.slopes.iter();
    slopes.find(|s| s.case == case && s.param == param && says(&s.params, wanted))
}

/// The rows below a slope.
pub(crate) fn below<'a>(results: &'a Results, slope: &Slope) -> Vec<&'a Row> {
    let rows = results.rows.iter().filter(|row| row.case == slope.case);
    rows.filter(|row| without(&row.params, &slope.param).as_ref() == Some(&slope.params)).collect()
}

/// `params` without `param`, if that is there and a number.
pub(crate) fn without(params: &Params, param: &str) -> Option<Params> {
    number(params, param)?;
    let mut rest = params.clone();
    rest.remove(param);
    Some(rest)
}

/// The other result's row of the same case, parameters and unit.
pub(crate) fn same<'a>(results: &'a Results, row: &Row) -> Option<&'a Row> {
    let mut rows = results.rows.iter();
    rows.find(|r| r.case == row.case && r.params == row.params && r.unit == row.unit)
}

/// A cross-core row's median as a multiple of the raw cache-line round trip
/// between its cpus.
pub(crate) fn round_trips(row: &Row) -> Option<f64> {
    let round_trip = row.round_trip_ns.filter(|ns| *ns > 0.0)?;
    (row.cpus.len() > 1 && row.unit == Unit::Nanoseconds).then(|| row.median / round_trip)
}

/// How another row's median compares with this one's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The intervals overlap: no difference is shown.
    Same,
    /// Apart, and the other is better.
    Better,
    /// Apart, and the other is worse.
    Worse,
}

/// Ratio of `other` to `base`, and what it means.
pub(crate) fn compare(base: &Row, other: &Row) -> (f64, Verdict) {
    let overlap = base.ci[0] <= other.ci[1] && other.ci[0] <= base.ci[1];
    let verdict = match (overlap, (other.median > base.median) == base.unit.less_is_better()) {
        (true, _) => Verdict::Same,
        (false, true) => Verdict::Worse,
        (false, false) => Verdict::Better,
    };
    (other.median / base.median, verdict)
}
