//! Resources of places behind a NATS server: listed, made, called, destroyed.

use anyhow::{Context, Result, anyhow};
use kumiki_node::Lanes;
use kumiki_places::{Client, Lines, Nats};
use kumiki_resource::{Name, Pattern};
use serde_json::Value;

use super::row::Row;
use crate::output;
use crate::place::{Choose, asking};

/// Places and their resources whose names match. A place that does not answer is said and passed
/// over.
pub(super) fn look(server: &Nats, pattern: &str) -> Result<Vec<Row>> {
    let matches = Pattern::new(pattern)?;
    asking(Some(server), async |client| {
        let mut rows = Vec::new();
        let places = client.places().await?;
        // All at the same time: one that does not answer holds up no other.
        let asked = places.into_iter().map(|seen| {
            let client = client.clone();
            async move {
                let listed = client.ls(&seen.place, "**").await;
                (seen, listed)
            }
        });
        for (seen, listed) in futures_util::future::join_all(asked).await {
            let row = |name: String, id, named, state, calls, bytes| Row {
                process: None,
                program: None,
                machine: Some(seen.place.rsplit_once('.').map_or("", |(host, _)| host).to_owned()),
                name,
                id,
                named,
                owner: seen.place.clone(),
                state,
                calls,
                bytes,
            };
            let state = match &listed {
                Ok(_) => "serving".to_owned(),
                Err(_) => "serving, lists nothing".to_owned(),
            };
            let name = format!("{}/place/{:016x}", seen.place, seen.life);
            rows.push(row(name, None, true, state, seen.requests, 0));
            match listed {
                Ok(listed) => rows.extend(listed.into_iter().map(|one| {
                    row(
                        one.name,
                        Some(one.id),
                        one.named,
                        one.about.state,
                        one.calls,
                        one.about.bytes,
                    )
                })),
                Err(error) => output::talk(error),
            }
        }
        rows.retain(|row| matches.matches(&row.name));
        Ok(rows)
    })
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

/// Whether nothing was made at a place, which may be passed over.
fn is_passed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<kumiki_places::Error>().is_some_and(kumiki_places::Error::is_passed_over)
}

async fn made(client: &Client, name: &Name, wishes: &Value) -> Result<(String, String)> {
    let id = client.create_named(name, wishes).await?;
    Ok((name.place().to_owned(), id.to_string()))
}

/// Calls a program part of a resource, and gives what it gives.
pub(super) fn call(server: Option<&Nats>, name: &Name, part: &str, input: &str) -> Result<Value> {
    let input = json(input)?;
    asking(server, async |client| Ok(client.call_named(name, part, &input).await?))
}

/// Calls it so many times by a line in memory that this machine and an OS node, which has the place, both see.
pub(super) fn call_by_line(name: &Name, part: &str, input: &str, times: u64) -> Result<Value> {
    let input = json(input)?;
    let node = name.place().split('.').next().unwrap_or_default();
    let Lanes { stream, window, base, ending } = Lanes::open(node, crate::place::relay_of(node))?;
    let lines = Lines::open(node, stream, window, base)?;
    let given = lines.line(name.place()).and_then(|mut line| {
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
        .with_context(|| format!("{text:?} is no JSON; texts stand in quotes, as in '\"text\"'"))
}
