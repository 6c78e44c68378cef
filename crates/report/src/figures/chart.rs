//! Charts as JSON for plotly.js. Colours that depend on the theme are the
//! style sheet's; what is drawn here is right on light and on dark ground.

use kumiki_measure::schema::Unit;
use plotly::color::Rgba;
use plotly::common::{
    Anchor, DashType, ErrorData, ErrorType, Font, Label, Line, Marker, MarkerSymbol, Mode,
    Orientation, Title,
};
use plotly::configuration::{DisplayModeBar, ModeBarButtonName};
use plotly::layout::{
    Axis, AxisType, CategoryOrder, DragMode, HoverMode, Legend, Margin, RangeMode,
};
use plotly::{Configuration, Layout, Plot, Scatter};

/// Each at least 3 : 1 against both grounds of the page.
const PALETTE: [&str; 9] = [
    "#2f7fd6", "#d0700f", "#2a9a5c", "#9568d8", "#d64a55", "#1590a0", "#a8744a", "#cc559c",
    "#7a828c",
];

/// The palette's colour of a line.
pub(crate) fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

fn dash(variant: usize) -> DashType {
    match variant % 4 {
        0 => DashType::Solid,
        1 => DashType::Dash,
        2 => DashType::Dot,
        _ => DashType::DashDot,
    }
}

fn symbol(variant: usize) -> MarkerSymbol {
    match variant % 5 {
        0 => MarkerSymbol::Circle,
        1 => MarkerSymbol::Square,
        2 => MarkerSymbol::Diamond,
        3 => MarkerSymbol::TriangleUp,
        _ => MarkerSymbol::X,
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
    /// Whether the values' axis is logarithmic from the start.
    pub log: bool,
}

/// plotly.js reads a little HTML in its texts; ours are plain.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Values for an axis: seconds, so that its SI prefixes fit, or GB/s.
fn on_axis(value: f64, unit: Unit) -> f64 {
    match unit {
        Unit::Nanoseconds => value * 1e-9,
        Unit::GigabytesPerSecond => value,
    }
}

fn value_axis(unit: Unit, log: bool) -> Axis {
    let axis = Axis::new()
        .type_(if log { AxisType::Log } else { AxisType::Linear })
        .range_mode(RangeMode::ToZero)
        .auto_margin(true)
        .tick_length(4);
    match unit {
        Unit::Nanoseconds => axis.tick_format("~s").tick_suffix("s"),
        Unit::GigabytesPerSecond => axis.tick_suffix(" GB/s"),
    }
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
        .symbol(symbol(series.variant))
        .color_array(fills.collect())
        .line(Line::new().width(1.5).color(colour))
}

fn hover(series: &Series) -> Vec<String> {
    let text = |p: &Point| p.text.iter().map(|l| plain(l)).collect::<Vec<_>>().join("<br>");
    series.points.iter().map(text).collect()
}

fn layout(entries: usize) -> Layout {
    let clear = || Rgba::new(0, 0, 0, 0.0);
    Layout::new()
        .auto_size(true)
        .paper_background_color(clear())
        .plot_background_color(clear())
        .font(Font::new().family("system-ui, sans-serif").size(12))
        .margin(Margin::new().left(8).right(12).top(8).bottom(8))
        .hover_mode(HoverMode::Closest)
        .hover_label(Label::new().font(Font::new().size(12)).align("left"))
        .drag_mode(DragMode::Zoom)
        .show_legend(entries > 1)
        .legend(
            Legend::new()
                .orientation(Orientation::Horizontal)
                .x(0.0)
                .x_anchor(Anchor::Left)
                .y(1.02)
                .y_anchor(Anchor::Bottom)
                .background_color(clear()),
        )
}

fn finish(mut plot: Plot, layout: Layout) -> String {
    use ModeBarButtonName::{AutoScale2d, Lasso2d, Select2d};
    plot.set_layout(layout);
    plot.set_configuration(
        Configuration::new()
            .responsive(true)
            .display_logo(false)
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
                .line(Line::new().color(colour).width(2.0).dash(dash(one.variant)))
                .marker(marker(one, 7))
                .error_y(error_bars(&one.points, axes.unit, colour))
                .hover_text_array(hover(one))
                .hover_template("%{hovertext}<extra></extra>"),
        );
    }
    let sizes = Axis::new()
        .title(Title::with_text(plain(&axes.size)))
        .range_mode(RangeMode::ToZero)
        .auto_margin(true)
        .tick_length(4);
    finish(plot, layout(series.len()).x_axis(sizes).y_axis(value_axis(axes.unit, axes.log)))
}

/// Values of ways, one below the other; `ways` names each place from the top.
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
        .auto_margin(true);
    let height = 96 + 26 * ways.len();
    let layout = layout(series.len()).height(height);
    finish(plot, layout.x_axis(value_axis(unit, true)).y_axis(places))
}
