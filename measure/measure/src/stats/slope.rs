//! Which rows lie on one line.

use std::collections::HashMap;

use super::line::{self, Point};
use crate::moves;
use crate::schema::{FLAT, Jump, Params, Row, Slope, Trend, Unit, Value};

/// Bytes of the page that slopes are stated for, whatever the machine's own.
pub const PAGE_BYTES: f64 = 4096.0;

/// Half of an interval of 95 %, in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// Distinct sizes that a line needs.
const SIZES: usize = 3;

/// Pages between the smallest and the largest size. A narrower sweep shows the
/// cost of a few cache lines, not of pages.
const SPAN_PAGES: f64 = 16.0;

/// Parameters that say what is done with memory, and nothing where there is
/// none: one row of size zero serves all their values.
const TREATMENT: [&str; 2] = ["touch", "huge"];

/// Every slope that these rows hold: for each case in nanoseconds and each of
/// its parameters named `…bytes`, the rows that share all other parameters
/// lie on one line, if they have three sizes over at least 16 pages.
///
/// A row whose sizes are all zero is measured once and not for every `touch`
/// and `huge`; it is the zero point of each line of its case that has none of
/// its own and whose other sizes are zero.
pub fn slopes(rows: &[Row]) -> Vec<Slope> {
    let mut groups: Vec<(LineParams<'_>, Vec<&Row>)> = Vec::new();
    let mut index = HashMap::new();
    for row in rows.iter().filter(|row| row.unit == Unit::Nanoseconds) {
        for param in row.params.keys().filter(|name| is_size(name)) {
            let line = LineParams::through(row, param);
            let at = *index.entry(line.identity()).or_insert(groups.len());
            if at == groups.len() {
                groups.push((line, Vec::new()));
            }
            groups[at].1.push(row);
        }
    }
    let bases = Bases::of(rows);
    groups.into_iter().filter_map(|(line, rows)| line.slope(rows, &bases)).collect()
}

fn is_size(name: &str) -> bool {
    name.ends_with("bytes")
}

fn size(row: &Row, param: &str) -> Option<f64> {
    match row.params.get(param) {
        Some(Value::Number(bytes)) => Some(*bytes as f64),
        _ => None,
    }
}

/// True if a row has sizes, all of them zero.
fn is_base(row: &Row) -> bool {
    let mut sizes = row.params.keys().filter(|name| is_size(name)).peekable();
    row.unit == Unit::Nanoseconds
        && sizes.peek().is_some()
        && sizes.all(|param| size(row, param) == Some(0.0))
}

/// Rows without any size, each by what the lines that begin there share.
struct Bases<'a>(HashMap<Shared<'a>, &'a Row>);

/// A case, the parameter that grows, and the others but for the values of [`TREATMENT`].
type Shared<'a> = (&'a str, &'a str, Vec<(&'a str, Option<&'a Value>)>);

impl<'a> Bases<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let mut bases = HashMap::new();
        for row in rows.iter().filter(|row| is_base(row)) {
            for param in row.params.keys().filter(|name| is_size(name)) {
                bases.entry(shared(&row.case, param, &row.params)).or_insert(row);
            }
        }
        Bases(bases)
    }

    /// Row at which a line begins, if there is one.
    fn of_line(&self, line: &LineParams<'_>) -> Option<&'a Row> {
        self.0.get(&shared(line.case, line.param, &line.fixed)).copied()
    }
}

fn shared<'a>(case: &'a str, param: &'a str, params: &'a Params) -> Shared<'a> {
    let others = params.iter().filter(|(name, _)| *name != param);
    let value = |(name, value): (&'a String, &'a Value)| {
        (name.as_str(), (!TREATMENT.contains(&name.as_str())).then_some(value))
    };
    (case, param, others.map(value).collect())
}

/// Parameters that the rows of one line share.
struct LineParams<'a> {
    case: &'a str,
    param: &'a str,
    fixed: Params,
}

impl<'a> LineParams<'a> {
    fn through(row: &'a Row, param: &'a str) -> Self {
        let mut fixed = row.params.clone();
        fixed.remove(param);
        LineParams { case: &row.case, param, fixed }
    }

    /// Key of the line; the words of a parameter's value do not collide with numbers.
    fn identity(&self) -> String {
        format!("{}\0{}\0{:?}", self.case, self.param, self.fixed)
    }

