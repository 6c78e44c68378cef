//! What a row costs in one result after the other, as a page.

use kumiki_measure::schema::{Machine, Params, Unit};
use kumiki_measure::stats::change::Cuts;
use kumiki_measure::stats::describe;
use maud::html;
use serde::Serialize;

use crate::figures::{self, Moment};
use crate::format::{self, minute};
use crate::frame::frame;
use crate::page::grid;

/// A row's cost in each result that has it, the oldest first.
#[derive(Clone, Debug, Serialize)]
pub struct Trend {
    /// Case.
    pub case: String,
    /// Parameters.
    pub params: Params,
    /// Unit of the costs.
    pub unit: Unit,
    /// One for each result.
    pub points: Vec<Point>,
    /// Least change in the middle of these results that would be marked, as a share; nothing of
    /// fewer than six results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
}

/// A row in one result.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The result's number.
    pub result: i64,
    /// Its label.
    pub label: Option<String>,
    /// Time at which it began.
    pub started: String,
    /// Version of Linux.
    pub kernel: String,
    /// Cost where others leave it alone, in the row's unit.
    pub quiet: f64,
    /// Cost in cycles of the core's clock, where that was measured and the cost is of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// Interval of that; `None` of so few visits that there is none.
    pub interval: Option<[f64; 2]>,
    /// True if other work disturbed it.
    pub disturbed: bool,
    /// The cost begins here to be another one, and stays.
    pub changed: bool,
}

/// Marks the points from which on each row's cost is another one. All rows together share what
/// chance may mark.
pub fn mark_changes(trends: &mut [Trend]) {
    let mut cuts = Cuts::of_series(trends.len());
    for trend in trends {
        let logs = trend.logs();
        trend.least = cuts.least(&logs).map(f64::exp_m1);
        for at in cuts.points(&logs) {
            trend.points[at].changed = true;
        }
    }
}

/// Clocks that differ by more are a part of the cost.
const ALIKE: f64 = 1.1;

impl Trend {
    /// True if costs are compared in cycles: the core's clock was about the same in all results.
    pub fn is_in_cycles(&self) -> bool {
        let clocks = self.points.iter().map(|point| Some(point.quiet / point.cycles?));
        let Some(clocks) = clocks.collect::<Option<Vec<f64>>>() else { return false };
        let [low, high] =
            clocks.iter().fold([f64::INFINITY, 0.0], |[low, high], ns| [ns.min(low), ns.max(high)]);
        low > 0.0 && high <= ALIKE * low
    }

    /// ln of the figures that are compared.
    fn logs(&self) -> Vec<f64> {
        self.compared().into_iter().map(|figure| figure.max(f64::MIN_POSITIVE).ln()).collect()
    }

    /// The figures that are compared: marks, words and exit status go by the same ones.
    fn compared(&self) -> Vec<f64> {
        let cycles = self.is_in_cycles();
        let figure = |point: &Point| point.cycles.filter(|_| cycles).unwrap_or(point.quiet);
        self.points.iter().map(figure).collect()
    }

    /// Each change in words.
    pub fn changes(&self) -> Vec<String> {
        let does = if self.unit.less_is_better() { "costs" } else { "reaches" };
        let said = |(at, ratio): (usize, f64)| {
            format!(
                "from {} on it {does} {ratio:.2} × of what it was until {}",
                minute(&self.points[at].started),
                minute(&self.points[at - 1].started),
            )
        };
        self.ratios().map(said).collect()
    }

    /// True if a cost changed and stayed.
    pub fn has_changed(&self) -> bool {
        self.ratios().next().is_some()
    }

    /// True if the last change that stayed made it cost more.
    pub fn has_risen(&self) -> bool {
        // More bytes a second are less cost.
        let worse = |ratio: f64| if self.unit.less_is_better() { ratio > 1.0 } else { ratio < 1.0 };
        self.ratios().last().is_some_and(|(_, ratio)| worse(ratio))
    }

