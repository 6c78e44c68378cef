//! The page: one file that needs nothing else, on a screen or on paper.

mod figure;
mod first_screen;

pub(crate) use figure::grid;

use std::collections::{BTreeSet, HashMap};

use kumiki_measure::compare::{Comparison, compare};
use kumiki_measure::schema::{Results, Slope};
use maud::{Markup, html};

use crate::figures::{self, PageFigure};
use crate::frame::{Section, whole};
use crate::papers::PAPERS;
use crate::questions::QUESTIONS;
use crate::{answers, machine, rows, tables};

/// A section of at most so many charts leaves room for another beside it.
const NARROW: usize = 1;

/// A difference that matters between two results, as `kumiki compare` has it.
const MATTERS: f64 = 0.05;

/// Said above the first charts.
const HOW_TO_READ: &str = "In the charts bars are 95 % intervals, and hollow marks were disturbed by \
                           other work. Point at a mark for its value, drag to zoom, press a name to \
                           hide its line.";

/// One HTML page for one result, or for several side by side: the first is what
/// the others are compared with. It works without a network and in print.
pub fn html(results: &[Results]) -> String {
    let names = machine::names(results);
    let title = match names.as_slice() {
        [] => "No result".to_owned(),
        [one] => {
            format!("What the operating system costs on {}", machine::title(one, &results[0]))
        }
        several => format!("What the operating system costs: {}", several.join(", ")),
    };
    let sections = Writer::new(results, &names).sections();
    whole(&title, &first_screen::masthead(results, &names, &title), &sections, Some(NOTES))
}

/// Writes the sections, and knows which figures and rows already have a place.
struct Writer<'a> {
    results: &'a [Results],
    names: &'a [String],
    /// Every figure's anchor.
    ids: Vec<String>,
    /// Figures that have no place yet.
    figures: Vec<PageFigure>,
    /// Figures that were made for a part unasked.
    unasked: HashMap<String, Vec<PageFigure>>,
    /// Each result's rows and slopes by part.
    parts: Vec<HashMap<&'a str, PartRows<'a>>>,
    sections: Vec<Section>,
}

/// A result's share of a part.
struct PartRows<'a> {
    part: rows::Part<'a>,
    slopes: Vec<&'a Slope>,
}

fn by_part(results: &Results) -> HashMap<&str, PartRows<'_>> {
    let parts = rows::by_part(results).into_iter();
    let mut parts: HashMap<&str, PartRows<'_>> =
        parts.map(|part| (part.name, PartRows { part, slopes: Vec::new() })).collect();
    for slope in &results.slopes {
        if let Some(own) = parts.get_mut(rows::part_of(&slope.case)) {
            own.slopes.push(slope);
        }
    }
    parts
}

impl<'a> Writer<'a> {
    fn new(results: &'a [Results], names: &'a [String]) -> Self {
        let all = figures::figures(results, names);
        let ids = all.iter().map(|figure| figure.id.clone()).collect();
        let (mut figures, mut unasked) = (Vec::new(), HashMap::<String, Vec<PageFigure>>::new());
        for figure in all {
            match &figure.part {
                Some(part) => unasked.entry(part.clone()).or_default().push(figure),
                None => figures.push(figure),
            }
        }
        let parts = results.iter().map(by_part).collect();
        Writer { results, names, ids, figures, unasked, parts, sections: Vec::new() }
    }

    fn sections(mut self) -> Vec<Section> {
        self.first_screen();
        self.comparison();
        self.questions();
        self.others();
        self.not_measured();
        self.machine();
        self.papers();
        self.sections
    }

    fn add(&mut self, id: &str, short: &str, title: &str, body: Markup) {
        self.add_as_wide(id, short, title, body, false);
    }

    fn add_as_wide(&mut self, id: &str, short: &str, title: &str, body: Markup, narrow: bool) {
        let [id, short, title] = [id, short, title].map(str::to_owned);
        self.sections.push(Section { id, short, title, body, narrow });
    }

