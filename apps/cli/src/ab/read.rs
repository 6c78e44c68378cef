//! `kumiki ab --read`: runs that other tools timed.

use anyhow::{Result, bail};
use kumiki_ab::Verdict as Found;
use kumiki_ab::read::{Blocks, blocks, read_all};
use kumiki_sys::visible::visible;

use super::{Ab, BETWEEN, Form};
use crate::{Verdict, output};

pub(super) fn run(args: &Ab) -> Result<Verdict> {
    let mut sides = args.commands.split(|word| word == BETWEEN);
    let (Some(a @ [_, ..]), Some(b @ [_, ..]), None) = (sides.next(), sides.next(), sides.next())
    else {
        bail!(
            "files of each side, `---` between the sides: kumiki ab --read -- A.json… --- B.json…"
        );
    };
    let found = blocks(&read_all(a)?, &read_all(b)?, args.detect / 100.0);
    if found.is_empty() {
        bail!("the sides have no benchmark of one name in common");
    }
    if args.json || args.format == Form::Json {
        output::json(&found)?;
    } else {
        print(&found)?;
    }
    let any = |verdict| found.iter().any(|one| one.verdict == verdict);
    let worst = [Found::Slower, Found::CannotSay].into_iter().find(|verdict| any(*verdict));
    Ok(Verdict::Exit(worst.map_or(0, Found::exit_status)))
}

fn print(found: &[Blocks]) -> Result<()> {
    let mut table =
        output::Rows::new(&["benchmark", "B is", "B/A", "95 % CI", "p", "processes"], 2);
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
    text += "The sides were run one after the other: what moved the machine between them is in these \
             figures. `kumiki ab -- A… --- B…` runs them in turns.";
    output::line("")?;
    output::text(output::wrapped(&text, ""))
}
