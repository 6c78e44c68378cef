//! Resources of places of other processes, nodes and machines: listed, made, called, destroyed.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use kumiki_node::{Lanes, Node, NodeState};
use kumiki_places::{Client, Lines, Nats, Seen};
use kumiki_resource::{Listed, Name, Pattern};
use kumiki_sys::sentence::with_causes;
use serde_json::Value;

use super::row::Row;
use crate::output;
use crate::place::{Choose, asking};

/// Places and their resources whose names match, of this user's processes if no server is said. A place that does
/// not answer is said and passed over; of one whose process is among `published`, whose resources are listed by
/// its own names, there is the place alone.
pub(super) fn look(server: Option<&Nats>, pattern: &str, published: &[u32]) -> Result<Vec<Row>> {
    let matches = Pattern::new(pattern)?;
    asking(server, async |client| {
        let mut rows = Vec::new();
        let places = client.places().await?;
        // All at the same time: one that does not answer holds up no other.
        let asked = places.into_iter().map(|seen| {
            let client = client.clone();
            async move {
                let is_listed = seen.process.is_some_and(|process| published.contains(&process));
                let listed =
                    if is_listed { Ok(vec![]) } else { client.ls(&seen.place, pattern).await };
                (seen, listed)
            }
        });
        for (seen, listed) in futures_util::future::join_all(asked).await {
            let state = match (&listed, seen.process) {
                (Ok(_), None) => "serving".to_owned(),
                (Ok(_), Some(process)) => format!("serving by {process}"),
                (Err(_), _) => "serving, lists nothing".to_owned(),
            };
            rows.push(place(&seen, state));
            match listed {
                Ok(listed) => rows.extend(listed.into_iter().map(|one| of(&seen.place, one))),
                Err(error) => output::talk(error),
            }
        }
        rows.retain(|row| matches.matches(&row.name));
        Ok(rows)
    })
}

/// The row of a place.
fn place(seen: &Seen, state: String) -> Row {
    Row {
        process: None,
        program: None,
        machine: Some(machine(&seen.place)),
        name: format!("{}/place/{:016x}", seen.place, seen.life),
        id: None,
        named: true,
        owner: seen.place.clone(),
        state,
        calls: seen.requests,
        bytes: 0,
    }
}

/// A place's machine, node or process, by its name.
fn machine(place: &str) -> String {
    place.rsplit_once('.').map_or("", |(host, _)| host).to_owned()
}

/// The row of a place's resource.
fn of(place: &str, Listed { name, id, named, calls, about, .. }: Listed) -> Row {
    Row {
        process: None,
        program: None,
        machine: Some(machine(place)),
        name,
        id: Some(id),
        named,
        owner: place.to_owned(),
        state: about.state,
        calls,
        bytes: about.bytes,
    }
}

/// Places in running nodes of this machine, and their resources, by lines in the window. Those that are `known` are
/// passed over, and a node that has none is said.
pub(super) fn look_by_lines(pattern: &str, known: &[Row]) -> Result<Vec<Row>> {
    let matches = Pattern::new(pattern)?;
    let mut rows = Vec::new();
    for node in Node::list()?.into_iter().filter(|node| node.state == NodeState::Ready) {
        let begin = |place: &str| format!("{place}/");
        let is_known = |place: &str| known.iter().any(|row| row.name.starts_with(&begin(place)));
        let mut look = || -> Result<()> {
            let Lanes { stream, window, base, .. } =
                Lanes::open(&node.name, crate::place::relay_of(&node.name))?;
            let lines = Lines::open(&node.name, stream, window, base)?;
            for its in lines.all_places().into_iter().filter(|place| !is_known(place)) {
                let mut line = lines.line(&its)?;
                let seen = Seen {
                    place: its.clone(),
                    life: line.life(),
                    version: String::new(),
                    requests: 0,
                    busy_ns: 0,
                    process: None,
                };
                rows.push(place(&seen, "by lines".to_owned()));
                match line.ls(pattern) {
                    Ok(listed) => rows.extend(listed.into_iter().map(|one| of(&its, one))),
                    Err(error) => output::talk(error),
                }
            }
            Ok(())
        };
        if let Err(error) = look() {
            output::talk(format_args!("node {}: {}", node.name, with_causes(error.as_ref())));
        }
    }
    rows.retain(|row| matches.matches(&row.name));
    Ok(rows)
}

