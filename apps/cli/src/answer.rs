//! The end of `kumiki measure` and `kumiki report`: what the machine costs, how
//! that stands to a reference, and what to do, in a screen of a terminal.
//!
//! ```text
//! figure   × reference  grade  name: meaning          a dozen, or the rows of
//! …                                                   a selection
//! → what to do                                        the most urgent
//! what was disturbed · the result's name · the page
//! ```

use std::path::Path;

use kumiki_measure::schema::{Results, Row, Unit};
use kumiki_report::format;
use kumiki_report::headline::{Advice, Figure, Headline, Standing, headline, much_disturbed};
use kumiki_report::reference::Reference;
use kumiki_sys::visible::visible;

use crate::{disturbed, output};

/// A result with fewer figures than this is a selection: its rows are shown, too.
const A_FEW: usize = 4;
/// Separators of a meaning's parts; each part says something without those after it.
const PARTS: [&str; 5] = ["; ", ", ", " · ", " and ", " on "];
/// Mark beside a ratio of round trips.
const OF_TRIPS: &str = "*";
/// Rows of a selection that are shown.
const ROWS: usize = 8;
/// Lines of the answer at most, unless all is to be said.
const LINES: usize = 24;

/// Subject and parts of the answer.
pub(crate) struct Answer<'a> {
    /// `result 3`, `@epyc-zen4-kvm-6.18`, a file.
    pub(crate) name: &'a str,
    pub(crate) results: &'a Results,
    /// The page that was written.
    pub(crate) page: Option<&'a Path>,
    /// Name every disturbed row, say all there is to do.
    pub(crate) verbose: bool,
    /// True if all rows stand above the answer already.
    pub(crate) rows_above: bool,
}

impl Answer<'_> {
    /// Lines that fit [`output::WIDTH`] columns, but for a long path.
    pub(crate) fn text(&self) -> String {
        let headline = headline(self.results);
        let mut text = output::wrapped(&self.heading(headline.reference), "");
        if self.results.rows.is_empty() {
            return text + "Nothing was measured.\n" + &self.where_it_is(None);
        }
        for figure in &headline.figures {
            text += &line(of_figure(figure));
        }
        if headline.figures.len() < A_FEW {
            text += &self.rows(&headline);
        }
        text += &legend(&text);
        let mut end = String::new();
        // Where much was disturbed it is the first advice.
        if self.verbose || !much_disturbed(self.results) {
            end += &disturbed::text(self.results, self.verbose);
        }
        end += &self.where_it_is(headline.reference);
        let height = |text: &str| text.lines().count();
        let advice = headline.advice.iter().map(to_do);
        for advice in disagreement(&headline.figures).into_iter().chain(advice) {
            if self.verbose || height(&text) + height(&advice) + height(&end) <= LINES {
                text += &advice;
            }
        }
        text + &end
    }

    fn heading(&self, reference: Option<&Reference>) -> String {
        let machine = &self.results.machine;
        let mut words = vec![machine.cpu_model.clone()];
        let cpus = if machine.cpus == 1 { "cpu" } else { "cpus" };
        words.push(format!("{} {cpus}", machine.cpus));
        words.push(format!("Linux {}", machine.kernel));
        words.extend(machine.hypervisor.as_ref().map(|name| format!("under {name}")));
        words.retain(|word| !word.trim().is_empty());
        let interrupted = if self.results.run.complete { "" } else { "Interrupted; until then: " };
        let beside = reference.map(|r| format!("; beside @{}, {}", r.name(), r.date()));
        format!("{interrupted}{}{}", words.join(", "), beside.unwrap_or_default())
    }

    /// The rows of a selection: all, or the first and the last of each case.
    fn rows(&self, headline: &Headline) -> String {
        let is_above = |row: &&Row| {
            headline.figures.iter().any(|f| f.value == row.median && f.unit == row.unit)
        };
        let rows: Vec<&Row> = self.results.rows.iter().filter(|row| !is_above(row)).collect();
        let ends = |i: usize| {
            let own = |other: Option<&Row>| other.is_some_and(|other| other.case == rows[i].case);
            !own(i.checked_sub(1).map(|i| rows[i])) || !own(rows.get(i + 1).copied())
        };
        let mut shown: Vec<&Row> = rows.clone();
        if shown.len() > ROWS {
            shown = (0..rows.len()).filter(|&i| ends(i)).map(|i| rows[i]).take(ROWS).collect();
        }
        let mut text: String =
            shown.iter().map(|row| line(of_row(row, headline.reference))).collect();
        let more = rows.len() - shown.len();
        if more > 0 && !self.rows_above {
            text += &format!("{:>28}and {more} more rows\n", "");
        }
        text
    }

    fn where_it_is(&self, reference: Option<&Reference>) -> String {
        let Answer { name, results, page, .. } = self;
        let label = results.run.label.as_ref().map(|label| format!(" ({label})"));
        let (rows, seconds) = (results.rows.len(), format::wait(results.run.seconds));
        let sentence = format!(
            "{name}{}: {rows} {} in {seconds}",
            label.unwrap_or_default(),
            if rows == 1 { "row" } else { "rows" }
        );
        let mut text = output::wrapped(&sentence, "");
        let stored = name.strip_prefix("result ");
        if let (Some(id), Some(reference)) = (stored, reference) {
            // On a line of its own, to be copied.
            text += &format!("Each row: kumiki compare @{} {id}\n", reference.name());
        }
        if let Some(page) = page {
            text += &format!("Page: {}\n", visible(page.display()));
        }
        text
    }
}

