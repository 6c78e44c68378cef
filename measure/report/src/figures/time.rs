//! A row's cost in one result after the other.

use kumiki_measure::schema::Unit;

use super::axis::Quantity;
use super::chart::{self, Axes, ChartPoint, Series};
use super::{Line, PageFigure};

/// A result.
pub(crate) struct Moment {
    pub(crate) value: f64,
    pub(crate) ci: [f64; 2],
    pub(crate) disturbed: bool,
    /// The cost begins here to be another one.
    pub(crate) changed: bool,
    /// Text that it shows when it is pointed at.
    pub(crate) text: Vec<String>,
}

/// The results from left to right, as far apart as they are in number. `between` says from
/// when to when.
pub(crate) fn over_time(
    id: String,
    title: String,
    unit: Unit,
    moments: Vec<Moment>,
    between: &str,
) -> PageFigure {
    let point = |(at, moment): (usize, &Moment)| ChartPoint {
        at: (at + 1) as f64,
        value: moment.value,
        ci: moment.ci,
        disturbed: moment.disturbed,
        text: moment.text.clone(),
    };
    let all = moments.iter().enumerate();
    let points = all.clone().map(point).collect();
    let mut series = vec![Series { label: String::new(), colour: 0, variant: 0, points }];
    // Each by itself: a line between them would say something.
    for changed in all.filter(|(_, moment)| moment.changed) {
        let label = "changed, and stayed".to_owned();
        series.push(Series { label, colour: 1, variant: 2, points: vec![point(changed)] });
    }
    let axes = Axes {
        along: format!("results, the oldest at the left{between}"),
        quantity: Quantity::Count,
        values: Quantity::Measured(unit),
        log: [false, false],
    };
    PageFigure {
        id,
        caption: String::new(),
        part: None,
        dots: false,
        svg: chart::lines(&title, axes, &series),
        title,
        lines: series.iter().map(Line::of).collect(),
    }
}
