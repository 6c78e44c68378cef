//! Other nodes, as this one sees and starts them.

use anyhow::Result;
use kumiki_node::{Delegated, KernelForm, NodeInfo, seen_here};

use super::say;
use super::words::Start;

/// Nodes that it may start, and all others if it watches its host.
fn all() -> Result<Vec<NodeInfo>> {
    let mut all = Delegated::list()?;
    let others = seen_here()?;
    all.extend(others.into_iter().filter(|node| node.lent_to.is_none()));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// A list of them, for a person or a program.
pub(crate) fn list(json: bool) -> Result<String> {
    let all = all()?;
    if json {
        return Ok(serde_json::to_string(&all)? + "\n");
    }
    let mut out = String::new();
    let heading = ["node", "state", "image", "cpus", "memory"].map(str::to_owned);
    let rows: Vec<[String; 5]> = [heading].into_iter().chain(all.iter().map(row)).collect();
    for row in &rows {
        let mut line = String::new();
        for (n, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
            line += &format!("{cell:width$}  ");
        }
        out += line.trim_end();
        out.push('\n');
    }
    Ok(out)
}

fn row(node: &NodeInfo) -> [String; 5] {
    let cpus: Vec<_> = node.cpus.iter().map(u32::to_string).collect();
    [
        node.name.clone(),
        node.state_word().to_owned(),
        node.image.clone().unwrap_or_else(|| "-".to_owned()),
        cpus.join(","),
        format!("{} MiB", node.bytes >> 20),
    ]
}

/// Starts one that was lent to this node; what a program is to be told of it.
pub(crate) fn start(how: &Start) -> Result<Option<String>> {
    let lent = Delegated::find(&how.name)?;
    let form = if how.bzimage { KernelForm::BzImage } else { KernelForm::Vmlinux };
    let stages = match (&how.from, how.again) {
        (Some(from), false) => lent.start_snapshot(from, how.limit)?,
        (Some(from), true) => lent.restart_snapshot(from, how.limit)?,
        (None, false) => lent.start(form, how.limit)?,
        (None, true) => lent.restart(form, how.limit)?,
    };
    if how.json {
        return Ok(Some(serde_json::to_string(&stages)? + "\n"));
    }
    say(format_args!("{}", stages.told_of(&how.name)));
    Ok(None)
}