    /// Place of each change, and its level beside the one before.
    fn ratios(&self) -> std::vec::IntoIter<(usize, f64)> {
        let compared = self.compared();
        let changes =
            self.points.iter().enumerate().filter(|(at, point)| *at == 0 || point.changed);
        let mut begins: Vec<usize> = changes.map(|(at, _)| at).collect();
        begins.push(self.points.len());
        // Each level is that until the next change.
        let levels: Vec<(usize, f64)> = begins
            .windows(2)
            .map(|ends| (ends[0], describe::median_of(compared[ends[0]..ends[1]].iter().copied())))
            .collect();
        let ratios: Vec<_> = levels.windows(2).map(|two| (two[1].0, two[1].1 / two[0].1)).collect();
        ratios.into_iter()
    }
}

/// One page for these rows of one machine.
pub fn trend_html(trends: &[Trend], machine: &Machine) -> String {
    let title = match trends {
        [one] => format!("{} over time", one.case),
        _ => "Costs over time".to_owned(),
    };
    let head = html! {
        header {
            h1 { (title) }
            p.machine { (crate::machine::in_one_line(machine)) }
        }
    };
    let figures: Vec<_> = trends.iter().enumerate().map(|(at, one)| figure(at, one)).collect();
    let changes: Vec<(String, Vec<String>)> = trends
        .iter()
        .map(|one| (name(one), one.changes()))
        .filter(|(_, changes)| !changes.is_empty())
        .collect();
    let body = html! {
        @if changes.is_empty() { p { "No cost changed and stayed." } }
        @else {
            ul {
                @for (name, changes) in &changes {
                    @for change in changes { li { b { (name) } ": " (change) "." } }
                }
            }
        }
        (grid(&figures))
    };
    let notes = "Each point is a result, the oldest at the left: what the row costs where others \
                 leave it alone, with an interval that holds what changes from run to run (of \
                 fewer than three visits there is none). A hollow point is one that others \
                 disturbed. A \
                 change is marked where a cost became another one and stayed, further than drifts from \
                 night to night get in at most 5 of 100 such pages; it takes three results on each \
                 side.";
    frame(&title, &head, [("trend", "Over time", body)].into_iter(), Some(notes))
}

fn name(trend: &Trend) -> String {
    match trend.params.is_empty() {
        true => trend.case.clone(),
        false => format!("{}, {}", trend.case, format::params(&trend.params)),
    }
}

fn day(point: &Point) -> &str {
    point.started.split('T').next().unwrap_or_default()
}

