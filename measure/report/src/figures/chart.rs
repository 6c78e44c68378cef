//! Draws a chart. plotters lays out axes, grid and lines; what stands on each
//! point, its interval and what it says, is added here for page.js to find.

use std::convert::Infallible;
use std::fmt::Write as _;

use kumiki_measure::schema::Unit;
use maud::{Markup, html};
use plotters::prelude::*;

use super::Line;
use super::axis::{Axis, Quantity};
use super::svg::{DATA, GRID, LABEL, PARTS, RULE, Svg, escape, pixels};

/// Colours that the style sheet has as `c0`, `c1`, …
const COLOURS: usize = 9;

/// Dashes that the style sheet has as `d0`, `d1`, …
const DASHES: usize = 4;

/// Markers as paths around a point.
const MARKERS: [&str; 5] = [
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.6L4.6 0 0 4.6-4.6 0z",
    "M0-4.2L4.1 3.2h-8.2z",
    "M0 4.2L4.1-3.2h-8.2z",
];

/// Width of a chart in the units of its text; it is shown at about that size.
const WIDTH: u32 = 440;
/// Height of a chart of values against sizes.
const HEIGHT: u32 = 264;
/// Height of a way's place.
const WAY: u32 = 24;

fn classes(line: (usize, usize)) -> String {
    format!("c{} d{}", line.0 % COLOURS, line.1 % DASHES)
}

fn marker(variant: usize) -> &'static str {
    MARKERS[variant % MARKERS.len()]
}

/// A line, or a set of dots, as the legend shows it.
pub(crate) fn swatch(line: &Line, dots: bool) -> Markup {
    html! {
        svg class={ "swatch " (classes((line.colour, line.variant))) } viewBox="-14 -5 28 10" width="28" height="10" aria-hidden="true" {
            @if !dots { path.data d="M-14 0H14" {} }
            path.mark d=(marker(line.variant)) {}
        }
    }
}

/// One measured point.
pub(super) struct ChartPoint {
    /// Size in bytes, a count, or the place of a way.
    pub at: f64,
    /// Median, in the row's unit.
    pub value: f64,
    /// Its interval.
    pub ci: [f64; 2],
    /// Drawn hollow.
    pub disturbed: bool,
    /// Lines of what it says when it is pointed at, as plain text.
    pub text: Vec<String>,
}

/// One line, or one set of dots.
pub(super) struct Series {
    /// Its name in the legend, as plain text.
    pub label: String,
    /// Place in the palette.
    pub colour: usize,
    /// Dash and marker.
    pub variant: usize,
    /// Its points.
    pub points: Vec<ChartPoint>,
}

/// Quantities of the axes.
pub(super) struct Axes {
    /// Name of what the values are drawn against.
    pub along: String,
    /// Quantity of that size.
    pub quantity: Quantity,
    /// Quantity of the values.
    pub values: Quantity,
    /// Logarithmic: along, the values.
    pub log: [bool; 2],
}

/// Values against sizes or counts, lines from left to right.
pub(super) fn lines(title: &str, axes: Axes, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|one| &one.points);
    let [log_along, log_values] = axes.log;
    let x = Axis::over(axes.quantity, log_along, points().map(|point| point.at));
    let ends = points().flat_map(|point| point.ci.into_iter().chain([point.value]));
    let y = Axis::over(axes.values, log_values, ends);
    let size = Layout { size: (WIDTH, HEIGHT), left: 66, ticks: [6, 8] };
    draw(title, &axes.along, [x, y], &size, series, |point| (point.at, point.value), false)
}

/// Numbers against whole numbers, both evenly from zero.
pub(super) fn counts(title: &str, along: &str, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|one| &one.points);
    let x = Axis::over(Quantity::Count, false, points().map(|point| point.at));
    let ends = points().flat_map(|point| point.ci.into_iter().chain([point.value]));
    let y = Axis::over(Quantity::Count, false, ends);
    let size = Layout { size: (WIDTH, HEIGHT), left: 56, ticks: [6, 8] };
    draw(title, along, [x, y], &size, series, |point| (point.at, point.value), false)
}

/// Values of ways, one below the other; `ways` names each place from the top.
/// Times are far apart: their axis is logarithmic.
pub(super) fn dots(title: &str, unit: Unit, ways: &[String], series: &[Series]) -> String {
    let points = || series.iter().flat_map(|one| &one.points);
    let ends = points().flat_map(|point| point.ci.into_iter().chain([point.value]));
    let x = Axis::over(Quantity::Measured(unit), unit == Unit::Nanoseconds, ends);
    let names: Vec<String> = ways.iter().map(|way| shortened(way)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    let y = Axis::ways(names);
    let size = Layout {
        size: (WIDTH, 34 + WAY * ways.len() as u32),
        left: (longest * LETTER).div_ceil(10) + 16,
        ticks: [5, ways.len()],
    };
    draw(title, "", [x, y], &size, series, |point| (point.value, point.at), true)
}

/// A way's name as far as there is room for it; its points say it whole.
fn shortened(way: &str) -> String {
    const MOST: usize = 38;
    match way.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", way[..end].trim_end()),
        None => way.to_owned(),
    }
}

/// Width of a letter of a way's name, tenths of a pixel: of DejaVu Sans at 11 pixels, the
/// widest of the fonts that the page asks for.
const LETTER: u32 = 67;