/// A line's columns: the figure, its ratio to the reference, what to think of
/// that, and in words what it is.
struct Line {
    figure: String,
    disturbed: bool,
    ratio: String,
    grade: &'static str,
    name: String,
    meaning: String,
}

fn of_figure(figure: &Figure) -> Line {
    let standing = figure.standing;
    Line {
        figure: figure.quantity(),
        disturbed: figure.disturbed,
        ratio: standing.map(ratio).unwrap_or_default(),
        grade: standing.map_or("", |standing| standing.grade.word()),
        name: figure.name.to_owned(),
        meaning: figure.meaning.clone(),
    }
}

fn ratio(standing: Standing) -> String {
    let mark = if standing.in_round_trips { OF_TRIPS } else { "" };
    format!("{}{mark}", format::times(standing.ratio))
}

fn of_row(row: &Row, reference: Option<&Reference>) -> Line {
    let same = |other: &&Row| {
        other.case == row.case && other.params == row.params && other.unit == row.unit
    };
    let other = reference.and_then(|reference| reference.results().rows.iter().find(same));
    // Rows of time alone: how many times a rate or a share is more says no cost.
    let other = other.filter(|other| other.unit == Unit::Nanoseconds && other.median > 0.0);
    Line {
        figure: format::quantity(row.median, row.unit),
        disturbed: row.disturbed,
        ratio: other.map(|other| format::times(row.median / other.median)).unwrap_or_default(),
        grade: "",
        name: row.case.clone(),
        meaning: output::params(&row.params),
    }
}

/// One line. Of a meaning that is too long the last parts are left out.
fn line(line: Line) -> String {
    let Line { figure, disturbed, ratio, grade, name, meaning } = line;
    let mark = output::mark(disturbed);
    let start = format!("{mark:<1} {figure:>9} {ratio:>8} {grade:<7} ");
    let room = output::WIDTH - start.chars().count();
    let mut rest = meaning.as_str();
    let whole = loop {
        let whole = if rest.is_empty() { name.clone() } else { format!("{name}: {rest}") };
        if rest.is_empty() || whole.chars().count() <= room {
            break whole;
        }
        let cut = PARTS.iter().filter_map(|mark| rest.rfind(mark)).max();
        rest = &rest[..cut.unwrap_or(0)];
    };
    format!("{}\n", visible(format!("{start}{whole}").trim_end()))
}

