//! The page's figures: cost against size, and ways of doing one thing side by
//! side. A figure with nothing to show is left out.

mod chart;
mod dots;
mod known;
mod parasc;
mod shadow;
mod sweep;

use kumiki_measure::schema::{Results, Slope, Unit};

pub(crate) use chart::swatch;

/// Where on the page a figure stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// One of the six of the 1991 paper.
    Paper,
    /// What the paper had no room for, chosen by us.
    Beyond,
    /// Of Hori et al.'s paper on shadow threads.
    Shadow,
    /// Of Nakamura's paper on parallel system calls.
    Parasc,
    /// Every other case that was measured at several sizes.
    Other,
}

/// One figure.
pub(crate) struct Figure {
    /// Anchor's name.
    pub id: String,
    /// Where it stands.
    pub group: Group,
    /// Heading.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub caption: String,
    /// What page.js must know beside the chart: `sizes`, `counts` or `ways`.
    pub kind: &'static str,
    /// What its values count.
    pub unit: Unit,
    /// Data, layout and configuration for plotly.js.
    pub json: String,
    /// Its lines, in the order in which they are drawn.
    pub lines: Vec<Line>,
}

/// One line of a figure, or one set of dots.
pub(crate) struct Line {
    /// What is special about it; nothing if it is the only one.
    pub label: String,
    /// Its place in the palette.
    pub colour: usize,
    /// Its dash and marker.
    pub variant: usize,
    /// How it grows, if a slope was fitted.
    pub slope: Option<Slope>,
}

impl Line {
    fn of(series: &chart::Series) -> Self {
        let chart::Series { label, colour, variant, .. } = series;
        Line { label: label.clone(), colour: *colour, variant: *variant, slope: None }
    }
}

/// All figures that these results can fill. `names` are the results' names.
pub(crate) fn figures(results: &[Results], names: &[String]) -> Vec<Figure> {
    let mut figures = sweep::figures(results, names);
    figures.extend(dots::figures(results, names));
    figures.extend(shadow::idle(results, names));
    figures.extend(parasc::requests(results, names));
    figures.sort_by_key(|figure| figure.group as u8);
    figures
}