    /// Each result's own text, under its name where there are several.
    fn each(&self, body: impl Fn(&Results) -> Option<Markup>) -> Markup {
        self.each_at(|at| body(&self.results[at]))
    }

    /// Each result's own text, by the result's place.
    fn each_at(&self, body: impl Fn(usize) -> Option<Markup>) -> Markup {
        html! {
            @for (at, name) in self.names.iter().enumerate() {
                @if let Some(body) = body(at) {
                    @if self.results.len() > 1 { div { h3 { (name) } (body) } } @else { (body) }
                }
            }
        }
    }

    fn first_screen(&mut self) {
        if let Some(body) = first_screen::figures(self.results, self.names) {
            self.add("figures", "At a glance", "At a glance", body);
        }
        if let Some(body) = first_screen::advice(self.results, self.names) {
            self.add("advice", "What to do", "What to do", body);
        }
    }

    fn comparison(&mut self) {
        if self.results.len() < 2 {
            return;
        }
        let others = self.results[1..].iter();
        let comparisons: Vec<Comparison> =
            others.map(|other| compare(&self.results[0], other, MATTERS)).collect();
        let body = html! {
            (figure::sentences(&answers::compared(&comparisons, self.names)))
            (folded("By families of rows", &tables::families(&comparisons, self.names)))
            p { "Medians, and each as a multiple of " b { (self.names[0]) } "’s. Where the 95 % \
                 confidence intervals overlap, no difference is shown." }
            (folded("Every row side by side", &tables::comparison(self.results, self.names)))
        };
        self.add("comparison", "Comparison", "How do they compare?", body);
    }

    fn questions(&mut self) {
        let mut explained = false;
        for question in &QUESTIONS {
            let figures = self.take(question.figures, question.parts);
            let answers = self.each(|r| {
                let said = question.answer(r);
                (!said.is_empty()).then(|| figure::sentences(&said))
            });
            let rows = self.rows(question.parts);
            if figures.is_empty() && answers.0.is_empty() && rows.0.is_empty() {
                continue;
            }
            let to_do = question.to_do(self.results);
            let body = html! {
                @if self.results.len() > 1 { div.two { (answers) } } @else { (answers) }
                @if !to_do.is_empty() { p.to-do { b { "What to do. " } (to_do.join(" ")) } }
                @if !figures.is_empty() && !explained { p.small.how { (HOW_TO_READ) } }
                (figure::grid(&figures))
                (rows)
            };
            explained |= !figures.is_empty();
            let narrow = figures.len() <= NARROW;
            self.add_as_wide(question.id, question.short, question.title, body, narrow);
        }
    }

    /// The figures of these names, and those made unasked for these parts.
    fn take(&mut self, ids: &[&str], parts: &[&str]) -> Vec<PageFigure> {
        let mut taken = Vec::new();
        if !ids.is_empty() {
            let rank = |figure: &PageFigure| ids.iter().position(|id| *id == figure.id);
            let (own, rest): (Vec<PageFigure>, Vec<PageFigure>) =
                self.figures.drain(..).partition(|figure| rank(figure).is_some());
            (taken, self.figures) = (own, rest);
            taken.sort_by_key(|figure| rank(figure));
        }
        taken.extend(parts.iter().filter_map(|part| self.unasked.remove(*part)).flatten());
        taken
    }

    /// Every row of these parts, and the slopes below them, folded.
    fn rows(&self, parts: &[&str]) -> Markup {
        let own = |at: usize| parts.iter().filter_map(move |part| self.parts[at].get(part));
        let results = 0..self.results.len();
        let count: usize =
            results.flat_map(own).flat_map(|own| &own.part.cases).map(|(_, rows)| rows.len()).sum();
        let tables = self.each_at(|at| {
            let own: Vec<_> = own(at).collect();
            (!own.is_empty()).then(|| html! { @for own in &own { (tables::part(&own.part)) } })
        });
        let slopes = self.each_at(|at| {
            let slopes: Vec<&Slope> = own(at).flat_map(|own| own.slopes.iter().copied()).collect();
            (!slopes.is_empty()).then(|| tables::slopes(&slopes))
        });
        html! {
            @if count == 1 { (folded("The one row", &tables)) }
            @else if count > 1 { (folded(&format!("All {count} rows"), &tables)) }
            @if !slopes.0.is_empty() { (folded("How cost grows with size: slopes", &slopes)) }
        }
    }

