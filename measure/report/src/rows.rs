//! Finding rows, and putting them in the order in which they are shown.

use std::collections::HashMap;

use indexmap::IndexMap;
pub(crate) use kumiki_measure::format::is_size;
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
    let mut by_case: IndexMap<&str, IndexMap<&str, Vec<&Row>>> = IndexMap::new();
    for row in &results.rows {
        let cases = by_case.entry(part_of(&row.case)).or_default();
        cases.entry(&row.case).or_default().push(row);
    }
    let mut parts: Vec<Part<'_>> = by_case
        .into_iter()
        .map(|(name, cases)| Part {
            name,
            title: title_of(name),
            cases: cases.into_iter().collect(),
        })
        .collect();
    for (_, rows) in parts.iter_mut().flat_map(|part| &mut part.cases) {
        rows.sort_by_cached_key(|row| order(row));
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

/// Sum of the sizes that a row asks for.
pub(crate) fn size(row: &Row) -> u64 {
    let sizes = row.params.keys().filter(|name| is_size(name));
    sizes.filter_map(|name| number(&row.params, name)).fold(0, u64::saturating_add)
}

/// Common to a row without any size and the lines that begin there: the case, and the
/// parameters but for how memory is treated.
pub(crate) type Beginning<'a> = (&'a str, Vec<(&'a str, Option<&'a Value>)>);

/// Beginning of a line whose rows share `rest`, or of a row whose parameters but for the line's are
/// these.
pub(crate) fn beginning<'a>(case: &'a str, rest: &'a Params) -> Beginning<'a> {
    let treatment = |name: &String| TREATMENT.contains(&name.as_str());
    let value = |(name, value)| (String::as_str(name), (!treatment(name)).then_some(value));
    (case, rest.iter().map(value).collect())
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

/// True if `params` say what `wanted` says. A switch that is not there is off, a size that is not
/// there is zero.
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

/// A result's rows by what tells them from each other.
pub(crate) struct Rows<'a>(HashMap<(&'a str, &'a Params, Unit), &'a Row>);

impl<'a> Rows<'a> {
    /// Finds the rows of a result by their names; of a row that is there twice the first counts.
    pub(crate) fn of(results: &'a Results) -> Self {
        let mut rows = HashMap::with_capacity(results.rows.len());
        for row in &results.rows {
            rows.entry((row.case.as_str(), &row.params, row.unit)).or_insert(row);
        }
        Rows(rows)
    }

    /// The row of the same case, parameters and unit.
    pub(crate) fn same(&self, row: &Row) -> Option<&'a Row> {
        self.0.get(&(row.case.as_str(), &row.params, row.unit)).copied()
    }
}

/// A cross-core row's median as a multiple of the raw cache-line round trip
/// between its cpus.
pub(crate) fn round_trips(row: &Row) -> Option<f64> {
    let round_trip = row.round_trip_ns.filter(|ns| *ns > 0.0)?;
    (row.cpus.len() > 1 && row.unit == Unit::Nanoseconds).then(|| row.median / round_trip)
}

/// True if a matrix of so many cells may be drawn for so few rows: of one that is hardly filled the
/// tables of all rows say as much, and it would be as large as the rows' square.
pub(crate) fn fills(rows: usize, [columns, lines]: [usize; 2]) -> bool {
    const SMALL: usize = 1024;
    const EMPTY: usize = 16;
    columns.saturating_mul(lines) <= rows.saturating_mul(EMPTY).saturating_add(SMALL)
}

/// Comparison of another row's median with this one's.
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
