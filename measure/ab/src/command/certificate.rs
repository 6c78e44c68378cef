//! `--certify`.

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use kumiki_measure::format;
use kumiki_terminal::interrupt::Interrupt;
use kumiki_terminal::output;
use kumiki_terminal::rows::Rows;

use super::shown::bar;
use super::{Answer, BETWEEN, Form, Options};
use crate::Side;
use crate::certify::{Certificate, Seen, certify};

/// Compared with itself where nothing else is given: some 20 ms of a shell's own work.
const LOOP: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";

/// Cannot say, as of a comparison.
const CANNOT: u8 = 3;

pub(super) fn run(args: &Options, interrupt: &Interrupt) -> Result<Answer> {
    if args.commands.iter().any(|word| word == BETWEEN) {
        bail!("--certify compares one command with itself: leave out `---` and what follows");
    }
    let form = if args.json { Form::Json } else { args.format };
    if !matches!(form, Form::Text | Form::Json) {
        bail!("--certify has --format text and json");
    }
    let side = match args.commands.is_empty() {
        true => Side { shell: true, ..Side::new([LOOP]) },
        false => Side { shell: args.shell, ..Side::new(args.commands.clone()) },
    };
    let cpus: Vec<usize> = kumiki_sys::affinity::current()?.iter().collect();
    let (bar, span) = (bar(), args.span);
    let hour =
        || jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).hour().unsigned_abs().into();
    let found = certify(&side, &cpus, span, interrupt.stop(), hour, |passed| {
        step(&bar, passed / span.as_secs_f64());
    });
    bar.finish_and_clear();
    let found = found?;
    let detect = args.detect / 100.0;
    if form == Form::Json {
        output::json(&found)?;
    } else {
        print(&found, detect, span.as_secs_f64())?;
    }
    let sees = found.all.tells.is_some_and(|tells| tells <= detect);
    Ok(match interrupt.signal() {
        Some(signal) => Answer::Interrupted(signal),
        None => Answer::Status(if sees { 0 } else { CANNOT }),
    })
}

fn step(bar: &ProgressBar, done: f64) {
    bar.set_position((1000.0 * done.min(1.0)) as u64);
}

fn print(found: &Certificate, detect: f64, span: f64) -> Result<()> {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let wait = format::wait(span);
    let sentence = match found.all.tells {
        Some(tells) => format!(
            "In {wait} of pairs this machine sees differences of {} and more by the clock, and of {} \
             by processor time.",
            percent(tells),
            found.all.tells_cpu.map_or("–".to_owned(), percent)
        ),
        None => format!("In {wait} there were too few pairs to see anything: give --for more."),
    };
    output::text(output::wrapped(&sentence, ""))?;
    // What each part would see in the same time.
    let sees = |seen: &Seen| seen.in_seconds(found.all.seconds);
    let mut table =
        Rows::new(&["where", "pairs", "disturbed", "by the clock", "processor time"], 1);
    let mut blind = Vec::new();
    let cpus = found.cpus.iter().map(|(cpu, seen)| (format!("cpu {cpu}"), seen));
    let hours = found.hours.iter().map(|(hour, seen)| (format!("{hour:02}:00 UTC"), seen));
    for (name, seen) in cpus.chain(hours) {
        let Seen { tells: least, tells_cpu, .. } = sees(seen);
        let share = |tells: Option<f64>| tells.map_or("–".to_owned(), percent);
        table.add([
            name.clone(),
            seen.pairs.to_string(),
            format!("{:.0} %", 100.0 * seen.disturbed),
            share(least),
            share(tells_cpu),
        ]);
        if least.is_none_or(|least| least > detect) {
            blind.push(name);
        }
    }
    table.print()?;
    if !blind.is_empty() {
        let text = format!(
            "It cannot see {} by the clock in that time on {}.",
            percent(detect),
            blind.join(", ")
        );
        output::text(output::wrapped(&text, ""))?;
    }
    Ok(())
}
