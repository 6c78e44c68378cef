//! The README's tables of figures, printed from `dev/bench/figures.toml`.
//!
//! A figure that a person copies into a table by hand loses who made it, where and when. Here each has
//! its bench, its machine and its day, the tables are printed, and the lint compares the README with
//! what is printed.

use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::run::root;

const DATA: &str = "dev/bench/figures.toml";
const README: &str = "README.md";

/// Heading above the tables, and the paragraph below them.
const BEFORE: &str = "## How it stands to its peers\n\n";
const AFTER: &str = "All figures, their conditions and what limits them:";

/// Benches of the tables, by the letters that stand for them.
const BENCHES: [(&str, &str); 5] =
    [("A", "shadow"), ("B", "parasc"), ("C", "resource"), ("D", "servers"), ("E", "ahead")];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FiguresFile {
    machine: Vec<Testbed>,
    row: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Testbed {
    name: String,
    is: String,
    /// Raw round trip of a cache line there.
    round_trip: Option<String>,
    /// Day of the figures that say no machine.
    made: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    table: Table,
    what: String,
    kumiki: String,
    #[serde(default)]
    plain: String,
    #[serde(default)]
    peers: String,
    bench: String,
    machine: Option<String>,
    made: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Table {
    Wins,
    Loses,
}

/// Prints the tables, or puts them into the README.
pub(crate) fn figures(write: bool) -> Result<()> {
    let tables = printed(&read(DATA)?)?;
    if !write {
        print!("{tables}");
        return Ok(());
    }
    let readme = read(README)?;
    let now = part(&readme)?;
    let readme = readme.replacen(now, &tables, 1);
    fs::write(root().join(README), readme).with_context(|| format!("writing {README}"))
}

/// Compares the README's tables with those of the data.
pub(crate) fn check() -> Result<()> {
    let (wanted, readme) = (printed(&read(DATA)?)?, read(README)?);
    let differs =
        part(&readme)?.lines().zip(wanted.lines()).find(|(there, wanted)| there != wanted);
    match differs {
        Some((there, wanted)) => bail!(
            "{README} has\n  {there}\nand {DATA} gives\n  {wanted}\nchange the data, then run \
             `cargo xtask figures --write`"
        ),
        None => {
            ensure!(part(&readme)? == wanted, "{README} lacks rows of {DATA}, or has more of them");
            Ok(())
        }
    }
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| format!("reading {file}"))
}

/// The README from the heading of the tables to what follows them.
fn part(readme: &str) -> Result<&str> {
    let begin = readme.find(BEFORE).map(|at| at + BEFORE.len());
    let begin = begin.with_context(|| format!("{README} has no heading {:?}", BEFORE.trim()))?;
    let length = readme[begin..].find(AFTER);
    let length = length.with_context(|| format!("{README} has no paragraph {AFTER:?}"))?;
    Ok(&readme[begin..begin + length])
}

/// Both tables, and what is said of them.
fn printed(data: &str) -> Result<String> {
    let FiguresFile { machine: machines, row: rows } =
        toml::from_str(data).with_context(|| format!("reading {DATA}"))?;
    let usual = machines.first().with_context(|| format!("{DATA} has no machine"))?;
    let mut text = String::from("| what | Kumiki | plain | peers | by |\n|---|---|---|---|---|\n");
    for row in rows.iter().filter(|row| row.table == Table::Wins) {
        let Row { what, plain, peers, .. } = row;
        let (figure, letter) = (figure(row, &machines)?, letter(row)?);
        let peers = cell(peers);
        // Bold is the figure alone, not where it was made.
        let figure = figure.strip_prefix(&*row.kumiki).unwrap_or_default();
        writeln!(text, "| {what} | **{}**{figure} | {plain} |{peers}| {letter} |", row.kumiki)?;
    }
    text += "\nWhere it loses:\n\n| what | Kumiki | better | by |\n|---|---|---|---|\n";
    for row in rows.iter().filter(|row| row.table == Table::Loses) {
        ensure!(row.plain.is_empty(), "{}: a row of losses has peers alone", row.what);
        let (figure, letter) = (figure(row, &machines)?, letter(row)?);
        writeln!(text, "| {} | {figure} |{}| {letter} |", row.what, cell(&row.peers))?;
    }
    let day = usual.made.as_deref().context("the first machine needs the day of its figures")?;
    write!(
        text,
        "\nEach figure is a median. Nothing else ran, unless the row says so. The machine, unless the row \
         names another:\n{}\non {day}",
        usual.is
    )?;
    if let Some(time) = &usual.round_trip {
        write!(text, ", where a cache line's round trip takes {time}")?;
    }
    text += ". The last column says what measures the row again:\n\n\
             | | measured by |\n|---|---|\n";
    for (letter, bench) in BENCHES {
        writeln!(text, "| {letter} | `cargo xtask bench {bench}` |")?;
    }
    text.push('\n');
    Ok(text)
}

/// A cell with its spaces; an empty one has one.
fn cell(text: &str) -> String {
    if text.is_empty() { " ".to_owned() } else { format!(" {text} ") }
}

/// A row's figure, and where it was made if not on the usual machine on its day.
fn figure(row: &Row, machines: &[Testbed]) -> Result<String> {
    let Row { what, kumiki, machine, made, .. } = row;
    ensure!(is_day(made), "{what}: {made:?} is no day, YYYY-MM-DD");
    match machine {
        None => {
            let day = machines.first().and_then(|usual| usual.made.as_deref());
            ensure!(
                Some(made.as_str()) == day,
                "{what}: made on {made}, and what names no machine was made on {}: name one",
                day.unwrap_or("no day")
            );
            Ok(kumiki.clone())
        }
        Some(name) => {
            let machine = machines.iter().find(|machine| machine.name == *name);
            let machine = machine.with_context(|| format!("{what}: there is no machine {name}"))?;
            Ok(format!("{kumiki} ({}, {made})", machine.is))
        }
    }
}

fn is_day(text: &str) -> bool {
    let digits = |at: usize| !matches!(at, 4 | 7);
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match digits(at) {
            true => byte.is_ascii_digit(),
            false => byte == b'-',
        })
}

