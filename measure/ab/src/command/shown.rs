//! An outcome on the terminal, and progress until then.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use kumiki_measure::format;
use kumiki_sys::visible::visible;
use kumiki_terminal::output;
use kumiki_terminal::rows::{Rows, narrow};

use super::Form;
use crate::trial::Progress;
use crate::{Outcome, told};

pub(super) fn print(outcome: &Outcome, form: Form) -> Result<()> {
    match form {
        Form::Json => return output::json(outcome),
        Form::Markdown => return output::text(told::markdown(outcome)),
        Form::Prometheus => return output::data(told::prometheus(outcome).as_bytes()),
        Form::Hyperfine => return output::json(&told::hyperfine(outcome)),
        Form::Hyperfine2 => return output::json(&told::hyperfine2(outcome)),
        Form::Text => {}
    }
    let mut text = String::new();
    if outcome.interrupted {
        text += "Interrupted; until then:\n";
    }
    text += &output::wrapped(&told::sentence(outcome), "");
    if let Some(against) = &outcome.against {
        text += &output::wrapped(&told::against(against, outcome.detect), "");
    }
    let more = told::others(outcome);
    if !more.is_empty() {
        text += &output::wrapped(&more.join(" "), "");
    }
    if let Some(clear) = &outcome.clear {
        text += &output::wrapped(&told::remedy(clear), "");
    }
    if let Some((headings, rows)) = told::table(outcome) {
        let shown = if narrow(output::WIDE) { 5 } else { headings.len() };
        let mut table = Rows::new(&headings[..shown], 1);
        for row in rows {
            table.add(&row[..shown]);
        }
        text += &format!("{table}\n");
    }
    for (name, side) in [("A", &outcome.a), ("B", &outcome.b)] {
        let command = visible(side.command()).to_string();
        text += &output::hanging(&command, &format!("{name}: "), "   ");
    }
    for note in &outcome.notes {
        text += &output::hanging(&note.to_string(), "! ", "  ");
    }
    output::text(text)
}

pub(super) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}")
        .expect("the template is a constant");
    ProgressBar::new(1000).with_style(style)
}

pub(super) fn show(bar: &ProgressBar, progress: Progress) {
    let Progress { pairs, of, seconds: [passed, span], ratio, interval, .. } = progress;
    let by_pairs = of.map_or(0.0, |of| pairs as f64 / of as f64);
    let done = (passed / span.max(1e-3)).max(by_pairs).min(1.0);
    bar.set_position((done * 1000.0) as u64);
    let interval = interval.map_or(String::new(), |[low, high]| format!(" [{low:.3}, {high:.3}]"));
    bar.set_message(format!("{pairs} pairs, {}: {ratio:.3} × A{interval}", format::wait(passed)));
}
