//! The command: `kumiki ab`, and `kumiki-ab` where nothing else of Kumiki is there.

mod certificate;
mod lines;
mod read;
mod shown;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use kumiki_measure::machine;
use kumiki_measure::schema::Machine;
use kumiki_sys::directory::remove_with_company;
use kumiki_terminal::destination::Destination;
use kumiki_terminal::duration::positive;
use kumiki_terminal::interrupt::{Interrupt, Signal};
use kumiki_terminal::output;
use kumiki_terminal::percent::percent;

use crate::{Against, Measure, Outcome, Plan, Side, Verdict, trial};

/// Word between the two commands.
const BETWEEN: &str = "---";

/// Program whose command it is.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its name, for what it says: `kumiki`.
    pub name: &'a str,
    /// Words by which it is asked to compare: `kumiki ab`.
    pub words: &'a str,
    /// The program `kumiki`, which measures a case.
    pub kumiki: &'a Path,
}

/// End of the command.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// Exit status that is the verdict.
    Status(u8),
    /// A person ended it early.
    Interrupted(Signal),
}

/// Words of the command line.
#[derive(Debug, Args)]
pub struct Options {
    /// The two commands, `---` between them; one where --vs makes the difference
    #[arg(last = true, value_name = "CMD",
        required_unless_present_any = ["case", "certify", "against", "file"])]
    commands: Vec<String>,
    /// The least difference that matters, in percent
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT", value_parser = percent)]
    detect: f64,
    /// Measure that decides; else wall time where it can, and processor time where that is sure first
    #[arg(long, value_enum, value_name = "MEASURE", conflicts_with_all = ["case", "certify"])]
    by: Option<Gauge>,
    /// Largest number of pairs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Begin no pair after this: 90s, 5m, 1h
    #[arg(long = "for", default_value = "2m", value_name = "TIME", value_parser = positive)]
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
    /// Compare this case of `kumiki measure` by its own figure; a command is then what runs
    /// it: -- kumiki node exec n1 -- --- kumiki node exec n2 --
    #[arg(long, value_name = "CASE", conflicts_with_all = ["shell", "file", "certify"])]
    case: Option<String>,
    /// Compare with the B of an outcome that was kept: A is run again, in pairs with CMD, or
    /// with that B itself if there is none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "case", "env", "vs", "certify"])]
    against: Option<PathBuf>,
    /// Compare the two commands of each line of this file, `---` between them, by the shell
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["commands", "save", "env", "vs", "certify"])]
    file: Option<PathBuf>,
    /// Say how small a difference this machine can see in that time, and on which cpus and at
    /// which hours it cannot; CMD is then what is compared with itself [default: a shell's loop]
    #[arg(long, conflicts_with_all = ["save", "env", "vs", "pairs", "all", "cpu", "prepare"])]
    certify: bool,
    /// The words are files with runs that hyperfine, pyperf, criterion, Google Benchmark,
    /// pytest-benchmark or Go timed: -- A.json… --- B.json…
    #[arg(long, conflicts_with_all = ["case", "against", "file", "certify", "save", "env", "vs",
        "pairs", "all", "cpu", "prepare", "shell", "by", "ignore_failure"])]
    read: bool,
    /// Keep the whole outcome, every run in it, in a JSON file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Form::Text)]
    format: Form,
    /// Print the whole outcome as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Measure that decides.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Gauge {
    /// Time from start to end
    Wall,
    /// Time that processors worked for it
    Cpu,
    /// Instructions in user mode, where the machine counts them
    Instructions,
}

impl From<Gauge> for Measure {
    fn from(by: Gauge) -> Self {
        match by {
            Gauge::Wall => Measure::Wall,
            Gauge::Cpu => Measure::Cpu,
            Gauge::Instructions => Measure::Instructions,
        }
    }
}

/// Form of a printed outcome.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Form {
    /// Text for a person
    Text,
    /// The whole outcome
    Json,
    /// Comment for a pull request
    Markdown,
    /// Metrics file
    Prometheus,
    /// JSON as hyperfine 1 exports it
    Hyperfine,
    /// JSON as hyperfine 2 exports it
    Hyperfine2,
}

