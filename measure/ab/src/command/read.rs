//! `--read`: runs that other tools timed.

use anyhow::{Result, bail};
use kumiki_sys::visible::visible;
use kumiki_terminal::output;
use kumiki_terminal::rows::Rows;

use super::{Answer, BETWEEN, Form, Options};
use crate::Verdict;
use crate::read::{Blocks, Timed, blocks, read_side};

pub(super) fn run(args: &Options, words: &str) -> Result<Answer> {
    let mut sides = args.commands.split(|word| word == BETWEEN);
    let (Some(a @ [_, ..]), Some(b @ [_, ..]), None) = (sides.next(), sides.next(), sides.next())
    else {
        bail!("files of each side, `---` between the sides: {words} --read -- A.json… --- B.json…");
    };
    let form = if args.json { Form::Json } else { args.format };
    if !matches!(form, Form::Text | Form::Json) {
        bail!("--read has --format text and json: the others are of pairs that were run in turns");
    }
    let sides = [read_side(a)?, read_side(b)?];
    let found = blocks(&sides[0].runs, &sides[1].runs, args.detect / 100.0);
    if found.is_empty() {
        bail!("the sides have no benchmark of one name in common");
    }
    if form == Form::Json {
        output::json(&found)?
    } else {
        print(&found, words)?
    }
    let lacks = lacks(&sides);
    for lack in &lacks {
        output::aside(&output::wrapped(lack, ""));
    }
    let any = |verdict| found.iter().any(|one| one.verdict == verdict);
    let worst = [Verdict::Slower, Verdict::CannotSay].into_iter().find(|verdict| any(*verdict));
    // What crashed on one side may be the slow one.
    let worst = worst.or((!lacks.is_empty()).then_some(Verdict::CannotSay));
    Ok(Answer::Status(worst.map_or(0, Verdict::exit_status)))
}

/// Names what is in the files and not in the verdict, a sentence each.
fn lacks(sides: &[Timed; 2]) -> Vec<String> {
    let mut lacks = Vec::new();
    for (own, other) in [(0, 1), (1, 0)] {
        let name = ["A", "B"][own];
        let only = |name: &&String| !sides[other].runs.contains_key(*name);
        let only: Vec<_> =
            sides[own].runs.keys().filter(only).map(|name| visible(name).to_string()).collect();
        if !only.is_empty() {
            lacks.push(format!("Only {name} has {}: nothing is said of it.", only.join(", ")));
        }
        if sides[own].failed > 0 {
            lacks.push(format!(
                "{} runs of {name} failed and are left out: if those are the slow ones, {name} looks faster than it is.",
                sides[own].failed
            ));
        }
    }
    lacks
}

fn print(found: &[Blocks], words: &str) -> Result<()> {
    let mut table = Rows::new(&["benchmark", "B is", "B/A", "95 % CI", "p", "processes"], 2);
    for one in found {
        let interval =
            one.interval.map_or("–".to_owned(), |[low, high]| format!("[{low:.3}, {high:.3}]"));
        table.add([
            visible(&one.name).to_string(),
            one.verdict.word().to_owned(),
            format!("{:.3}", one.ratio),
            interval,
            format!("{:.3}", one.p),
            format!("{}, {}", one.processes[0], one.processes[1]),
        ]);
    }
    table.print()?;
    let few = found.iter().any(|one| one.interval.is_none());
    let mut text = String::new();
    if few {
        text += "– stands where there are too few processes: loops of one process share its pages and its \
                 cpu, and are no independent runs. Four files of each side, each of another process, \
                 tell; more where there are several benchmarks. ";
    }
    text += &format!(
        "The sides were run one after the other: what moved the machine between them is in these \
         figures. `{words} -- A… --- B…` runs them in turns."
    );
    output::line("")?;
    output::text(output::wrapped(&text, ""))
}
