//! What a reader sees first: the machine, a dozen figures, and what to do.

use kumiki_measure::schema::Results;
use maud::{Markup, html};

use crate::format::{THIN, count};
use crate::headline::{BAD, Figure, GOOD, Grade, Headline, Standing, headline};
use crate::machine;

/// The scale of a standing reaches from a quarter to four times the reference.
const SCALE: f64 = 4.0;

pub(super) fn masthead(results: &[Results], names: &[String], title: &str) -> Markup {
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
                    @if !r.run.version.is_empty() { " · Kumiki " (r.run.version) }
                    @if disturbed(r) > 0 { " · ⚠ " (count(disturbed(r))) " of " (r.rows.len()) " rows disturbed" }
                }
                @if !r.run.complete { p.warning { "⚠ " (machine::INCOMPLETE) } }
                @if r.rows.is_empty() { p { "Nothing was measured." } }
            }
        }
    }
}

/// Rows that other work disturbed; the tables say which and why.
fn disturbed(r: &Results) -> u64 {
    r.rows.iter().filter(|row| row.disturbed).count() as u64
}

/// The figures: cards of one result, a table of several.
pub(super) fn figures(results: &[Results], names: &[String]) -> Option<Markup> {
    if results.iter().all(|r| r.rows.is_empty()) {
        return None;
    }
    let headlines: Vec<Headline> = results.iter().map(headline).collect();
    if headlines.iter().all(|headline| headline.figures.is_empty()) {
        return None;
    }
    let body = match headlines.as_slice() {
        [one] => cards(&one.figures),
        several => table(several, names),
    };
    Some(html! { (body) (legend(&headlines)) })
}

fn cards(figures: &[Figure]) -> Markup {
    html! {
        ul.cards {
            @for figure in figures {
                li.card.disturbed[figure.disturbed] id={ "figure-" (figure.key) } {
                    div.name { span { (figure.name) } (pill(figure)) }
                    div.value {
                        b { (figure.quantity()) }
                        span.ci { (figure.interval_text()) @if figure.disturbed { " " span title="disturbed" { "⚠" } } }
                    }
                    @if let Some(standing) = &figure.standing { (gauge(standing)) }
                    p {
                        (figure.meaning)
                        @if let Some((name, grade)) = figure.standing.and_then(|s| s.otherwise) {
                            span.quiet { " · " (grade.word()) " by " (name) }
                        }
                    }
                }
            }
        }
    }
}

fn table(headlines: &[Headline], names: &[String]) -> Markup {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for figure in headlines.iter().flat_map(|headline| &headline.figures) {
        if !keys.iter().any(|(key, _)| *key == figure.key) {
            keys.push((figure.key, figure.name));
        }
    }
    let find = |headline: &Headline, key: &str| -> Option<Markup> {
        let figure = headline.figures.iter().find(|figure| figure.key == key)?;
        Some(html! {
            b title=(figure.meaning) { (figure.quantity()) } @if figure.disturbed { " ⚠" }
            " " (pill(figure))
        })
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Figures" {
            table.headline {
                thead { tr { th scope="col" {} @for name in names { th scope="col" { (name) } } } }
                tbody {
                    @for (key, name) in keys {
                        tr {
                            th scope="row" { (name) }
                            @for (headline, result) in headlines.iter().zip(names) {
                                td data-name=(result) { (find(headline, key).unwrap_or(html! { span.quiet { "–" } })) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The grade in a word and a colour, with how many times the reference it is.
fn pill(figure: &Figure) -> Markup {
    let Some(standing) = &figure.standing else {
        return html! { span.pill.none title="no reference has the like" { "no reference" } };
    };
    let sign = match standing.grade {
        Grade::Good => "▾",
        Grade::Usual => "•",
        Grade::Bad => "▴",
        Grade::Unclear => "?",
    };
    let trips = if standing.in_round_trips { ", in round trips of the cache line" } else { "" };
    html! {
        span class={ "pill " (standing.grade.word()) } title={ (standing.times()) " " (standing.reference) (trips) } {
            (sign) " " (standing.grade.word()) " " (standing.times())
        }
    }
}

/// Gauge of the figure between a quarter and four times the reference, on which good, usual and bad
/// are marked.
fn gauge(standing: &Standing) -> Markup {
    let at = |ratio: f64| (50.0 + 50.0 * ratio.ln() / SCALE.ln()).clamp(1.0, 99.0);
    let (good, bad) = (at(GOOD), at(BAD));
    html! {
        svg.gauge viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
            rect.good x="0" y="2" width=(format!("{good:.1}")) height="2" {}
            rect.usual x=(format!("{good:.1}")) y="2" width=(format!("{:.1}", bad - good)) height="2" {}
            rect.bad x=(format!("{bad:.1}")) y="2" width=(format!("{:.1}", 100.0 - bad)) height="2" {}
            rect.here x=(format!("{:.1}", at(standing.ratio) - 0.8)) y="0" width="1.6" height="6" {}
        }
    }
}

/// Legend: the meaning of the words, and the reference they are from.
fn legend(headlines: &[Headline]) -> Markup {
    let mut names: Vec<&str> = Vec::new();
    let mut said = Vec::new();
    for reference in headlines.iter().filter_map(|headline| headline.reference) {
        if !names.contains(&reference.name()) {
            names.push(reference.name());
            said.push((reference.name(), reference.date(), reference.conditions()));
        }
    }
    html! {
        p.small {
            span.pill.good { "▾ good" } " costs at most two thirds of what the reference does, "
            span.pill.bad { "▴ bad" } " at least half as much again, "
            span.pill.usual { "• usual" } " is what lies between, each with its whole interval; "
            span.pill.unclear { "? unclear" } " is what an interval too wide leaves between two of these. Intervals in brackets are of 95" (THIN) "%; \
            of the cache line, what 90" (THIN) "% of its round trips lay in."
            @for (name, date, conditions) in &said {
                " Reference: " b { (name) } ", " (date) " (" (with_code(conditions)) ")."
            }
        }
    }
}

/// Text in which what stands between backticks is a command.
fn with_code(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Advised actions, the most urgent first.
pub(super) fn advice(results: &[Results], names: &[String]) -> Option<Markup> {
    let all: Vec<_> = results
        .iter()
        .zip(names)
        .map(|(r, name)| (name, headline(r).advice))
        .filter(|(_, advice)| !advice.is_empty())
        .collect();
    (!all.is_empty()).then(|| {
        html! {
            @for (name, advice) in &all {
                @if results.len() > 1 { h3 { (name) } }
                ul.advice {
                    @for one in advice { li { b { (one.finding) } " " (one.action) } }
                }
            }
        }
    })
}