    /// Rows of parts that no question is about.
    fn others(&mut self) {
        let known = |part: &str| QUESTIONS.iter().any(|question| question.parts.contains(&part));
        let all = self.results.iter().flat_map(|r| &r.rows).map(|row| rows::part_of(&row.case));
        let parts: BTreeSet<&str> = all.filter(|part| !known(part)).collect();
        for part in parts {
            let figures = self.take(&[], &[part]);
            let body = html! { (figure::grid(&figures)) (self.rows(&[part])) };
            let anchor = part.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            self.add(&format!("rows-{anchor}"), part, part, body);
        }
    }

    fn not_measured(&mut self) {
        let count: usize = self.results.iter().map(|r| r.skipped.len()).sum();
        if count == 0 {
            return;
        }
        let all = self.each(|r| (!r.skipped.is_empty()).then(|| tables::skipped(&r.skipped)));
        let title =
            format!("{count} {}, each with the reason", if count == 1 { "case" } else { "cases" });
        let body = folded(&title, &all);
        self.add("skipped", "Not measured", "What could not be measured here?", body);
    }

    fn machine(&mut self) {
        if self.results.is_empty() {
            return;
        }
        let body = self.each(|r| {
            Some(html! {
                div.two {
                    div { (facts(machine::facts(&r.machine))) }
                    div {
                        @if r.run.command.is_empty() { p { "The command was not recorded." } }
                        @else { pre { code { (r.run.command) } } }
                        (facts(machine::run_facts(r)))
                    }
                }
            })
        });
        let body = html! { @if self.results.len() > 1 { div.two { (body) } } @else { (body) } };
        self.add(
            "machine",
            "Machine and run",
            "Which machine was it, and how is it measured again?",
            body,
        );
    }

    fn papers(&mut self) {
        let mut left = std::mem::take(&mut self.figures);
        let mut body = html! {};
        for paper in &PAPERS {
            let (mut own, rest): (Vec<PageFigure>, Vec<PageFigure>) =
                left.into_iter().partition(|figure| paper.figures.contains(&figure.id.as_str()));
            left = rest;
            own.sort_by_key(|figure| paper.figures.iter().position(|id| *id == figure.id));
            let tables = self.each(paper.tables);
            let links = paper.links(&self.ids);
            if own.is_empty() && tables.0.is_empty() && links.is_none() {
                continue;
            }
            body = html! {
                (body)
                div.paper id=(paper.id) {
                    h3 { (paper.authors) ": " cite { (paper.title) } ", " (paper.year) }
                    p { (paper.about) }
                    @if let Some(links) = links { (links) }
                    (figure::grid(&own))
                    @if !tables.0.is_empty() { (folded("Its tables, beside what the paper gives", &tables)) }
                }
            };
        }
        if !body.0.is_empty() {
            self.add(
                "papers",
                "The papers’ figures",
                "What did the papers measure, and what is it here?",
                body,
            );
        }
    }
}

fn folded(title: &str, body: &Markup) -> Markup {
    html! { details { summary { (title) } (body) } }
}

fn facts(facts: Vec<(&'static str, String)>) -> Markup {
    html! { dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

/// Notes on how the figures were made.
const NOTES: &str = "Medians over all samples; none was dropped. Confidence intervals are bootstrapped \
                     over visits and samples, and widened by how far the core’s clock moved. Time of \
                     a page is for 4 KiB. A row between two cpus is also given as a multiple of the \
                     raw cache-line round trip measured beside it, because on a virtual machine that \
                     round trip itself moves. A slope is flat where its interval holds zero and the cost \
                     changes by at most a tenth over all sizes; where the interval holds zero and \
                     more than that, the costs of the smallest and the largest size tell whether \
                     it grows, if their intervals are far enough apart; else it is unclear.";
