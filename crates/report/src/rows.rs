//! Finding rows, and putting them in the order in which they are shown.

use kumiki_measure::schema::{Params, Results, Row, Slope, Unit, Value};

/// Parts in the order of the page: a case's first word, and its heading.
const PARTS: [(&str, &str); 10] = [
    ("process", "Processes"),
    ("memory", "Memory"),
    ("signal", "Signals"),
    ("file", "Files"),
    ("ipc", "Communication between processes"),
    ("thread", "Threads and scheduling"),
    ("entry", "Entering the kernel"),
    ("shadow", "Shadow threads"),
    ("parasc", "Parallel system calls"),
    ("resource", "Resources owned per core"),
];

/// The rows of one part, case by case.
pub(crate) struct Part<'a> {
    /// A case's first word; also an anchor's name.
    pub name: &'a str,
    /// Heading.
    pub title: &'a str,
    /// Rows of each case: those that vary in the same size together.
    pub cases: Vec<(&'a str, Vec<&'a Row>)>,
}

/// A case's first word.
pub(crate) fn part_of(case: &str) -> &str {
    case.split_once('.').map_or(case, |(part, _)| part)
}

/// A part's heading; its own name where this page does not know it.
pub(crate) fn title_of(part: &str) -> &str {
    PARTS.iter().find(|(known, _)| *known == part).map_or(part, |(_, title)| title)
}

/// All rows by part and case. Parts that this page does not know come last,
/// under their own name.
pub(crate) fn by_part(results: &Results) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for row in &results.rows {
        let name = part_of(&row.case);
        let at = parts.iter().position(|part| part.name == name).unwrap_or_else(|| {
            let title = title_of(name);
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
        rows.sort_by_key(|row| order(row));
    }
    parts.sort_by_key(|part| rank(part.name));
    parts
}

/// A part's place on the page.
pub(crate) fn rank(part: &str) -> usize {
    PARTS.iter().position(|(known, _)| *known == part).unwrap_or(PARTS.len())
}

/// Parameters that say what is done with memory, and nothing where there is
/// none: one row of size zero serves all their values.
const TREATMENT: [&str; 2] = ["touch", "huge"];

/// Whether a parameter is a size.
pub(crate) fn is_size(name: &str) -> bool {
    name.ends_with("bytes")
}

/// Sum of the sizes that a row asks for.
pub(crate) fn size(row: &Row) -> u64 {
    let sizes = row.params.keys().filter(|name| is_size(name));
    sizes.filter_map(|name| number(&row.params, name)).fold(0, u64::saturating_add)
}

/// Whether `row`, one without any size, is where the line of `param` with the
/// other parameters `rest` begins.
pub(crate) fn begins(row: &Row, param: &str, rest: &Params) -> bool {
    let Some(own) = without(&row.params, param) else {
        return false;
    };
    let treatment = |name: &String| TREATMENT.contains(&name.as_str());
    size(row) == 0
        && own.keys().eq(rest.keys())
        && own.iter().all(|(name, value)| treatment(name) || rest.get(name) == Some(value))
}

/// A row's place among those of its case: what varies if it has several sizes,
/// then how, then how much.
fn order(row: &Row) -> (Vec<&str>, Vec<String>, Vec<u64>) {
    let numbers: Vec<(&str, u64)> = row
        .params
        .keys()
        .filter_map(|name| Some((name.as_str(), number(&row.params, name)?)))
        .collect();
    let several = numbers.iter().filter(|(name, _)| is_size(name)).count() > 1;
    let varies = numbers.iter().filter(|(name, n)| several && is_size(name) && *n > 0);
    let words = row.params.values().filter(|value| !matches!(value, Value::Number(_)));
    (
        varies.map(|(name, _)| *name).collect(),
        words.map(Value::to_string).collect(),
        numbers.iter().map(|(_, n)| *n).collect(),
    )
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

/// The first row of `case` that says `wanted`.
pub(crate) fn row<'a>(
    results: &'a Results,
    case: &str,
    wanted: &[(&str, Value)],
) -> Option<&'a Row> {
    find(results, case, wanted).next()
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
