//! `kumiki resource`: what running processes own, as one tree.

mod list;
mod remote;
mod row;
mod top;
mod watch;

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use kumiki_places::Nats;
use kumiki_resource::Name;

use self::row::Row;
use crate::duration::positive;
use crate::place::{Choose, MaybeNats};
use crate::{Verdict, output};

#[derive(Debug, Args)]
pub(crate) struct Resource {
    #[command(subcommand)]
    command: ResourceCommand,
}

#[derive(Debug, Subcommand)]
enum ResourceCommand {
    /// List what processes of this user have published, their places, and this machine's nodes
    ///
    /// Places that are attached here (`kumiki place attach`) are listed with their resources. With --lines,
    /// those in running nodes, too. With --nats, the places behind that server and their resources instead.
    ///
    /// A process publishes its resources by `Interface::publish`, or in C by
    /// `kumiki_resource_publish`. Exit status 1 if nothing matches.
    Ls {
        #[command(flatten)]
        which: Which,
        /// List resources without a name one by one, too, and ids
        #[arg(long)]
        all: bool,
        /// Ask running OS nodes for their places, too, by lines in the memory that this machine shares with them
        #[arg(long, conflicts_with_all = ["url", "pid"])]
        lines: bool,
        /// Print JSON on standard output: all of them, with their ids
        #[arg(long)]
        json: bool,
    },
    /// List them again and again, the most used first, until Ctrl-C
    Top {
        #[command(flatten)]
        which: Which,
        /// Time between two looks
        #[arg(long, default_value = "2s", value_parser = positive, value_name = "TIME")]
        every: Duration,
        /// End after so many looks
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Order
        #[arg(long, value_enum, default_value_t = Sort::Calls)]
        sort: Sort,
    },
    /// Print names of a place as they come and go, until Ctrl-C
    ///
    /// Without --nats the place is one of a process of this user on this machine (`kumiki place serve`).
    ///
    /// A line each: + for one that has come, - for one that has gone; and what becomes of the place.
    /// Exit status 1 if the place has ended.
    Watch {
        /// The place, e.g. hostb.core3
        place: String,
        /// Names as place/kind/unique, with *, ? and [a-c] within a part and ** across
        #[arg(default_value = "**")]
        pattern: String,
        /// End after so many lines
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Print a line of JSON each
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: MaybeNats,
    },
    /// Make a resource at a place of another process, or machine, and print its id
    ///
    /// Without --nats the place is one of a process of this user on this machine (`kumiki place serve`).
    ///
    /// With --choose, the name's place is a pattern, such as 'hostb.*/counter/hits', and what is printed
    /// is the place that was chosen and the id.
    Create {
        /// Its name, e.g. hostb.core3/counter/hits
        name: String,
        /// Make it at one of several places
        #[arg(long, value_enum)]
        choose: Option<Choose>,
        /// The kind's wishes, in JSON
        #[arg(default_value = "null", value_name = "JSON")]
        wishes: String,
        #[command(flatten)]
        server: MaybeNats,
    },
    /// Call a program part of a resource of another process, or machine, and print what it gives
    ///
    /// The call runs once. Else the error says that it has not run, or that nobody knows.
    Call {
        /// The resource, e.g. hostb.core3/counter/hits
        name: Name,
        /// The program part, e.g. add
        part: String,
        /// Argument, in JSON
        #[arg(default_value = "null", value_name = "JSON", allow_negative_numbers = true)]
        input: String,
        /// Call by a line in the memory that this machine shares with an OS node, whose place it is
        #[arg(long, conflicts_with = "url")]
        line: bool,
        /// Call it so many times, and print what the last call gives
        #[arg(long, requires = "line", default_value_t = 1, value_name = "N",
              value_parser = clap::value_parser!(u64).range(1..))]
        times: u64,
        /// Time for which it is tried: after that the error says that it has not run, or that nobody knows
        #[arg(long, default_value = "10s", value_parser = positive, value_name = "TIME")]
        timeout: Duration,
        #[command(flatten)]
        server: MaybeNats,
    },
    /// Destroy a resource of another process, or machine
    Rm {
        /// Its name, e.g. hostb.core3/counter/hits
        name: Name,
        #[command(flatten)]
        server: MaybeNats,
    },
}

