//! `--read`: runs that other tools timed.

use anyhow::{Result, bail};
use kumiki_sys::visible::visible;
use kumiki_terminal::output;
use kumiki_terminal::rows::Rows;

use super::{Answer, BETWEEN, Form, Options};
use crate::Verdict;
use crate::read::{Blocks, blocks, read_all};

pub(super) fn run(args: &Options, words: &str) -> Result<Answer> {
    let mut sides = args.commands.split(|word| word == BETWEEN);
    let (Some(a @ [_, ..]), Some(b @ [_, ..]), None) = (sides.next(), sides.next(), sides.next())
    else {
        bail!("files of each side, `---` between the sides: {words} --read -- A.json… --- B.json…");
    };
    let found = blocks(&read_all(a)?, &read_all(b)?, args.detect / 100.0);
    if found.is_empty() {
        bail!("the sides have no benchmark of one name in common");
    }
    if args.json || args.format == Form::Json {
        output::json(&found)?;
    } else {
        print(&found, words)?;
    }
    let any = |verdict| found.iter().any(|one| one.verdict == verdict);
    let worst = [Verdict::Slower, Verdict::CannotSay].into_iter().find(|verdict| any(*verdict));
    Ok(Answer::Status(worst.map_or(0, Verdict::exit_status)))
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