/// Meaning of the marks above it, as far as there are any, in a line.
fn legend(above: &str) -> String {
    let mut marks = Vec::new();
    if above.lines().any(|line| line.starts_with("! ")) {
        marks.push("! disturbed".to_owned());
    }
    if above.contains('×') {
        marks.push("× of the reference".to_owned());
    }
    if above.contains(&format!("×{OF_TRIPS}")) {
        marks.push(format!("{OF_TRIPS} in line round trips"));
    }
    if above.contains(" unclear ") {
        marks.push("unclear: too wide".to_owned());
    }
    if marks.is_empty() { String::new() } else { format!("({})\n", marks.join(" · ")) }
}

/// Places where another reference disagrees with the one that is shown.
fn disagreement(figures: &[Figure]) -> Option<String> {
    let other = |figure: &Figure| {
        let (name, grade) = figure.standing?.otherwise?;
        Some(format!("{}, {} by @{name}", figure.name, grade.word()))
    };
    let others: Vec<String> = figures.iter().filter_map(other).collect();
    let text = || output::wrapped(&format!("References disagree: {}.", others.join("; ")), "");
    (!others.is_empty()).then(text)
}

fn to_do(advice: &Advice) -> String {
    output::wrapped(&format!("{} → {}", advice.finding, advice.action), "")
}

#[cfg(test)]
mod tests {
    use kumiki_report::reference;

    use super::*;

    fn answer<'a>(results: &'a Results, page: &'a Path) -> Answer<'a> {
        Answer { name: "result 7", results, page: Some(page), verbose: false, rows_above: false }
    }

    /// Lines of the answer, checked to fit.
    fn lines(results: &Results) -> Vec<String> {
        let text = answer(results, Path::new("/home/somebody/kumiki-report.html")).text();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for line in &lines {
            assert!(line.chars().count() <= output::WIDTH, "{line}");
            assert_eq!(line.trim_end(), line);
        }
        lines
    }

    #[test]
    fn a_whole_result_is_8_to_24_lines() {
        for reference in reference::all() {
            let lines = lines(reference.results());
            assert!((8..=24).contains(&lines.len()), "{} lines: {lines:#?}", lines.len());
            let all = lines.join("\n");
            assert!(all.contains("system call: into the kernel"), "{all}");
            assert!(all.contains("1.00\u{202f}× usual"), "it is its own reference: {all}");
            assert_eq!(lines.iter().filter(|line| line.starts_with('(')).count(), 1, "{all}");
            assert!(all.contains("result 7") && all.contains("compare @"), "{all}");
            assert_eq!(lines.last().unwrap(), "Page: /home/somebody/kumiki-report.html");
        }
    }

    #[test]
    fn a_selection_is_shown_row_by_row() {
        let mut results = reference::all()[0].results().clone();
        let whole = lines(&results).len();
        results.rows.retain(|row| row.case.starts_with("signal."));
        results.slopes.clear();
        let shown = lines(&results);
        assert!(
            shown.len() < whole && shown.iter().any(|line| line.contains("signal.")),
            "{shown:#?}"
        );
        results.rows.truncate(1);
        let shown = lines(&results);
        assert!(shown.iter().any(|line| line.contains("1.00\u{202f}×")), "{shown:#?}");
        results.rows.clear();
        assert!(lines(&results).join(" ").contains("Nothing was measured"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_end() {
        let with = |meaning: &str| {
            line(Line {
                figure: "36.0\u{202f}ms".to_owned(),
                disturbed: true,
                ratio: "1.30\u{202f}×".to_owned(),
                grade: "usual",
                name: "fork with 1 GiB written".to_owned(),
                meaning: meaning.to_owned(),
            })
        };
        let start = "!   36.0\u{202f}ms   1.30\u{202f}× usual   fork with 1 GiB written";
        assert_eq!(
            with("137 ns a page, by many more sizes; and more"),
            format!("{start}: 137 ns a page\n")
        );
        assert_eq!(with(&"long ".repeat(20)), format!("{start}\n"));
        assert_eq!(with(""), format!("{start}\n"));
    }
}
