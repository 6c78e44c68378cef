//! Commands of `kumiki node` in groups, as its help shows them: three tools in one.

use std::fmt::Write;

use clap::{Command, CommandFactory, FromArgMatches};

use crate::args::Cli;

/// Commands under what they have in common, in the order of their use.
const NODE: [(&str, &[&str]); 3] = [
    (
        "Nodes by hand",
        &[
            "create",
            "set",
            "balance",
            "start",
            "restart",
            "stop",
            "kill",
            "rm",
            "ls",
            "top",
            "exec",
            "console",
            "logs",
            "cp",
            "device",
            "net",
            "vsock",
            "serve",
            "try-hardware",
        ],
    ),
    ("Nodes of a machine file", &["plan", "apply", "rollout", "supervise"]),
    (
        "Snapshots, sleep, and nodes that start or watch others",
        &["snapshot", "idle", "delegate", "watchman"],
    ),
];

/// Reads the command line.
///
/// # Errors
/// What is wrong with it, or the help that it asks for.
pub(crate) fn parse(words: Vec<std::ffi::OsString>) -> Result<Cli, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

fn command() -> Command {
    Cli::command().mut_subcommand("node", |node| {
        let template = format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}",
            list(&node)
        );
        node.help_template(template)
    })
}

/// The groups, each a heading with its commands.
fn list(node: &Command) -> String {
    let about = |name: &str| {
        let command = node.find_subcommand(name).and_then(Command::get_about);
        command.map(ToString::to_string).unwrap_or_default()
    };
    let width = NODE.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in NODE {
        // To write into a text cannot fail.
        let _ = writeln!(text, "{heading}:");
        for name in names {
            let _ = writeln!(text, "  {name:width$}  {}", about(name));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_of_nodes_is_in_one_group() {
        let cli = Cli::command();
        let node = cli.find_subcommand("node").unwrap();
        let shown = node.get_subcommands().filter(|command| !command.is_hide_set());
        let mut there: Vec<_> =
            shown.map(Command::get_name).filter(|name| *name != "help").collect();
        let mut grouped: Vec<_> = NODE.iter().flat_map(|(_, names)| *names).copied().collect();
        there.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, there);
    }

    #[test]
    fn the_help_has_a_line_of_each() {
        let help = parse(["kumiki", "node", "--help"].map(Into::into).into()).unwrap_err();
        let help = help.to_string();
        for (heading, names) in NODE {
            assert!(help.contains(&format!("\n{heading}:\n")), "{help}");
            for name in names {
                assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
            }
        }
        assert!(help.contains("\n  rm            Give a node's cpus"), "{help}");
        assert!(help.contains("Usage: kumiki node <COMMAND>") && help.contains("--help"), "{help}");
    }
}