fn letter(row: &Row) -> Result<&'static str> {
    let found = BENCHES.iter().find(|(_, bench)| *bench == row.bench);
    found
        .map(|(letter, _)| *letter)
        .with_context(|| format!("{}: no bench {}", row.what, row.bench))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "[[machine]]\nname = \"a\"\nis = \"a machine\"\nmade = \"2026-01-02\"\n\
                         round_trip = \"200 ns\"\n[[machine]]\nname = \"b\"\nis = \"another\"\n";

    fn of(more: &str) -> Result<String, String> {
        let row = "[[row]]\ntable = \"loses\"\nwhat = \"w\"\nkumiki = \"2 s\"\npeers = \"p 1 s\"\n";
        printed(&format!("{USUAL}{row}{more}")).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_row_says_where_and_when_unless_it_is_the_usual_machine() {
        let here = of("bench = \"parasc\"\nmade = \"2026-01-02\"\n").unwrap();
        assert!(here.contains("\n| w | 2 s | p 1 s | B |\n"), "{here}");
        assert!(here.contains(
            "a machine\non 2026-01-02, where a cache line's round trip takes 200 ns. The"
        ));
        let there = of("bench = \"shadow\"\nmachine = \"b\"\nmade = \"2026-02-03\"\n").unwrap();
        assert!(there.contains("\n| w | 2 s (another, 2026-02-03) | p 1 s | A |\n"), "{there}");
    }

    #[test]
    fn a_row_without_its_day_machine_or_bench_is_refused() {
        for (more, word) in [
            ("bench = \"parasc\"\nmade = \"2026-01-03\"\n", "name one"),
            ("bench = \"parasc\"\nmade = \"yesterday\"\n", "no day"),
            ("bench = \"parasc\"\nmachine = \"c\"\nmade = \"2026-01-02\"\n", "no machine c"),
            ("bench = \"speed\"\nmade = \"2026-01-02\"\n", "no bench speed"),
            ("bench = \"parasc\"\n", "made"),
            ("bench = \"parasc\"\nmade = \"2026-01-02\"\nby = \"me\"\n", "by"),
            ("bench = \"parasc\"\nmade = \"2026-01-02\"\nplain = \"x\"\n", "peers alone"),
        ] {
            let said = of(more).unwrap_err();
            assert!(said.contains(word), "{more}: {said}");
        }
    }

    #[test]
    fn the_tables_are_found_by_what_stands_around_them() {
        let readme = format!("# K\n\n{BEFORE}| a |\n\n{AFTER} [x](y)\n");
        assert_eq!(part(&readme).unwrap(), "| a |\n\n");
        assert!(part("# K\n").is_err());
    }

    #[test]
    fn the_readme_has_what_the_data_says() {
        check().unwrap();
    }
}