    fn slope(self, mut rows: Vec<&'a Row>, bases: &Bases<'a>) -> Option<Slope> {
        if rows.iter().all(|row| size(row, self.param) != Some(0.0)) {
            rows.extend(bases.of_line(&self));
        }
        let points: Vec<Point> = rows.iter().filter_map(|row| point(row, self.param)).collect();
        let mut sizes: Vec<f64> = points.iter().map(|point| point.pages).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        if sizes.len() < SIZES || sizes[sizes.len() - 1] - sizes[0] < SPAN_PAGES {
            return None;
        }
        let line = line::line(&points)?;
        // The core's clock moves all points together: the line does not show it.
        let wander = rows.iter().map(|row| row.wander).fold(0.0, f64::max);
        let ci = widened(&line, wander);
        let by_size = |a: &&Point, b: &&Point| a.pages.total_cmp(&b.pages);
        let (smallest, largest) = (points.iter().min_by(by_size)?, points.iter().max_by(by_size)?);
        let span = largest.pages - smallest.pages;
        let cpus = rows.iter().map(|row| row.cpus.len()).max();
        // Beyond what is called flat and what a row moves by from run to run.
        let clear = (1.0 + FLAT)
            * (HALF_WIDTH * moves::of_a_pair(self.case, moves::Span::of(cpus.unwrap_or(1)))).exp();
        Some(Slope {
            case: self.case.to_owned(),
            param: self.param.to_owned(),
            params: self.fixed,
            ns_per_page: line.ns_per_page,
            ci,
            trend: trend(ci, span, [smallest, largest], clear, line.knee),
            base_ns: line.base_ns,
            r2: line.r2,
            knee_bytes: line.knee.map(|knee| (knee.pages * PAGE_BYTES).round() as u64),
            ns_per_page_beyond: line.knee.map(|knee| knee.ns_per_page),
            jump: line.knee.and_then(|knee| knee.jump).map(|jump| Jump {
                until_bytes: (jump.until * PAGE_BYTES).round() as u64,
                ns: jump.ns,
            }),
        })
    }
}

/// The slope's interval with a relative error that moves all points together.
/// A slope may be zero or negative: squares add on a plain scale.
fn widened(line: &line::Line, wander: f64) -> [f64; 2] {
    let further = wander * line.ns_per_page;
    let half = (line.ci[1] - line.ns_per_page).hypot(further);
    [line.ns_per_page - half, line.ns_per_page + half]
}

/// Judges how a cost changes: by the interval of its slope, over a span of so many pages, and
/// by the costs at both ends of the span, whose intervals are apart by the factor `clear`. Of a
/// line that breaks, the part below the knee is not the whole: it is never called flat, and beyond
/// a jump it may be anything.
fn trend(
    [low, high]: [f64; 2],
    span: f64,
    ends: [&Point; 2],
    clear: f64,
    knee: Option<line::Knee>,
) -> Trend {
    let [smallest, largest] = ends;
    let within = |slope: f64| (slope * span).abs() <= FLAT * smallest.ns;
    let apart = |below: f64, above: f64| above > below * clear;
    let whole = knee.is_none_or(|knee| knee.jump.is_none());
    match () {
        () if low > 0.0 && whole => Trend::Grows,
        () if high < 0.0 && whole => Trend::Falls,
        () if within(low) && within(high) && knee.is_none() => Trend::Flat,
        () if apart(smallest.ci[1], largest.ci[0]) => Trend::Grows,
        () if apart(largest.ci[1], smallest.ci[0]) => Trend::Falls,
        () => Trend::Unclear,
    }
}

