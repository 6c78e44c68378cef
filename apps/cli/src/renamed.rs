//! Former names of commands and options, which go on for a version and say how they are called now.

use std::ffi::{OsStr, OsString};

/// A word of the command line that is another one now.
struct Renamed {
    /// Commands before it.
    below: &'static [&'static str],
    former: &'static str,
    now: &'static str,
}

/// All of them. A version after the one that they came with they go.
const RENAMED: [Renamed; 9] = [
    Renamed { below: &["node"], former: "delete", now: "rm" },
    Renamed { below: &["node"], former: "watch", now: "supervise" },
    Renamed { below: &["node"], former: "keep", now: "snapshot" },
    Renamed { below: &["node"], former: "lend", now: "delegate" },
    Renamed { below: &["resource"], former: "delete", now: "rm" },
    Renamed { below: &["lab"], former: "log", now: "logs" },
    // How many cpus is `--cpus`, which ones `--cpu-list`.
    Renamed { below: &["measure"], former: "--cpus", now: "--cpu-list" },
    Renamed { below: &["report"], former: "--cpus", now: "--cpu-list" },
    Renamed { below: &["place", "serve"], former: "--cpus", now: "--cpu-list" },
];

/// The command line by today's names, and a sentence for each former one. What comes after `--` is
/// another program's.
pub(crate) fn by_todays_names(mut words: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut notices = Vec::new();
    for Renamed { below, former, now } in RENAMED {
        // The program's own name is the first word.
        let begin = 1 + below.len();
        if end <= begin || !words[1..begin].iter().eq(below.iter().map(OsStr::new)) {
            continue;
        }
        let found = match former.starts_with('-') {
            true => (begin..end).find(|at| rest(&words[*at], former).is_some()),
            false => (words[begin] == former).then_some(begin),
        };
        if let Some(at) = found {
            let value = rest(&words[at], former).unwrap_or_default();
            words[at] = format!("{now}{value}").into();
            notices.push(format!(
                "`{former}` of `kumiki {}` is called `{now}`, and by its former name for this version only",
                below.join(" ")
            ));
        }
    }
    (words, notices)
}

/// Rest of a word that is an option: nothing, or a value after `=`.
fn rest<'a>(word: &'a OsStr, option: &str) -> Option<&'a str> {
    let rest = word.to_str()?.strip_prefix(option)?;
    (rest.is_empty() || rest.starts_with('=')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn of(line: &str) -> (String, usize) {
        let words = line.split(' ').map(OsString::from).collect();
        let (words, notices) = by_todays_names(words);
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), notices.len())
    }

    #[test]
    fn a_former_name_is_todays_and_is_told_of() {
        for (former, now) in [
            ("kumiki node delete n1 --force", "kumiki node rm n1 --force"),
            ("kumiki node watch machine.toml", "kumiki node supervise machine.toml"),
            ("kumiki node keep n1 warm", "kumiki node snapshot n1 warm"),
            ("kumiki node lend n1 n2", "kumiki node delegate n1 n2"),
            ("kumiki resource delete a/b/c", "kumiki resource rm a/b/c"),
            ("kumiki lab log one", "kumiki lab logs one"),
            ("kumiki measure fork --cpus 2,3", "kumiki measure fork --cpu-list 2,3"),
            ("kumiki report --cpus=2,3", "kumiki report --cpu-list=2,3"),
            ("kumiki place serve --cpus 1", "kumiki place serve --cpu-list 1"),
        ] {
            assert_eq!(of(former), (now.to_owned(), 1), "{former}");
        }
    }

    #[test]
    fn what_is_called_so_elsewhere_stays() {
        for line in [
            "kumiki",
            "kumiki node",
            "kumiki node exec n1 delete",
            "kumiki node watchman n1",
            "kumiki place lend n1 n2",
            "kumiki resource watch a/*",
            "kumiki node create n1 --cpus 2",
            "kumiki run web -- kumiki measure --cpus 2",
            "kumiki measure -- --cpus",
            "kumiki measure --cpusets",
            "kumiki lab run --cpus 2 -- log",
        ] {
            assert_eq!(of(line), (line.to_owned(), 0), "{line}");
        }
    }

    #[test]
    fn todays_names_are_those_of_the_command_line_and_former_ones_are_not() {
        for Renamed { below, former, now } in RENAMED {
            let mut command = Cli::command();
            for word in below {
                command = command.find_subcommand(word).expect(word).clone();
            }
            let has = |name: &str| match name.strip_prefix("--") {
                Some(long) => command.get_arguments().any(|one| one.get_long() == Some(long)),
                None => command.get_subcommands().any(|one| one.get_name() == name),
            };
            assert!(has(now) && !has(former), "{below:?} {former}");
        }
    }
}
