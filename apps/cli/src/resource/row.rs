//! What there is: resources of processes, nodes and images of the machine.

use std::fs;

use anyhow::Result;
use kumiki_node::{Image, Node};
use kumiki_resource::published::{ls_of_each, processes};
use kumiki_resource::{Id, Listed, Pattern};
use serde::Serialize;

use super::Which;
use crate::output;

/// A resource and whose it is.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// None of what is the machine's.
    pub(crate) process: Option<u32>,
    /// The process's program.
    pub(crate) program: Option<String>,
    /// Another machine, of what is behind a NATS server.
    pub(crate) machine: Option<String>,
    pub(crate) name: String,
    pub(crate) id: Option<Id>,
    pub(crate) named: bool,
    pub(crate) owner: String,
    pub(crate) state: String,
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
}

/// A process that ends meanwhile, or does not answer, is said and passed over; one that
/// was asked for by its number is an error.
pub(crate) fn look(which: &Which) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    let asked = which.pid.map_or_else(processes, |pid| Ok(vec![pid]))?;
    for (process, answer) in ls_of_each(&asked, &which.pattern)? {
        match answer {
            Ok(listing) => {
                let program = program(process);
                all.extend(listing.into_iter().map(|listed| of(process, &program, listed)));
            }
            Err(error) if which.pid.is_some() => return Err(error.into()),
            Err(error) => output::talk(error),
        }
    }
    if which.pid.is_none() {
        let pattern = Pattern::new(&which.pattern)?;
        all.extend(of_machine().into_iter().filter(|row| pattern.matches(&row.name)));
    }
    Ok(all)
}

/// The process's program, of which a process may make any bytes: they go to a terminal
/// by `output` only.
fn program(process: u32) -> Option<String> {
    let comm = fs::read(format!("/proc/{process}/comm")).ok()?;
    Some(String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned())
}

fn of(process: u32, program: &Option<String>, listed: Listed) -> Row {
    let Listed { name, id, named, owner, calls, about } = listed;
    Row {
        process: Some(process),
        program: program.clone(),
        machine: None,
        name,
        id: Some(id),
        named,
        owner,
        state: about.state,
        calls,
        bytes: about.bytes,
    }
}

/// Nodes and images; none where their module is not loaded, or is not this user's to ask.
fn of_machine() -> Vec<Row> {
    let row = |name, owner, state, bytes| Row {
        process: None,
        program: None,
        machine: None,
        name,
        id: None,
        named: true,
        owner,
        state,
        calls: 0,
        bytes,
    };
    let images = Image::list().unwrap_or_default().into_iter().map(|image| {
        row(format!("machine/image/{}", image.name), String::new(), image.state, image.bytes)
    });
    let nodes = Node::list().unwrap_or_default().into_iter().map(|node| {
        let owner = if node.owner == 0 { String::new() } else { node.owner.to_string() };
        let cpus: Vec<_> = node.cpus.iter().map(u32::to_string).collect();
        let state = format!("{}, cpus {}", node.state_word(), cpus.join(","));
        row(format!("machine/node/{}", node.name), owner, state, node.bytes)
    });
    images.chain(nodes).collect()
}
