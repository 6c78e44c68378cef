//! Charts as JSON for plotly.js. Colours that depend on the theme are the
//! style sheet's; what is drawn here is right on light and on dark ground.

use kumiki_measure::schema::Unit;
use maud::{Markup, html};
use plotly::color::Rgba;
use plotly::common::{
    DashType, ErrorData, ErrorType, Font, Label, Line as Stroke, Marker, MarkerSymbol, Mode, Title,
};
use plotly::configuration::{DisplayModeBar, ModeBarButtonName};
use plotly::layout::{
    Axis, AxisType, CategoryOrder, DragMode, HoverMode, Margin, RangeMode, TicksDirection,
};
use plotly::{Configuration, Layout, Plot, Scatter};

use super::Line;

/// Each at least 3 : 1 against both grounds of the page.
const PALETTE: [&str; 9] = [
    "#2f7fd6", "#d0700f", "#2a9a5c", "#9568d8", "#d64a55", "#1590a0", "#a8744a", "#cc559c",
    "#7a828c",
];

/// The palette's colour of a line.
fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

/// Dashes of lines, for plotly.js and for SVG.
const DASHES: [(DashType, &str); 4] = [
    (DashType::Solid, "none"),
    (DashType::Dash, "5 3"),
    (DashType::Dot, "2 2"),
    (DashType::DashDot, "5 2 2 2"),
];

/// Markers, for plotly.js and as SVG paths in the middle of a swatch.
const MARKERS: [(MarkerSymbol, &str); 5] = [
    (MarkerSymbol::Circle, "M10 5a4 4 0 1 0 8 0a4 4 0 1 0-8 0z"),
    (MarkerSymbol::Square, "M10.5 1.5h7v7h-7z"),
    (MarkerSymbol::Diamond, "M14 0l5 5-5 5-5-5z"),
    (MarkerSymbol::TriangleUp, "M14 .5l4.5 8h-9z"),
    (MarkerSymbol::TriangleDown, "M14 9.5l4.5-8h-9z"),
];

fn dash(variant: usize) -> &'static (DashType, &'static str) {
    &DASHES[variant % DASHES.len()]
}

fn symbol(variant: usize) -> &'static (MarkerSymbol, &'static str) {
    &MARKERS[variant % MARKERS.len()]
}

/// A line, or a set of dots, as the legend shows it.
pub(crate) fn swatch(line: &Line, dots: bool) -> Markup {
    let colour = colour(line.colour);
    let (dash, shape) = (dash(line.variant).1, symbol(line.variant).1);
    html! {
        svg.swatch viewBox="0 0 28 10" width="28" height="10" aria-hidden="true" {
            @if !dots { path d="M0 5H28" stroke=(colour) stroke-width="2" stroke-dasharray=(dash) {} }
            path d=(shape) fill=(colour) {}
        }
    }
}

/// One measured point.
pub(super) struct Point {
    /// Size in bytes, or the place of a way.
    pub at: f64,
    /// Median, in the row's unit.
    pub value: f64,
    /// Its interval.
    pub ci: [f64; 2],
    /// Drawn hollow.
    pub disturbed: bool,
    /// Lines of the hover text, as plain text.
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
    pub points: Vec<Point>,
}

/// What the axes show.
pub(super) struct Axes {
    /// Name of the size.
    pub size: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Logarithmic from the start: the size, the values.
    pub log: [bool; 2],
}

/// plotly.js reads a little HTML in its texts; ours are plain.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Values for an axis: seconds, or the unit itself.
fn on_axis(value: f64, unit: Unit) -> f64 {
    match unit {
        Unit::Nanoseconds => value * 1e-9,
        Unit::GigabytesPerSecond | Unit::Cpus | Unit::Watts => value,
    }
}

/// An axis; page.js sets its ticks.
fn axis(log: bool) -> Axis {
    Axis::new()
        .type_(if log { AxisType::Log } else { AxisType::Linear })
        .range_mode(RangeMode::ToZero)
        .auto_margin(true)
        .tick_length(4)
}

fn error_bars(points: &[Point], unit: Unit, colour: &'static str) -> ErrorData {
    let above = points.iter().map(|p| on_axis((p.ci[1] - p.value).max(0.0), unit)).collect();
    let below = points.iter().map(|p| on_axis((p.value - p.ci[0]).max(0.0), unit)).collect();
    ErrorData::new(ErrorType::Data)
        .symmetric(false)
        .array(above)
        .array_minus(below)
        .color(colour)
        .thickness(1.5)
        .width(4)
}

