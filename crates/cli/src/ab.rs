//! `kumiki ab`: two commands in interleaved pairs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use kumiki_ab::trial::{self, Progress};
use kumiki_ab::{Outcome, Plan, Side};
use kumiki_measure::machine;
use kumiki_report::{ab as shown, format};
use kumiki_sys::visible::visible;

use crate::destination::Destination;
use crate::interrupt::Interrupt;
use crate::percent::percent;
use crate::{Verdict, output};

/// Between the two commands.
const BETWEEN: &str = "---";

#[derive(Debug, Args)]
pub(crate) struct Ab {
    /// The two commands, `---` between them; one where --vs makes the difference
    #[arg(last = true, required = true, value_name = "CMD")]
    commands: Vec<String>,
    /// The least difference that matters, in percent
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT", value_parser = percent)]
    detect: f64,
    /// At most so many pairs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Begin no pair after this: 30, 90s, 5m, 1h
    #[arg(long = "for", default_value = "2m", value_name = "TIME", value_parser = span)]
    span: Duration,
    /// Go on to the end even if the verdict stands
    #[arg(long)]
    all: bool,
    /// A variable of both commands, of A alone where --vs gives another value
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A variable of B
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    vs: Vec<(String, String)>,
    /// The one cpu that both run on
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// A shell line before each run, outside its time
    #[arg(long, value_name = "LINE")]
    prepare: Option<String>,
    /// Each command is a line for the shell, whose own start then counts
    #[arg(long)]
    shell: bool,
    /// Count runs that fail
    #[arg(long)]
    ignore_failure: bool,
    /// Keep the whole outcome, every run in it, in a JSON file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
    /// Print the whole outcome as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// How an outcome is printed.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Form {
    /// For a person
    Text,
    /// The whole outcome
    Json,
    /// For a comment on a pull request
    Markdown,
    /// For a metrics file
    Prometheus,
}

pub(crate) fn run(args: Ab) -> Result<Verdict> {
    output::check()?;
    let save = args.save.as_deref().map(Destination::new).transpose()?;
    let form = if args.json { Form::Json } else { args.format };
    let plan = plan(args)?;
    let scratch = tempfile::Builder::new().prefix("kumiki-").tempdir()?;
    let place = machine::place(None, scratch.path())?;
    let meter = kumiki_measure::meter::Meter::new(kumiki_sys::clock::Clock::new());
    let described = machine::describe(&place, &meter)?;
    let started = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let interrupt = Interrupt::watch(scratch.path())?;
    let bar = bar();
    let outcome = trial::run(plan, interrupt.stop(), |progress| show(&bar, progress));
    bar.finish_and_clear();
    let outcome = Outcome { machine: described, started, ..outcome? };
    if let Some(save) = save {
        save.write(|out| Ok(serde_json::to_writer(out, &outcome)?))?;
    }
    print(&outcome, form)?;
    Ok(match interrupt.signal() {
        Some(signal) => Verdict::Interrupted(signal),
        None => Verdict::Exit(outcome.verdict.exit_status()),
    })
}

/// What the arguments say.
fn plan(args: Ab) -> Result<Plan> {
    let mut sides = args.commands.split(|word| word == BETWEEN).map(<[String]>::to_vec);
    let (first, second) = (sides.next().unwrap_or_default(), sides.next());
    if sides.next().is_some() {
        bail!("`---` stands between the two commands, once");
    }
    if first.is_empty() || second.as_ref().is_some_and(Vec::is_empty) {
        bail!("a command is missing: kumiki ab -- CMD… --- CMD…");
    }
    let second = match (second, args.vs.is_empty()) {
        (Some(second), _) => second,
        (None, false) => first.clone(),
        (None, true) => bail!(
            "there is one command: give the other after `---`, or what differs for B by --vs \
             NAME=VALUE"
        ),
    };
    let side = |words, more: &[(String, String)]| {
        let mut env = args.env.clone();
        env.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        env.extend_from_slice(more);
        Side { words, env, shell: args.shell }
    };
    let (a, b) = (side(first, &[]), side(second, &args.vs));
    Ok(Plan {
        detect: args.detect / 100.0,
        pairs: args.pairs.map(|pairs| pairs as usize),
        span: args.span,
        all: args.all,
        prepare: args.prepare,
        cpu: args.cpu,
        ignore_failure: args.ignore_failure,
        ..Plan::new(a, b)
    })
}

fn print(outcome: &Outcome, form: Form) -> Result<()> {
    match form {
        Form::Json => return output::json(outcome),
        Form::Markdown => return output::text(shown::markdown(outcome)),
        Form::Prometheus => return output::data(shown::prometheus(outcome).as_bytes()),
        Form::Text => {}
    }
    let mut text = String::new();
    if outcome.interrupted {
        text += "Interrupted; until then:\n";
    }
    text += &output::wrapped(&shown::sentence(outcome), "");
    if let Some(clear) = &outcome.clear {
        text += &output::wrapped(&shown::remedy(clear), "");
    }
    if let Some((headings, rows)) = shown::table(outcome) {
        let shown = if output::narrow(output::WIDE) { 5 } else { headings.len() };
        let mut table = output::Rows::new(&headings[..shown], 1);
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

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3} %  {msg}")
        .expect("the template is a constant");
    ProgressBar::new(1000).with_style(style)
}

fn show(bar: &ProgressBar, progress: Progress) {
    let Progress { pairs, of, seconds: [passed, span], ratio, interval } = progress;
    let by_pairs = of.map_or(0.0, |of| pairs as f64 / of as f64);
    let done = (passed / span.max(1e-3)).max(by_pairs).min(1.0);
    bar.set_position((done * 1000.0) as u64);
    let interval = interval.map_or(String::new(), |[low, high]| format!(" [{low:.3}, {high:.3}]"));
    bar.set_message(format!("{pairs} pairs, {}: {ratio:.3} × A{interval}", format::wait(passed)));
}

/// `30`, `90s`, `5m`, `1h`.
fn span(text: &str) -> Result<Duration, String> {
    let units = [("h", 3600.0), ("min", 60.0), ("m", 60.0), ("s", 1.0)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))
        .unwrap_or((text, 1.0));
    let seconds = number.trim().parse::<f64>().ok().map(|n| n * unit);
    seconds
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a time as 30, 90s, 5m or 1h".to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let seconds = |text| span(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("30"), Ok(30.0));
        assert_eq!(seconds("1.5m"), Ok(90.0));
        assert_eq!(seconds("2min"), Ok(120.0));
        for odd in ["", "0", "-5", "NaN", "inf", "1e300h", "soon"] {
            assert!(span(odd).is_err(), "{odd}");
        }
    }
}
