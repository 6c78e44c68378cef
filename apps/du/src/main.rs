//! Disk usage as du counts it, with the system calls made in parallel.
//!
//! A real program on top of `kumiki-parasc`: a walk over a directory tree is
//! almost nothing but system calls, and most of them do not wait for each other.
//! The walk gathers them in batches of one kind; who makes a batch's calls is
//! behind one trait ([`calls`]).
#![forbid(unsafe_code)]

mod accounts;
mod args;
mod calls;
mod choice;
mod descriptors;
mod exclude;
mod format;
mod lines;
mod links;
mod locale;
mod names;
mod number;
mod output;
mod quote;
mod rules;
mod sum;
mod talk;
mod tree;
mod walk;
mod when;

use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use anyhow::Result;
use kumiki_sys::sentence::with_causes;
use kumiki_sys::stdio::restore_pipe_signal;

use args::{Task, Who};
use calls::{Batched, Calls, Crowd, Parallel, Plain};
use output::{Output, written};
use sum::Sum;
use talk::{Talk, say};
use walk::Walk;

fn main() -> ExitCode {
    restore_pipe_signal();
    let heard = kumiki_sys::event::to_file().map_err(anyhow::Error::from);
    let outcome = heard.and_then(|()| args::task()).and_then(|task| match task.who {
        Who::Plain => run(task, Plain),
        Who::Parallel => run(task, Batched::new()?),
        Who::Either => run(task, Parallel::<Crowd>::new()),
    });
    match outcome {
        Ok(faulty) => ExitCode::from(u8::from(faulty)),
        Err(error) => {
            say(with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// Prints what `task` asks for; returns whether anything could not be read.
fn run(task: Task, calls: impl Calls) -> Result<bool> {
    let talk = Talk::new();
    written(print(task, calls, &talk))?;
    Ok(talk.faulty())
}

fn print(task: Task, calls: impl Calls, talk: &Talk) -> io::Result<()> {
    let Task { names, rules, style, grand_total, .. } = task;
    // The process ends: to take down its threads and its tree only takes time.
    let mut walk = ManuallyDrop::new(Walk::new(calls, &rules, talk));
    let mut out = BufWriter::with_capacity(64 * 1024, Output::new());
    let mut total = Sum::NOTHING;
    for name in names {
        let name = match name {
            Ok(name) => name,
            Err(text) => {
                talk.fault(&text);
                continue;
            }
        };
        if let Some(tree) = walk.operand(&name) {
            let sum = talk.aside(|| {
                let sum = lines::print(&tree, &style, &mut out)?;
                out.flush().map(|()| sum)
            })?;
            total.add(sum);
        }
    }
    if grand_total {
        talk.aside(|| style.any_line(&mut out, total, b"total"))?;
    }
    talk.aside(|| out.flush())
}