struct Layout {
    size: (u32, u32),
    left: u32,
    /// Largest number of ticks along, and up.
    ticks: [usize; 2],
}

fn draw(
    title: &str,
    along: &str,
    [x, y]: [Axis; 2],
    layout: &Layout,
    series: &[Series],
    place: impl Fn(&ChartPoint) -> (f64, f64),
    ways: bool,
) -> String {
    let svg = Svg::new(layout.size);
    let drawn = try_draw(&svg, along, [x, y], layout, series, place, ways);
    let area = drawn.expect("drawing into a text fails for nothing");
    format!(
        r#"<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}"{area}>{}</svg></svg>"#,
        layout.size.0,
        layout.size.1,
        escape(title),
        svg.text()
    )
}

/// Draws, and says in attributes what the axes and their area are.
fn try_draw(
    svg: &Svg,
    along: &str,
    [x, y]: [Axis; 2],
    layout: &Layout,
    series: &[Series],
    place: impl Fn(&ChartPoint) -> (f64, f64),
    ways: bool,
) -> Result<String, DrawingAreaErrorKind<Infallible>> {
    let parts = |pixels: u32| pixels * PARTS as u32;
    let data = format!(r#" data-x="{}" data-y="{}""#, x.to_data(), y.to_data());
    // Ways are named from the top, plotters counts from below.
    let (low, high) = (y.low, y.high);
    let turned = move |at: f64| if ways { high + low - at } else { at };
    let y = if let Quantity::Ways(names) = y.quantity {
        Axis { quantity: Quantity::Ways(names.into_iter().rev().collect()), ..y }
    } else {
        y
    };
    let (shown_x, shown_y) = (x.clone(), y.clone());
    let area = svg.clone().into_drawing_area();
    let below = if along.is_empty() { 24 } else { 40 };
    let mut chart = ChartBuilder::on(&area)
        .margin_top(parts(10))
        .margin_right(parts(22))
        .set_label_area_size(LabelAreaPosition::Left, parts(layout.left))
        .set_label_area_size(LabelAreaPosition::Bottom, parts(below))
        .build_cartesian_2d(x, y)?;
    svg.write(r#"<g class="mesh">"#);
    let font = || ("sans-serif", 11 * PARTS).into_font().color(&LABEL);
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID)
        .axis_style(RULE)
        .label_style(font())
        .axis_desc_style(font())
        .x_labels(layout.ticks[0])
        .y_labels(layout.ticks[1])
        .set_all_tick_mark_size(3 * PARTS);
    if !along.is_empty() {
        mesh.x_desc(along);
    }
    mesh.draw()?;
    svg.write("</g>");

    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let numbers = [columns.start, rows.start, columns.end - columns.start, rows.end - rows.start];
    let numbers = numbers.map(pixels);
    let [left, top, width, height] = &numbers;
    // A drawing within the drawing cuts off what a zoom moves out of it; when
    // nothing is zoomed, markers on its edge are whole.
    svg.write(&format!(
        r#"<svg class="area" x="{left}" y="{top}" width="{width}" height="{height}" viewBox="{left} {top} {width} {height}">"#
    ));
    for (at, one) in series.iter().enumerate() {
        let shown: Vec<&ChartPoint> = one
            .points
            .iter()
            .filter(|point| shown_x.shows(place(point).0) && shown_y.shows(turned(place(point).1)))
            .collect();
        svg.write(&format!(
            r#"<g class="line {}" data-line="{at}">"#,
            classes((one.colour, one.variant))
        ));
        let placed = |(x, y)| (x, turned(y));
        if !ways {
            let line = shown.iter().map(|point| placed(place(point)));
            chart.draw_series(LineSeries::new(line, DATA))?;
        }
        for point in shown {
            let centre = chart.backend_coord(&placed(place(point)));
            let ends = point.ci.map(|end| {
                let end = ChartPoint { value: end, text: Vec::new(), ..*point };
                chart.backend_coord(&placed(place(&end)))
            });
            svg.write(&mark(point, centre, ends, one.variant, ways));
        }
        svg.write("</g>");
    }
    Ok(format!(r#"{data} data-area="{}""#, numbers.join(" ")))
}

/// A point: its interval, its marker, and what it says.
fn mark(
    point: &ChartPoint,
    (x, y): (i32, i32),
    ends: [(i32, i32); 2],
    variant: usize,
    ways: bool,
) -> String {
    let class = if point.disturbed { "p disturbed" } else { "p" };
    let mut out =
        format!(r#"<g class="{class}" transform="translate({} {})">"#, pixels(x), pixels(y));
    let [low, high] = ends.map(|end| if ways { end.0 - x } else { end.1 - y });
    // An interval that its marker hides is not drawn.
    if (high - low).abs() > 7 * PARTS {
        let (low, high) = (pixels(low), pixels(high));
        let path = if ways {
            format!("M{low} 0H{high}M{low}-3v6M{high}-3v6")
        } else {
            format!("M0 {low}V{high}M-3 {low}h6M-3 {high}h6")
        };
        let _ = write!(out, r#"<path class="interval" d="{path}" data-ends="{low} {high}"/>"#);
    }
    let _ = write!(
        out,
        r#"<path class="mark" d="{}"/><title>{}</title></g>"#,
        marker(variant),
        escape(&point.text.join("\n"))
    );
    out
}