/// Compares as it is asked to.
///
/// # Errors
/// Commands that cannot be compared, words that contradict each other, what the machine refuses.
pub fn run(args: &Options, program: Program<'_>) -> Result<Answer> {
    output::check()?;
    if args.read {
        return read::run(args, program.words);
    }
    let save = args.save.as_deref().map(Destination::new).transpose()?;
    let scratch = tempfile::Builder::new().prefix("kumiki-").tempdir()?;
    let folder = scratch.path().to_owned();
    let interrupt = Interrupt::watch(move || {
        crate::process::end_running();
        remove_with_company(&folder);
    })?;
    if args.certify {
        return certificate::run(args, &interrupt);
    }
    let form = if args.json { Form::Json } else { args.format };
    let place = machine::place(None, scratch.path())?;
    let meter = kumiki_measure::meter::Meter::new(kumiki_sys::clock::Clock::new());
    let described = machine::describe(&place, &meter)?;
    if let Some(file) = &args.file {
        return lines::run(file, args, form, &described, &interrupt);
    }
    let kept =
        args.against.as_deref().map(|path| Ok::<_, anyhow::Error>((path, Outcome::read(path)?)));
    let kept = kept.transpose()?;
    let plan = match &kept {
        Some((_, kept)) => against(args, kept)?,
        None => plan(args, scratch.path(), program)?,
    };
    if let Some((path, kept)) = &kept {
        // Known before the long work.
        let now = Outcome { machine: described.clone(), a: plan.a.clone(), ..kept.clone() };
        Against::check(kept, &now, path)?;
        talk_of_width(program.name, kept, args.detect / 100.0);
    }
    let outcome = compared(plan, described, &interrupt)?;
    let other = kept.as_ref().filter(|(_, kept)| outcome.machine.kernel != kept.machine.kernel);
    if let Some((_, kept)) = other {
        let text = format!(
            "then it was Linux {}, now it is {}: A and B may feel that differently",
            kept.machine.kernel, outcome.machine.kernel
        );
        output::talk(program.name, text);
    }
    if let Some(save) = save {
        save.write(|out| Ok(serde_json::to_writer(out, &outcome)?))?;
    }
    shown::print(&outcome, form)?;
    Ok(match interrupt.signal() {
        Some(signal) => Answer::Interrupted(signal),
        None => Answer::Status(verdict(&outcome, kept.is_some()).exit_status()),
    })
}

/// Verdict that was asked for: of B against A, or against a B that was kept.
fn verdict(outcome: &Outcome, against: bool) -> Verdict {
    match against {
        true => outcome.against.map_or(Verdict::CannotSay, |against| against.verdict),
        false => outcome.verdict,
    }
}

/// Tells that what was kept is less sure than what is asked: less than its own doubt cannot be told.
fn talk_of_width(program: &str, kept: &Outcome, detect: f64) {
    let half = |[low, high]: [f64; 2]| ((high / low).ln() / 2.0).exp_m1();
    let least = kept.kept().into_iter().filter_map(|finding| finding.interval).map(half);
    if let Some(least) = least.reduce(f64::min).filter(|least| *least > detect) {
        let text = format!(
            "what was kept is known to {:.1} % only, so that the same within {:.1} % cannot be \
             found: keep one with more pairs (--all --for 5m)",
            100.0 * least,
            100.0 * detect
        );
        output::talk(program, text);
    }
}

/// Runs a plan with its progress on the terminal.
fn compared(plan: Plan, machine: Machine, interrupt: &Interrupt) -> Result<Outcome> {
    let started = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let bar = shown::bar();
    let outcome = trial::run(plan, interrupt.stop(), |progress| shown::show(&bar, progress));
    bar.finish_and_clear();
    Ok(Outcome { machine, started, ..outcome? })
}

/// A plan by what the arguments say beside the commands.
fn with(args: &Options, a: Side, b: Side) -> Plan {
    Plan {
        detect: args.detect / 100.0,
        by: args.by.map(Measure::from),
        pairs: args.pairs.map(|pairs| pairs as usize),
        span: args.span,
        all: args.all,
        prepare: args.prepare.clone(),
        cpu: args.cpu,
        ignore_failure: args.ignore_failure,
        ..Plan::new(a, b)
    }
}

/// The A that was kept, and the command given, or the B that was kept.
fn against(args: &Options, kept: &Outcome) -> Result<Plan> {
    if args.commands.iter().any(|word| word == BETWEEN) {
        bail!("--against has its A from the file: give B alone after `--`, or nothing");
    }
    if kept.a.measures && !args.commands.is_empty() {
        bail!("--against: what was kept is of --case, whose B is that case: leave the command out");
    }
    let b = match args.commands.is_empty() {
        true => kept.b.clone(),
        false => Side { words: args.commands.clone(), shell: args.shell, ..Side::default() },
    };
    Ok(Plan { against: Some(kept.kept()), ..with(args, kept.a.clone(), b) })
}

/// Plan that the arguments make.
fn plan(args: &Options, scratch: &Path, program: Program<'_>) -> Result<Plan> {
    let mut sides = args.commands.split(|word| word == BETWEEN).map(<[String]>::to_vec);
    let (first, second) = (sides.next().unwrap_or_default(), sides.next());
    if sides.next().is_some() {
        bail!("`---` stands between the two commands, once");
    }
    let missing = first.is_empty() || second.as_ref().is_some_and(Vec::is_empty);
    if missing && args.case.is_none() {
        bail!("a command is missing: {} -- CMD… --- CMD…", program.words);
    }
    let second = match (second, args.vs.is_empty()) {
        (Some(second), _) => second,
        (None, false) => first.clone(),
        (None, true) if args.case.is_some() => bail!(
            "the case is the same on both sides: say what differs for B by --vs NAME=VALUE, or \
             what runs it, -- CMD… --- CMD…"
        ),
        (None, true) => bail!(
            "there is one command: give the other after `---`, or what differs for B by --vs \
             NAME=VALUE"
        ),
    };
    let side = |words: Vec<String>, more: &[(String, String)]| -> Result<Side> {
        let mut env = args.env.clone();
        env.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        env.extend_from_slice(more);
        let side = Side { words, env, shell: args.shell, ..Side::default() };
        match &args.case {
            Some(case) => Ok(side.measuring(case, program.kumiki, scratch)),
            None => Ok(side),
        }
    };
    Ok(with(args, side(first, &[])?, side(second, &args.vs)?))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable as NAME=VALUE".to_owned()),
    }
}