fn point(row: &Row, param: &str) -> Option<Point> {
    Some(Point { pages: size(row, param)? / PAGE_BYTES, ns: row.median, ci: row.ci })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Visit;

    const MIB: u64 = 1 << 20;

    fn row(case: &str, params: &[(&str, Value)], ns: f64) -> Row {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let visit = Visit { samples: vec![ns; 9], ..Visit::default() };
        Row::summarise(case, params.collect(), Unit::Nanoseconds, vec![0], vec![visit])
    }

    fn fork(data: u64, bss: u64, touch: &str, huge: bool, ns: f64) -> Row {
        let params = [
            ("data_bytes", data.into()),
            ("bss_bytes", bss.into()),
            ("touch", touch.into()),
            ("huge", huge.into()),
        ];
        row("process.fork", &params, ns)
    }

    #[test]
    fn one_base_row_begins_every_line_of_fork() {
        let rows = [
            fork(0, 0, "none", false, 60_000.0),
            fork(MIB, 0, "write", false, 70_240.0),
            fork(4 * MIB, 0, "write", false, 100_960.0),
            fork(0, MIB, "read", true, 62_560.0),
            fork(0, 4 * MIB, "read", true, 70_240.0),
            // Two sizes are no line, and other sizes that are not zero keep
            // the base row away.
            fork(MIB, MIB, "write", false, 1.0),
            fork(4 * MIB, MIB, "write", false, 1.0),
        ];
        let slopes = slopes(&rows);
        let found: Vec<_> = slopes
            .iter()
            .map(|s| (s.param.as_str(), s.ns_per_page.round(), s.params["touch"].to_string()))
            .collect();
        let expected =
            [("data_bytes", 40.0, "write".to_owned()), ("bss_bytes", 10.0, "read".to_owned())];
        assert_eq!(found, expected);
        assert!((slopes[0].base_ns - 60_000.0).abs() < 1e-3);
        assert_eq!(slopes[0].params["bss_bytes"], Value::Number(0));
        assert!(!slopes[0].params.contains_key("data_bytes"));
    }

    #[test]
    fn own_zero_point_goes_before_the_shared_one() {
        let rows = [
            fork(0, 0, "none", false, 1.0),
            fork(0, 0, "write", false, 1000.0),
            fork(MIB, 0, "write", false, 3560.0),
            fork(2 * MIB, 0, "write", false, 6120.0),
        ];
        let slopes = slopes(&rows);
        assert_eq!(slopes.len(), 1);
        assert!((slopes[0].base_ns - 1000.0).abs() < 1e-6);
    }

    /// A row that others disturbed: its visits are up to `times` as long as they might be.
    fn disturbed(data: u64, ns: f64, times: f64) -> Row {
        let mut row = fork(data, 0, "write", false, ns);
        let visit = |factor: f64| Visit { samples: vec![ns * factor; 9], ..Visit::default() };
        let visits = vec![visit(1.0), visit(1.0), visit(times.sqrt()), visit(times)];
        row = Row::summarise(&row.case, row.params, row.unit, row.cpus, visits);
        row
    }

    #[test]
    fn what_is_apart_at_both_ends_grows_whatever_the_line_between_them_does() {
        // 200-fold, and along no line: a row in the middle is as long as the last.
        let rows = |last: f64, times: f64| {
            [
                disturbed(0, 250_000.0, times),
                disturbed(MIB, 260_000.0, times),
                disturbed(4 * MIB, 40e6, times),
                disturbed(16 * MIB, last, times),
            ]
        };
        let grows = &slopes(&rows(50e6, 1.5))[0];
        assert!(grows.ci[0] < 0.0, "the line does not tell: {grows:?}");
        assert_eq!((grows.trend, grows.is_graded()), (Trend::Grows, false));
        let falls = &slopes(&rows(50_000.0, 1.5))[0];
        assert_eq!((falls.trend, falls.is_graded()), (Trend::Falls, false), "{falls:?}");
        // Where the ends overlap nothing may be said.
        let unclear = &slopes(&rows(400_000.0, 4.0))[0];
        assert_eq!(unclear.trend, Trend::Unclear, "{unclear:?}");
        let line: Vec<Row> =
            (0..4u64).map(|i| fork(i * MIB, 0, "write", false, 1e5 + 1e4 * i as f64)).collect();
        let line = &slopes(&line)[0];
        assert_eq!((line.trend, line.is_graded()), (Trend::Grows, true), "{line:?}");
    }

    #[test]
    fn other_parameters_keep_lines_apart() {
        let cold = |bytes: u64, cached: bool, ns| {
            row("file.read", &[("bytes", bytes.into()), ("cached", cached.into())], ns)
        };
        let mut rows: Vec<Row> =
            (0..4u64).map(|i| cold(i * 65_536, true, 100.0 + 16.0 * i as f64)).collect();
        // These lack a zero point, and that of the cached rows is not theirs.
        rows.extend([cold(65_536, false, 9.0), cold(131_072, false, 9.0)]);
        let slopes = slopes(&rows);
        assert_eq!(slopes.len(), 1);
        assert!((slopes[0].ns_per_page - 1.0).abs() < 1e-6);
    }

    #[test]
    fn narrow_sweeps_and_bandwidth_have_no_slope() {
        let narrow: Vec<Row> =
            [1u64, 64, 4096].map(|b| row("ipc.pipe", &[("bytes", b.into())], b as f64)).into();
        assert_eq!(slopes(&narrow), []);
        let mut wide: Vec<Row> =
            [0, MIB, 4 * MIB].map(|b| row("ipc.pipe", &[("bytes", b.into())], 1.0)).into();
        for row in &mut wide {
            row.unit = Unit::GigabytesPerSecond;
        }
        assert_eq!(slopes(&wide), []);
    }
}