/// Makes a resource, and gives its place and its id as text. With `choose`, the name's place is a pattern
/// of those to choose from; one that does not allow it, or is gone, is passed over.
pub(super) fn create(
    server: Option<&Nats>,
    name: &str,
    choose: Option<Choose>,
    wishes: &str,
) -> Result<(String, String)> {
    let wishes = json(wishes)?;
    asking(server, async |client| {
        let Some(choose) = choose else {
            let name: Name = name.parse()?;
            return made(&client, &name, &wishes).await;
        };
        let (places, rest) = name.split_once('/').context("a name is place/kind/unique")?;
        let mut last = anyhow!("no place matches {places}");
        for place in client.choose(places, choose.choice()).await? {
            let name: Name = format!("{place}/{rest}").parse()?;
            match made(&client, &name, &wishes).await {
                Err(error) if is_passed(&error) => last = error,
                outcome => return outcome,
            }
        }
        Err(last)
    })
}

/// True if nothing was made at a place, which may be passed over.
fn is_passed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<kumiki_places::Error>().is_some_and(kumiki_places::Error::is_passed_over)
}

async fn made(client: &Client, name: &Name, wishes: &Value) -> Result<(String, String)> {
    let id = client.create_named(name, wishes).await?;
    Ok((name.place().to_owned(), id.to_string()))
}

/// A call of a program part of a resource.
pub(super) struct Called<'a> {
    pub(super) name: &'a Name,
    pub(super) part: &'a str,
    /// Argument, in JSON.
    pub(super) input: &'a str,
    /// Time for which it is tried.
    pub(super) timeout: Duration,
}

/// Calls a program part of a resource, and gives what it gives.
pub(super) fn call(server: Option<&Nats>, called: &Called<'_>) -> Result<Value> {
    let Called { name, part, timeout, .. } = *called;
    let input = json(called.input)?;
    let call = async |client: Client| {
        Ok(client.with_timeout(timeout).call_named(name, part, &input).await?)
    };
    asking(server, call)
}

/// Calls it so many times by a line in memory that this machine and an OS node, which has the place, both see.
pub(super) fn call_by_line(called: &Called<'_>, times: u64) -> Result<Value> {
    let Called { name, part, timeout, .. } = *called;
    let input = json(called.input)?;
    let node = name.place().split('.').next().unwrap_or_default();
    let Lanes { stream, window, base, ending } = Lanes::open(node, crate::place::relay_of(node))?;
    let lines = Lines::open(node, stream, window, base)?;
    let given = lines.line(name.place()).and_then(|mut line| {
        line.set_timeout(timeout);
        for _ in 1..times {
            line.call_named(name, part, &input)?;
        }
        line.call_named(name, part, &input)
    });
    drop(lines);
    let ending = ending.join().map_err(|_| anyhow!("the node's thread has panicked"))?;
    match (given, ending) {
        (Ok(given), _) => Ok(given),
        // Why there are no places says more than that there is none.
        (Err(error), Err(ending)) => Err(error).context(ending),
        (Err(error), Ok(_)) => Err(error.into()),
    }
}

/// Destroys a resource.
pub(super) fn delete(server: Option<&Nats>, name: &Name) -> Result<()> {
    asking(server, async |client| Ok(client.destroy_named(name).await?))
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .with_context(|| format!("{text:?} is not JSON; texts stand in quotes, as in '\"text\"'"))
}