fn figure(at: usize, trend: &Trend) -> figures::PageFigure {
    let moment = |point: &Point| Moment {
        value: point.quiet,
        ci: point.interval.unwrap_or([point.quiet; 2]),
        disturbed: point.disturbed,
        changed: point.changed,
        text: vec![
            point.label.clone().unwrap_or_else(|| format!("result {}", point.result)),
            minute(&point.started),
            format!("Linux {}", point.kernel),
            format::quantity(point.quiet, trend.unit),
            match point.interval {
                Some(ends) => format!("95 % {}", format::interval(ends, trend.unit)),
                None => "too few visits for an interval".to_owned(),
            },
        ],
    };
    let moments = trend.points.iter().map(moment).collect();
    let between = match (trend.points.first(), trend.points.last()) {
        (Some(first), Some(last)) => format!(", {} to {}", day(first), day(last)),
        _ => String::new(),
    };
    figures::over_time(format!("trend-{at}"), name(trend), trend.unit, moments, &between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(costs: &[f64]) -> Trend {
        let point = |(at, quiet): (usize, &f64)| Point {
            result: at as i64,
            label: None,
            started: format!("2026-11-{:02}T01:02:03Z", at + 1),
            kernel: "6.18".to_owned(),
            quiet: *quiet,
            cycles: None,
            interval: Some([quiet * 0.9, quiet * 1.1]),
            disturbed: at == 1,
            changed: false,
        };
        Trend {
            case: "file.<stat>".to_owned(),
            params: Params::new(),
            unit: Unit::Nanoseconds,
            points: costs.iter().enumerate().map(point).collect(),
            least: None,
        }
    }

    #[test]
    fn a_page_has_a_point_for_each_result_and_marks_what_changed() {
        let wobble = [0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 1.5, -1.5];
        let levels = [100.0, 130.0].map(|level: f64| wobble.map(|more| level + more));
        let mut changed = trend(levels.as_flattened());
        mark_changes(std::slice::from_mut(&mut changed));
        assert_eq!(changed.points.iter().position(|point| point.changed), Some(8));
        let said = "from 2026-11-09 01:02 on it costs 1.30 × of what it was until 2026-11-08 01:02";
        assert_eq!(changed.changes(), [said]);
        assert!(changed.has_risen());
        let page = trend_html(&[changed], &Machine::default());
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains(said), "{page}");
        assert!(page.contains("file.&lt;stat&gt;") && !page.contains("<stat>"));
        assert!(page.contains("changed, and stayed") && page.contains("Linux 6.18"));
        assert!(page.contains("oldest at the left, 2026-11-01 to 2026-11-16"));
        let mut steady = trend(&[100.0; 10]);
        mark_changes(std::slice::from_mut(&mut steady));
        assert!(!steady.has_risen() && !steady.has_changed());
        let levels = [100.0, 130.0, 90.0].map(|level: f64| wobble.map(|more| level + more));
        let mut mended = trend(levels.as_flattened());
        mark_changes(std::slice::from_mut(&mut mended));
        assert!(mended.has_changed());
        assert_eq!((mended.changes().len(), mended.has_risen()), (2, false));
        let page = trend_html(&[steady], &Machine::default());
        assert!(page.contains("No cost changed") && !page.contains("changed, and stayed"));
    }

    #[test]
    fn more_bytes_a_second_are_no_rise_of_the_cost() {
        let wobble = [0.0, 1.0, -1.0, 0.5, 2.0, -0.5, 1.5, -1.5];
        for (later, rises, said) in
            [(150.0, false, "reaches 1.50 ×"), (67.0, true, "reaches 0.67 ×")]
        {
            let levels = [100.0, later].map(|level: f64| wobble.map(|more| level + more));
            let mut one = Trend { unit: Unit::GigabytesPerSecond, ..trend(levels.as_flattened()) };
            mark_changes(std::slice::from_mut(&mut one));
            assert_eq!((one.has_changed(), one.has_risen()), (true, rises), "{:?}", one.changes());
            assert!(one.changes()[0].contains(said), "{:?}", one.changes());
        }
    }

    /// Marks by cycles are judged by cycles, too: the clock went the other way.
    #[test]
    fn a_cost_in_cycles_that_rose_on_a_faster_clock_has_risen() {
        let mut one = trend(&[100.0; 16]);
        for (at, point) in one.points.iter_mut().enumerate() {
            let (cycles, clock) = if at < 8 { (400.0, 0.40) } else { (420.0, 0.37) };
            let cycles = cycles + [0.0, 1.0, -1.0][at % 3];
            (point.cycles, point.quiet) = (Some(cycles), cycles * clock);
        }
        mark_changes(std::slice::from_mut(&mut one));
        assert!(one.has_risen(), "{:?}", one.changes());
        assert!(one.changes()[0].contains("costs 1.05 ×"), "{:?}", one.changes());
    }

    /// A governor that slowed the core a little is no change of the cost.
    #[test]
    fn costs_are_compared_in_cycles_where_the_clock_is_about_the_same() {
        let clock = |at: usize| if at < 8 { 0.25 } else { 0.27 };
        let mut one = trend(&[100.0; 16]);
        for (at, point) in one.points.iter_mut().enumerate() {
            let cycles = 400.0 + [0.0, 1.0, -1.0][at % 3];
            (point.cycles, point.quiet) = (Some(cycles), cycles * clock(at));
        }
        let mut timed = one.clone();
        timed.points.iter_mut().for_each(|point| point.cycles = None);
        mark_changes(std::slice::from_mut(&mut one));
        mark_changes(std::slice::from_mut(&mut timed));
        assert_eq!((one.has_changed(), timed.has_changed()), (false, true));
        assert!(
            one.is_in_cycles() && one.least.is_some_and(|least| least < 0.1),
            "{:?}",
            one.least
        );
    }
}
