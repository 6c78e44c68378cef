//! The page's figures: cost against size, and ways of doing one thing side by
//! side. A figure with nothing to show is left out.

mod axis;
mod chart;
mod dots;
mod known;
mod parasc;
mod resource;
mod shadow;
mod svg;
mod sweep;
mod time;

use kumiki_measure::schema::{Results, Slope};

pub(crate) use chart::swatch;
pub(crate) use time::{Moment, over_time};

/// One figure.
pub(crate) struct PageFigure {
    /// Anchor's name.
    pub id: String,
    /// Heading.
    pub title: String,
    /// The part that it was made for unasked.
    pub part: Option<String>,
    /// Caption, a sentence or two.
    pub caption: String,
    /// True if it shows dots of ways, not lines.
    pub dots: bool,
    /// The chart.
    pub svg: String,
    /// Its lines, in the order in which they are drawn.
    pub lines: Vec<Line>,
}

/// One line of a figure, or one set of dots.
pub(crate) struct Line {
    /// Difference from its siblings; nothing if it is the only one.
    pub label: String,
    /// Its place in the palette.
    pub colour: usize,
    /// Its dash and marker.
    pub variant: usize,
    /// Growth, if a slope was fitted.
    pub slope: Option<Slope>,
}

impl Line {
    fn of(series: &chart::Series) -> Self {
        let chart::Series { label, colour, variant, .. } = series;
        Line { label: label.clone(), colour: *colour, variant: *variant, slope: None }
    }
}

/// All figures that these results can fill. `names` are the results' names.
pub(crate) fn figures(results: &[Results], names: &[String]) -> Vec<PageFigure> {
    let mut figures = sweep::figures(results, names);
    figures.extend(dots::figures(results, names));
    figures.extend(shadow::ways(results, names));
    figures.extend(shadow::idle(results, names));
    figures.extend(parasc::requests(results, names));
    figures.extend(resource::by_cores(results, names));
    figures
}
