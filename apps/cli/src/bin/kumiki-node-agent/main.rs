//! `kumiki-node-agent`: all that a node carries of ours, as `/bin/kumiki`. Its first process, the
//! agent, the watchman, and what the host runs there: the other ends of `cp`, of vsock and of places.
//! Of the command it has what a node does for others: `node ls`, `start` and `restart`.
#![forbid(unsafe_code)]

mod nodes;
mod words;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use kumiki_node::agent::{self, Role};
use kumiki_node::{Error, Subject, copying, vsock};
use kumiki_places::Attached;
use kumiki_sys::sentence::with_causes;

use words::{Order, parse};

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1).collect::<Vec<OsString>>();
    let heard = kumiki_sys::event::to_file().map_err(anyhow::Error::from);
    match heard.and_then(|()| parse(words)).and_then(run) {
        Ok(code) => code,
        Err(error) => {
            say(format_args!("{}", with_causes(error.as_ref())));
            let refused = error.downcast_ref::<Error>().and_then(Error::subject);
            let is_folder = matches!(refused, Some(Subject::Folder(_)));
            ExitCode::from(if is_folder { copying::IS_FOLDER } else { 2 })
        }
    }
}

fn run(order: Order) -> Result<ExitCode> {
    match order {
        Order::Version => return Ok(data(concat!("kumiki ", env!("CARGO_PKG_VERSION"), "\n"))),
        Order::Agent { window, role } => agent::main(window, role)?,
        Order::Take { target, name, mode, bytes, time } => {
            agent::go_in()?;
            copying::take(Path::new(&target), Path::new(&name), mode, bytes, time.as_deref())?;
        }
        Order::Give { source } => {
            agent::go_in()?;
            copying::give(Path::new(&source))?;
        }
        Order::TakeFolder { target, name } => {
            agent::go_in()?;
            copying::take_folder(Path::new(&target), Path::new(&name))?;
        }
        Order::GiveFolder { source } => {
            agent::go_in()?;
            copying::give_folder(Path::new(&source))?;
        }
        Order::Listen { port, echo: true } => vsock::echo(port)?,
        Order::Listen { port, echo: false } => vsock::serve(port)?,
        Order::Connect { cid, port } => vsock::connect(cid, port)?,
        Order::Relay { name } => {
            // Where a node has a root, its programs have their sockets there.
            agent::go_in()?;
            runtime()?.block_on(kumiki_places::relay_stdio(&name, None))?;
        }
        Order::Attach { name } => {
            agent::go_in()?;
            runtime()?.block_on(kumiki_places::attach_stdio(&name, tell))?;
        }
        Order::Ls { json } => return Ok(data(&nodes::list(json)?)),
        Order::Start(how) => {
            return Ok(nodes::start(&how)?.map_or(ExitCode::SUCCESS, |text| data(&text)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what was asked for; the exit status, which says whether it arrived.
fn data(text: &str) -> ExitCode {
    ExitCode::from(kumiki_sys::stdio::printed("kumiki", text.as_bytes(), 2))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting input and output")
}

/// Standard output is the stream.
fn tell(news: Attached) {
    match news {
        Attached::There(place) => say(format_args!("+ {place}")),
        Attached::Gone(place) => say(format_args!("- {place}")),
        Attached::Refused { place, why } => {
            say(format_args!("place {place:?} is not available here: {why}"));
        }
    }
}

/// Tells a person something; the first process has nobody who listens.
fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "kumiki: {text}");
}
