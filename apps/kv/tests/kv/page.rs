//! Pages, held against the command line and the table of commands.

use std::fmt::Write;

use clap::CommandFactory;
use kumiki_kv::args::Args;
use kumiki_kv::commands::{Row, Run, all};

/// Compares a page with what it should be; with `KUMIKI_WRITE_PAGE` in the environment it is
/// written anew.
fn held(path: &str, page: &[u8]) {
    if std::env::var_os("KUMIKI_WRITE_PAGE").is_some() {
        std::fs::write(path, page).unwrap();
    }
    let written = std::fs::read(path).unwrap_or_default();
    assert!(
        written == page,
        "{path}: write it anew: KUMIKI_WRITE_PAGE=1 cargo test -p kumiki-kv --test kv page"
    );
}

#[test]
fn the_manual_page_is_that_of_the_command_line() {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut page).unwrap();
    held(concat!(env!("CARGO_MANIFEST_DIR"), "/kumiki-kv.1"), &page);
}

fn over_shards(row: &Row) -> &'static str {
    match row.run {
        Run::Split(..) => "each its part",
        Run::All(..) => "all, in turn",
        Run::Cursor(_) => "one after the other",
        Run::Keys(_) if row.keys.1 != row.keys.0 => "keys of one",
        Run::Keys(_) | Run::Here(_) | Run::Group(_) | Run::Track => "the same",
        Run::Exec | Run::Watch | Run::Unwatch(_) => "keys of one",
    }
}

fn line(row: &Row, text: &mut String) {
    let (name, shards) = (row.name.replace('|', " ").to_uppercase(), over_shards(row));
    let summary = row.summary.replace('|', "\\|");
    writeln!(text, "| {name} | {} | {summary} | {shards} |", row.since).unwrap();
    if let Run::Group(rows) = row.run {
        rows.iter().for_each(|row| line(row, text));
    }
}

/// The list of commands on the design's page is that of the table.
#[test]
fn the_page_lists_every_command() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/kv.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, begin) =
        ("| command | since | what it does | over several shards |\n", "## Commands\n");
    let (before, rest) = page.split_once(begin).expect("it has a list of commands");
    let (text, rest) = rest.split_once(head).expect("the list has a head");
    let end = rest.find("\n## ").expect("something stands behind it");
    let mut list = format!("{before}{begin}{text}{head}|---|---|---|---|\n");
    let mut rows: Vec<&Row> = all().collect();
    rows.sort_by_key(|row| (row.group, row.name));
    rows.iter().for_each(|row| line(row, &mut list));
    list.push_str(&rest[end..]);
    held(path, list.as_bytes());
}
