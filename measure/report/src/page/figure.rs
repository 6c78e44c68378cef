//! Charts and sentences as elements.

use kumiki_measure::schema::{Slope, Trend, Unit};
use maud::{Markup, PreEscaped, html};

use crate::answers::Sentence;
use crate::figures::{self, Line, PageFigure};
use crate::format::{bytes, interval, number, time};

/// Sentences as a list, the figure in each told apart.
pub(super) fn sentences(said: &[Sentence]) -> Markup {
    html! {
        ul.answer {
            @for s in said {
                li.disturbed[s.disturbed] {
                    (s.before) b { (s.figure) } (s.after)
                    " " span.ci { (s.ci) @if s.disturbed { " ⚠" } }
                }
            }
        }
    }
}

/// Charts side by side.
pub(crate) fn grid(figures: &[PageFigure]) -> Markup {
    html! { @if !figures.is_empty() { div.figures { @for figure in figures { (one(figure)) } } } }
}

fn one(figure: &PageFigure) -> Markup {
    let named = figure.lines.iter().any(|line| !line.label.is_empty() || line.slope.is_some());
    html! {
        figure id=(figure.id) {
            h4 { (figure.title) }
            div.chart { (PreEscaped(&figure.svg)) }
            @if named {
                ul.lines {
                    @for (at, line) in figure.lines.iter().enumerate() {
                        li { (legend(at, line, figure.dots)) @if let Some(s) = &line.slope { (slope(s)) } }
                    }
                }
            }
            @if !figure.caption.is_empty() { figcaption { (figure.caption) } }
        }
    }
}

/// A line's name, which a press turns off and on; page.js enables it.
fn legend(at: usize, line: &Line, dots: bool) -> Markup {
    html! {
        button.key type="button" data-line=(at) aria-pressed="true" disabled {
            (figures::swatch(line, dots)) " "
            @if line.label.is_empty() { "slope" } @else { (line.label) }
        }
    }
}

fn slope(slope: &Slope) -> Markup {
    let ci = interval(slope.ci, Unit::Nanoseconds);
    html! {
        @if let (Some(knee), Some(jump)) = (slope.knee_bytes, slope.jump) {
            " " b { (time(slope.ns_per_page)) } " a page until " (bytes(knee))
            ", then a jump by " (time(jump.ns)) " before " (bytes(jump.until_bytes))
            @if let Some(beyond) = slope.ns_per_page_beyond { ", beyond " (time(beyond)) " a page" }
        } @else if !slope.is_graded() || matches!(slope.trend, Trend::Flat | Trend::Unclear) {
            " " b title={ (ci) " a page" } { (slope.trend.word()) }
            @if matches!(slope.trend, Trend::Grows | Trend::Falls) { "; how fast is unclear" }
        } @else {
            span title={ "95 % CI " (ci) ", R² " (number(slope.r2)) } {
                " " b { (time(slope.ns_per_page)) } " a page"
            }
            @if let (Some(knee), Some(beyond)) = (slope.knee_bytes, slope.ns_per_page_beyond) {
                ", beyond " (bytes(knee)) " " (time(beyond))
            }
        }
    }
}
