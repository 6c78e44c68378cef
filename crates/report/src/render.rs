//! The page: one file that needs nothing else, on a screen or on paper.

use kumiki_measure::schema::{Results, Slope, Unit};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use plotly::Plot;

use crate::figures::{self, Figure, Group, Line};
use crate::format::{bytes, interval, number, time};
use crate::{machine, parasc, rows, shadow, tables, verdict};

/// Lets the page load nothing, not even if a text in it tried to.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      img-src data: blob:; base-uri 'none'; form-action 'none'";

/// One HTML page for one result, or for several side by side: the first is what
/// the others are compared with. It works without a network and in print.
pub fn html(results: &[Results]) -> String {
    let names = machine::names(results);
    let figures = figures::figures(results, &names);
    let title = match names.as_slice() {
        [] => "No result".to_owned(),
        [one] => format!("What the operating system costs on {one}"),
        several => format!("What the operating system costs: {}", several.join(", ")),
    };
    let sections = sections(results, &names, &figures);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="Kumiki";
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                nav.contents aria-label="Contents" {
                    ol { @for s in &sections { li { a href={ "#" (s.id) } { (s.title) } } } }
                    button #theme type="button" hidden { "theme: auto" }
                }
                main {
                    (masthead(results, &names, &title))
                    @for s in &sections {
                        section id=(s.id) { h2 { (s.title) } (s.body) }
                    }
                    (footer())
                }
                @if !figures.is_empty() { (plotly_js()) }
                script { (PreEscaped(include_str!("page.js"))) }
            }
        }
    };
    page.into_string()
}

/// plotly.js from the crate that carries it, without the formula typesetter
/// that the crate puts behind it. Its licence is its first line.
fn plotly_js() -> Markup {
    let scripts = Plot::offline_js_sources();
    let end = "</script>";
    let only = scripts.split_inclusive(end).next().unwrap_or_default();
    PreEscaped(only.to_owned())
}

/// A section with its heading.
struct Section {
    id: String,
    title: String,
    body: Markup,
}

fn sections(results: &[Results], names: &[String], figures: &[Figure]) -> Vec<Section> {
    let mut out: Vec<Section> = Vec::new();
    let mut add = |id: &str, title: &str, body: Markup| {
        out.push(Section { id: id.to_owned(), title: title.to_owned(), body });
    };
    let many = results.len() > 1;
    let each = |body: &dyn Fn(&Results) -> Option<Markup>| {
        html! {
            @for (r, name) in results.iter().zip(names) {
                @if let Some(body) = body(r) {
                    @if many { div { h3 { (name) } (body) } } @else { (body) }
                }
            }
        }
    };

    if results.iter().any(|r| !verdict::sentences(r).is_empty()) {
        let all = each(&|r| Some(sentences(r)));
        add("verdict", "Verdict", html! { div.sides[many] { (all) } });
    }
    for (group, id, title) in [
        (Group::Paper, "figures", "The paper’s six figures"),
        (Group::Beyond, "more-figures", "Beyond the paper"),
        (Group::Shadow, "shadow", "Shadow threads (Hori et al.)"),
        (Group::Parasc, "parasc", "Parallel system calls (Nakamura, 2018)"),
        (Group::Other, "other-figures", "More sizes"),
    ] {
        let own: Vec<_> = figures.iter().filter(|f| f.group == group).collect();
        let tables = match group {
            Group::Shadow => each(&shadow::tables),
            Group::Parasc => each(&parasc::tables),
            _ => html! {},
        };
        if !own.is_empty() || !tables.0.is_empty() {
            add(id, title, html! { (tables) (figure_group(group, &own)) });
        }
    }
    if many {
        add(
            "comparison",
            "Comparison",
            html! {
                p { "Medians, and each as a multiple of " b { (names[0]) } "’s. Where the 95 % \
                     confidence intervals overlap, no difference is shown." }
                (tables::comparison(results, names))
            },
        );
    }
    for (name, title) in parts(results) {
        add(
            &format!("rows-{}", anchor(&name)),
            &title,
            each(&|r| rows::by_part(r).iter().find(|part| part.name == name).map(tables::part)),
        );
    }
    if results.iter().any(|r| !r.slopes.is_empty()) {
        add(
            "slopes",
            "Slopes",
            each(&|r| (!r.slopes.is_empty()).then(|| tables::slopes(&r.slopes))),
        );
    }
    if results.iter().any(|r| !r.skipped.is_empty()) {
        add(
            "skipped",
            "Not measured here",
            each(&|r| (!r.skipped.is_empty()).then(|| tables::skipped(&r.skipped))),
        );
    }
    if !results.is_empty() {
        add("machine", "Machine", each(&|r| Some(facts(machine::facts(&r.machine)))));
        add("reproduce", "How to reproduce", each(&|r| Some(reproduce(r))));
    }
    out
}