/// Order of `top`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// Most calls first
    Calls,
    /// Most memory first
    Memory,
    /// Processes by their numbers, resources by their names
    Name,
}

#[derive(Debug, Args)]
struct Which {
    /// Names as place/kind/unique, with *, ? and [a-c] within a part and ** across; or a place
    #[arg(default_value = "**", value_parser = |text: &str| Ok::<_, String>(of_names(text)))]
    pattern: String,
    /// Only this process's
    #[arg(long, value_name = "PID", conflicts_with = "url")]
    pid: Option<u32>,
    #[command(flatten)]
    server: MaybeNats,
}

/// A pattern of whole names; one of places alone means all that they have.
fn of_names(pattern: &str) -> String {
    match pattern.contains('/') || pattern == "**" {
        true => pattern.to_owned(),
        false => format!("{pattern}/**"),
    }
}

/// Server whose places are listed, if not this machine's are: what `--pid` and `--lines` ask for is here.
fn server(which: &Which, lines: bool) -> Result<Option<Nats>> {
    if which.pid.is_some() || lines { Ok(None) } else { which.server.nats() }
}

/// Rows of this machine, or of the places behind a server.
fn look(which: &Which, server: Option<&Nats>) -> Result<Vec<Row>> {
    if server.is_some() {
        return remote::look(server, &which.pattern, &[]);
    }
    let mut rows = row::look(which)?;
    if which.pid.is_none() {
        let published: Vec<u32> = rows.iter().filter_map(|row| row.process).collect();
        rows.extend(remote::look(None, &which.pattern, &published)?);
    }
    Ok(rows)
}

pub(crate) fn run(args: Resource) -> Result<Verdict> {
    match args.command {
        ResourceCommand::Ls { which, all, lines, json } => {
            let server = server(&which, lines)?;
            let mut rows = look(&which, server.as_ref())?;
            if lines {
                let more = remote::look_by_lines(&which.pattern, &rows)?;
                rows.extend(more);
            }
            if json {
                output::json(&rows)?;
            } else if rows.is_empty() && server.is_some() {
                output::talk("no place behind that server has a resource that matches");
            } else if rows.is_empty() {
                output::talk("no running process of yours publishes a resource that matches");
            } else {
                list::print(rows.clone(), all)?;
            }
            Ok(if rows.is_empty() { Verdict::Negative } else { Verdict::Fine })
        }
        ResourceCommand::Top { which, every, count, sort } => {
            let server = server(&which, false)?;
            let look = || look(&which, server.as_ref());
            top::run(look, every, count, sort).map(|()| Verdict::Fine)
        }
        ResourceCommand::Watch { place, pattern, count, json, server } => {
            watch::run(server.nats()?.as_ref(), &place, &of_names(&pattern), count, json)
        }
        ResourceCommand::Create { name, choose, wishes, server } => {
            let (place, id) = remote::create(server.nats()?.as_ref(), &name, choose, &wishes)?;
            let line = if choose.is_some() { format!("{place} {id}") } else { id };
            output::line(line).map(|()| Verdict::Fine)
        }
        ResourceCommand::Call { name, part, input, line, times, timeout, server } => {
            let called = remote::Called { name: &name, part: &part, input: &input, timeout };
            let given = match line {
                true => remote::call_by_line(&called, times)?,
                false => remote::call(server.nats()?.as_ref(), &called)?,
            };
            output::json(&given).map(|()| Verdict::Fine)
        }
        ResourceCommand::Rm { name, server } => {
            remote::delete(server.nats()?.as_ref(), &name).map(|()| Verdict::Fine)
        }
    }
}