fn marker(series: &Series, size: usize) -> Marker {
    let colour = colour(series.colour);
    let fills = series.points.iter().map(|p| if p.disturbed { "rgba(0,0,0,0)" } else { colour });
    Marker::new()
        .size(size)
        .symbol(symbol(series.variant).0.clone())
        .color_array(fills.collect())
        .line(Stroke::new().width(1.5).color(colour))
}

fn hover(series: &Series) -> Vec<String> {
    let text = |p: &Point| p.text.iter().map(|l| plain(l)).collect::<Vec<_>>().join("<br>");
    series.points.iter().map(text).collect()
}

fn clear() -> Rgba {
    Rgba::new(0, 0, 0, 0.0)
}

/// What all charts share. The legend is the page's own: one within the chart
/// takes the chart's room.
fn layout() -> Layout {
    Layout::new()
        .auto_size(true)
        .height(320)
        .paper_background_color(clear())
        .plot_background_color(clear())
        .font(Font::new().family("system-ui, sans-serif").size(12))
        .margin(Margin::new().left(8).right(12).top(14).bottom(8))
        .hover_mode(HoverMode::Closest)
        .hover_label(Label::new().font(Font::new().size(12)).align("left"))
        .drag_mode(DragMode::Zoom)
        .show_legend(false)
}

fn finish(mut plot: Plot, layout: Layout) -> String {
    use ModeBarButtonName::{AutoScale2d, Lasso2d, Select2d};
    plot.set_layout(layout);
    plot.set_configuration(
        Configuration::new()
            .responsive(true)
            .display_logo(false)
            .show_tips(false)
            .display_mode_bar(DisplayModeBar::Hover)
            .mode_bar_buttons_to_remove(vec![AutoScale2d, Lasso2d, Select2d]),
    );
    plot.to_json()
}

/// Values against sizes.
pub(super) fn lines(axes: &Axes, series: &[Series]) -> String {
    let mut plot = Plot::new();
    for one in series {
        let colour = colour(one.colour);
        let x = one.points.iter().map(|p| p.at).collect();
        let y = one.points.iter().map(|p| on_axis(p.value, axes.unit)).collect();
        plot.add_trace(
            Scatter::new(x, y)
                .name(plain(&one.label))
                .mode(Mode::LinesMarkers)
                .clip_on_axis(false)
                .line(Stroke::new().color(colour).width(2.0).dash(dash(one.variant).0.clone()))
                .marker(marker(one, 7))
                .error_y(error_bars(&one.points, axes.unit, colour))
                .hover_text_array(hover(one))
                .hover_template("%{hovertext}<extra></extra>"),
        );
    }
    let [log_size, log_value] = axes.log;
    let sizes = axis(log_size).title(Title::with_text(plain(&axes.size)));
    let layout = layout().x_axis(sizes).y_axis(axis(log_value));
    finish(plot, layout)
}

/// Values of ways, one below the other; `ways` names each place from the top.
/// Times are far apart: their axis is logarithmic.
pub(super) fn dots(unit: Unit, ways: &[String], series: &[Series]) -> String {
    let ways: Vec<String> = ways.iter().map(|way| plain(way)).collect();
    let mut plot = Plot::new();
    for one in series {
        let colour = colour(one.colour);
        let x = one.points.iter().map(|p| on_axis(p.value, unit)).collect();
        let y = one.points.iter().map(|p| ways[p.at as usize].clone()).collect();
        plot.add_trace(
            Scatter::<f64, String>::new(x, y)
                .name(plain(&one.label))
                .mode(Mode::Markers)
                .clip_on_axis(false)
                .marker(marker(one, 10))
                .error_x(error_bars(&one.points, unit, colour))
                .hover_text_array(hover(one))
                .hover_template("%{hovertext}<extra></extra>"),
        );
    }
    let places = Axis::new()
        .type_(AxisType::Category)
        .category_order(CategoryOrder::Array)
        .category_array(ways.iter().rev().cloned().collect::<Vec<_>>())
        .range(vec![-0.6, ways.len() as f64 - 0.4])
        // Room for a marker at 0, of which half is on this side.
        .ticks(TicksDirection::Outside)
        .tick_length(8)
        .tick_color(clear())
        .auto_margin(true);
    let height = 60 + 26 * ways.len();
    let layout = layout().height(height);
    finish(plot, layout.x_axis(axis(unit == Unit::Nanoseconds)).y_axis(places))
}
