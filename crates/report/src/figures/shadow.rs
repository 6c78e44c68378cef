//! Figure 8 of Hori et al.: what a helper that waits costs.

use kumiki_measure::schema::{Results, Row, Unit, Value};

use super::chart::{self, Point, Series};
use super::{Figure, Group, Line};
use crate::format::{self, interval, quantity};
use crate::rows;

/// The parameter against which it is drawn.
const THRESHOLD: &str = "threshold_ticks";

/// By power where any result has counted energy, else by processor time.
pub(super) fn idle(results: &[Results], names: &[String]) -> Option<Figure> {
    let rows = |case: &str| -> Vec<(usize, &Row)> {
        let all = results.iter().enumerate();
        all.flat_map(|(i, r)| rows::find(r, case, &[]).map(move |row| (i, row))).collect()
    };
    let (rows, unit, measure) = match rows("shadow.idle_power") {
        rows if !rows.is_empty() => {
            (rows, Unit::Watts, "Shown is the power that the machine's energy counters tell")
        }
        _ => (
            rows("shadow.idle"),
            Unit::Cpus,
            "Shown is processor time a second of waiting: no energy counter (RAPL, hwmon) could \
             be read",
        ),
    };
    let mut thresholds: Vec<&Value> =
        rows.iter().filter_map(|(_, row)| row.params.get(THRESHOLD)).collect();
    thresholds.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    thresholds.dedup();
    if thresholds.is_empty() {
        return None;
    }
    let mut series: Vec<Series> = Vec::new();
    for (result, row) in rows {
        let at = thresholds.iter().position(|t| row.params.get(THRESHOLD) == Some(*t))?;
        // One result needs no name.
        let label = if names.len() > 1 { names[result].clone() } else { String::new() };
        let point = point(at, row, &label);
        match series.iter_mut().find(|one| one.colour == result) {
            Some(one) => one.points.push(point),
            None => {
                series.push(Series { label, colour: result, variant: result, points: vec![point] });
            }
        }
    }
    let ways: Vec<String> = thresholds.iter().map(|t| format::value(THRESHOLD, t)).collect();
    Some(Figure {
        id: "shadow-idle".to_owned(),
        group: Group::Shadow,
        title: "what waiting costs".to_owned(),
        caption: format!(
            "Figure 8 of Hori et al., who took the cores' temperature. A helper is left alone for \
             100 ms at a time: it spins until its threshold (at the left), then it sleeps. {measure}."
        ),
        kind: "ways",
        unit,
        json: chart::dots(unit, &ways, &series),
        lines: series.iter().map(Line::of).collect(),
    })
}

fn point(at: usize, row: &Row, label: &str) -> Point {
    let mut text = vec![
        label.to_owned(),
        format::params(&row.params),
        quantity(row.median, row.unit),
        format!("95 % CI {}", interval(row.ci, row.unit)),
    ];
    if row.disturbed {
        text.push(format!("⚠ {}", row.disturbances.join("; ")));
    }
    text.retain(|line| !line.is_empty());
    Point { at: at as f64, value: row.median, ci: row.ci, disturbed: row.disturbed, text }
}
