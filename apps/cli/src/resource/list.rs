//! Resources as a tree: processes, places, resources.

use anyhow::Result;
use kumiki_report::format;

use super::row::Row;
use crate::output;

/// Prints them; those without a name one by one, or as how many there are of a kind.
pub(crate) fn print(rows: Vec<Row>, all: bool) -> Result<()> {
    let rows = if all { rows } else { folded(rows) };
    let mut headings = vec!["resource", "owner", "state", "calls", "memory"];
    if all {
        headings.push("id");
    }
    let mut table = output::Rows::new(&headings, 3).indented();
    let (mut process, mut place) = (None, String::new());
    for row in sorted(rows) {
        let (its_place, rest) = row.name.split_once('/').unwrap_or(("", &row.name));
        let head = (row.process, row.program.clone(), row.machine.clone());
        if process.as_ref() != Some(&head) {
            table.add([title(&row)]);
            (process, place) = (Some(head), String::new());
        }
        if place != its_place {
            its_place.clone_into(&mut place);
            table.add([format!("  {place}")]);
        }
        let some = |number: u64, text: String| if number == 0 { String::new() } else { text };
        let mut cells = vec![
            format!("    {rest}"),
            // As long as ps(1) and top(1) have names of threads.
            row.owner.chars().take(15).collect(),
            row.state,
            some(row.calls, format::count(row.calls)),
            some(row.bytes, format::bytes(row.bytes)),
        ];
        if all {
            cells.push(row.id.map(|id| id.to_string()).unwrap_or_default());
        }
        table.add(cells);
    }
    table.print()
}

fn title(row: &Row) -> String {
    match (row.process, &row.program) {
        (Some(process), Some(program)) => format!("{process} {program}"),
        (Some(process), None) => process.to_string(),
        (None, _) => row.machine.clone().unwrap_or_else(|| "this machine".to_owned()),
    }
}

/// Processes by their numbers, the machine last; within them by place, in the order of
/// numbers, then as they came.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    let place = |row: &Row| row.name.split('/').next().unwrap_or("").to_owned();
    rows.sort_by_key(|row| {
        let (process, place) = (row.process.unwrap_or(u32::MAX), place(row));
        (process, row.machine.clone(), place.len(), place)
    });
    rows
}

/// Folds rows without a name into one for each kind at a place.
fn folded(rows: Vec<Row>) -> Vec<Row> {
    let mut folded: Vec<(Row, u64)> = Vec::new();
    for mut row in rows {
        if row.named {
            folded.push((row, 0));
            continue;
        }
        // Up to the id, which stands for the name.
        row.name.truncate(row.name.rfind('/').map_or(0, |slash| slash + 1));
        let same = |(other, count): &&mut (Row, u64)| {
            *count > 0 && (other.process, &other.name) == (row.process, &row.name)
        };
        match folded.iter_mut().find(same) {
            Some((other, count)) => {
                *count += 1;
                // What a process says of itself may be any number.
                other.calls = other.calls.saturating_add(row.calls);
                other.bytes = other.bytes.saturating_add(row.bytes);
            }
            None => folded.push((row, 1)),
        }
    }
    let named = |(row, count): (Row, u64)| match count {
        0 => row,
        _ => Row {
            name: format!("{}({count} without a name)", row.name),
            state: String::new(),
            ..row
        },
    };
    folded.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(process: u32, name: &str, named: bool) -> Row {
        Row {
            process: Some(process),
            program: None,
            machine: None,
            name: name.to_owned(),
            id: None,
            named,
            owner: "core0".to_owned(),
            state: "idle".to_owned(),
            calls: 2,
            bytes: 10,
        }
    }

    #[test]
    fn those_without_a_name_become_one_row_a_kind_and_place() {
        let rows = vec![
            row(1, "core0/memory/a", true),
            row(1, "core0/memory/0x1", false),
            row(1, "core0/memory/0x2", false),
            row(1, "core1/memory/0x3", false),
            row(2, "core0/memory/0x1", false),
        ];
        let seen: Vec<_> = folded(rows)
            .into_iter()
            .map(|row| (row.process.unwrap(), row.name, row.bytes))
            .collect();
        let expected = [
            (1, "core0/memory/a", 10),
            (1, "core0/memory/(2 without a name)", 20),
            (1, "core1/memory/(1 without a name)", 10),
            (2, "core0/memory/(1 without a name)", 10),
        ];
        assert_eq!(seen, expected.map(|(process, name, bytes)| (process, name.to_owned(), bytes)));
    }

    #[test]
    fn places_come_in_the_order_of_their_numbers() {
        let rows = ["core10/a/b", "process/engine/1", "core9/a/b"].map(|name| row(1, name, true));
        let names: Vec<_> = sorted(rows.into()).into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["core9/a/b", "core10/a/b", "process/engine/1"]);
    }
}