/// Name and title of each part that any result has rows of, in order.
fn parts(results: &[Results]) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for part in results.iter().flat_map(rows::by_part) {
        if !out.iter().any(|(name, _)| name == part.name) {
            out.push((part.name.to_owned(), part.title.to_owned()));
        }
    }
    out.sort_by_key(|(name, _)| rows::rank(name));
    out
}

/// An anchor of letters, digits and dashes.
fn anchor(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

fn masthead(results: &[Results], names: &[String], title: &str) -> Markup {
    html! {
        header {
            h1 { (title) }
            @if results.is_empty() { p { "There is nothing to show: no result was given." } }
            @for (r, name) in results.iter().zip(names) {
                p.machine {
                    @if results.len() > 1 { b { (name) } " · " }
                    (machine::in_one_line(&r.machine))
                    @if !r.run.started.is_empty() { " · " time datetime=(r.run.started) { (r.run.started) } }
                    @if !r.run.mode.is_empty() { " · " (r.run.mode) " run" }
                }
                @for warning in machine::warnings(r) { p.warning { "⚠ " (warning) } }
                @if r.rows.is_empty() { p { "Nothing was measured." } }
            }
        }
    }
}

fn sentences(r: &Results) -> Markup {
    html! {
        ul.verdict {
            @for s in verdict::sentences(r) {
                li.disturbed[s.disturbed] {
                    (s.before) b { (s.figure) } (s.after)
                    " " span.ci { (s.ci) @if s.disturbed { " ⚠ disturbed" } }
                }
            }
        }
    }
}

fn figure_group(group: Group, figures: &[&Figure]) -> Markup {
    html! {
        @if group == Group::Paper {
            p { "What Nakamura and Noji measured in 1991 on System V, SunOS and HP-UX, measured \
                 here. Bars are 95 % confidence intervals, hollow points were disturbed. Drag to \
                 zoom, double-click to go back, click a name to hide its line." }
        }
        @if !figures.is_empty() {
            noscript { p.warning { "The charts need JavaScript. The tables hold every figure they show." } }
        }
        div.figures { @for figure in figures { (one_figure(figure)) } }
    }
}

fn one_figure(figure: &Figure) -> Markup {
    html! {
        figure id=(figure.id) {
            h3 { (figure.title) }
            div.chart data-kind=(figure.kind) data-unit=(figure.unit.as_str()) role="img" aria-label=(figure.title) {}
            // No text in it can end the script: `<` is written as an escape.
            script type="application/json" { (PreEscaped(figure.json.replace('<', "\\u003c"))) }
            figcaption {
                @if !figure.caption.is_empty() { p { (figure.caption) } }
                @if figure.lines.iter().any(|l| !l.label.is_empty() || l.slope.is_some()) {
                    ul.lines.names[figure.lines.iter().all(|l| l.slope.is_none())] {
                        @for (at, one) in figure.lines.iter().enumerate() {
                            li { (legend(at, one, figure.kind == "ways")) @if let Some(s) = &one.slope { (slope(s)) } }
                        }
                    }
                }
            }
        }
    }
}

/// A line's name, which a press turns off and on; page.js enables it.
fn legend(at: usize, line: &Line, dots: bool) -> Markup {
    html! {
        button.line type="button" data-line=(at) aria-pressed="true" disabled {
            (figures::swatch(line, dots)) " "
            @if line.label.is_empty() { "slope" } @else { (line.label) }
        }
    }
}

fn slope(slope: &Slope) -> Markup {
    html! {
        " " b { (time(slope.ns_per_page)) " a page" }
        " " span.ci { (interval(slope.ci, Unit::Nanoseconds)) }
        ", " span.whole { "R² " (number(slope.r2)) }
        @if let (Some(knee), Some(beyond)) = (slope.knee_bytes, slope.ns_per_page_beyond) {
            "; beyond " (bytes(knee)) " " (time(beyond)) " a page"
        }
    }
}

fn facts(facts: Vec<(&'static str, String)>) -> Markup {
    html! { dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

fn reproduce(r: &Results) -> Markup {
    html! {
        @if r.run.command.is_empty() { p { "The command was not recorded." } }
        @else { pre { code { (r.run.command) } } }
        (facts(machine::run_facts(r)))
    }
}

fn footer() -> Markup {
    html! {
        footer {
            p { "Medians over all samples; none was dropped. Confidence intervals are bootstrapped \
                 over visits and samples, and widened by how far the core’s clock moved. \
                 Time of a page is for 4 KiB. A row between two cpus is also given as a multiple of \
                 the raw cache-line round trip measured beside it, because on a virtual machine \
                 that round trip itself moves." }
            p { "Made by Kumiki. Charts by plotly.js, © Plotly, Inc., MIT licence." }
        }
    }
}
