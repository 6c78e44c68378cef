//! Commands that a person may type.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;
use cargo_metadata::{Metadata, TargetKind};
use clap::Parser;
use clap::error::ErrorKind;

use crate::Cli;
use crate::run::{cargo, everything, metadata, run};

/// Cargo's own verbs that documents show, whose options are cargo's.
const OF_CARGO: [&str; 11] = [
    "add", "build", "cinstall", "clean", "clippy", "deny", "doc", "fmt", "install", "test", "tree",
];

/// Programs that documents show, and the packages that have them.
const SHOWN: [(&str, &str); 5] = [
    ("kumiki", "kumiki-cli"),
    ("kumiki-ab", "kumiki-ab"),
    ("kumiki-du", "kumiki-du"),
    ("kumiki-httpd", "kumiki-httpd"),
    ("kumiki-kv", "kumiki-kv"),
];

/// What no command line of ours knows: the word by which a lab's machine starts its agent.
const AGENT: &str = "kumiki lab-agent";

/// Whether a text is a command to be checked.
pub(super) fn is_command(text: &str) -> bool {
    let mut programs = SHOWN.iter().map(|(program, _)| *program).chain(["cargo"]);
    programs.any(|program| text.strip_prefix(program).is_some_and(|rest| rest.starts_with(' ')))
        // `cargo = "1"`, a line of a manifest.
        && text.split_whitespace().nth(1) != Some("=")
}

/// True of a command of a program, which has to be built to be asked.
pub(super) fn asks_a_program(text: &str) -> bool {
    is_command(text)
        && ["cargo xtask ", "cargo +nightly "].iter().all(|words| !text.starts_with(words))
        && (!text.starts_with("cargo ") || text.starts_with("cargo run"))
}

/// The workspace's programs, and what they are built from.
pub(super) struct Programs {
    folder: PathBuf,
    metadata: Metadata,
}

impl Programs {
    /// Builds those that documents show, as who works on them builds them; or, for tests, all as
    /// tests are built: what only tests depend on brings features of its own, by which crates would
    /// be compiled once more.
    pub(super) fn built(for_tests: bool) -> Result<Programs> {
        let what = match for_tests {
            true => format!("test --no-run {}", everything()?),
            false => {
                let packages = SHOWN.map(|(_, package)| format!("--package={package}"));
                format!("build --bins {}", packages.join(" "))
            }
        };
        run(&mut cargo(&format!("{what} --locked --quiet")))?;
        let metadata = metadata()?;
        let folder = metadata.target_directory.join("debug").into();
        Ok(Programs { folder, metadata })
    }

    /// Programs of which none has to be asked.
    pub(super) fn unbuilt() -> Result<Programs> {
        Ok(Programs { folder: "unused".into(), metadata: metadata()? })
    }

    /// Asks the program that a shown command runs for its help with the same words, so
    /// that an unknown verb or option is refused and nothing is done.
    pub(super) fn check(&self, shown: &str) -> Result<(), String> {
        if shown == AGENT {
            return Ok(());
        }
        // Of what is only sketched no more can be said than where it begins.
        let sketch = shown.split(['…', '[', '|', '<', '&']).next().unwrap_or(shown);
        let words = shlex::split(sketch).ok_or("quotes do not match")?;
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["cargo", "xtask", args @ ..] => chore(args),
            ["cargo", "run", args @ ..] => self.run_by_cargo(args),
            ["cargo", "+nightly", "fuzz", "run", "--fuzz-dir", "dev/fuzz", target, ..] => {
                self.fuzz(target)
            }
            ["cargo", verb, args @ ..] if OF_CARGO.contains(verb) => self.package_is_there(args),
            [program, args @ ..] if SHOWN.iter().any(|(shown, _)| shown == program) => {
                self.help(program, args)
            }
            _ => {
                Err("only kumiki, cargo xtask and common words of cargo can be checked".to_owned())
            }
        }
    }

    /// `cargo run` with words of its own, then those of the program.
    fn run_by_cargo(&self, args: &[&str]) -> Result<(), String> {
        let end = args.iter().position(|word| *word == "--").unwrap_or(args.len());
        let (own, rest) = (&args[..end], args.get(end + 1..).unwrap_or_default());
        self.package_is_there(own)?;
        if own.contains(&"--example") {
            return Ok(());
        }
        self.help(value(own, &["-p", "--package"]).unwrap_or("kumiki"), rest)
    }

    /// A package, an example or a test that is named is one of the workspace.
    fn package_is_there(&self, args: &[&str]) -> Result<(), String> {
        let args = &args[..args.iter().position(|word| *word == "--").unwrap_or(args.len())];
        let packages = self.metadata.workspace_packages();
        let named = value(args, &["-p", "--package"]);
        if let Some(name) = named
            && !packages.iter().any(|package| package.name == name)
        {
            return Err(format!("the workspace has no package {name}"));
        }
        for (option, kind) in [
            ("--example", TargetKind::Example),
            ("--test", TargetKind::Test),
            ("--bin", TargetKind::Bin),
        ] {
            let Some(name) = value(args, &[option]) else { continue };
            let mut targets = packages
                .iter()
                .filter(|package| named.is_none_or(|named| package.name == named))
                .flat_map(|package| &package.targets);
            if !targets.any(|target| target.name == name && target.kind.contains(&kind)) {
                return Err(format!("{} has no {kind} {name}", named.unwrap_or("the workspace")));
            }
        }
        Ok(())
    }

    fn fuzz(&self, target: &str) -> Result<(), String> {
        let source = self.metadata.workspace_root.join("dev/fuzz/fuzz_targets").join(target);
        let there = source.with_extension("rs").exists();
        there.then_some(()).ok_or_else(|| format!("there is no fuzz target {target}"))
    }

    fn help(&self, program: &str, args: &[&str]) -> Result<(), String> {
        let own = own_words(args);
        let mut command = Command::new(self.folder.join(program));
        let output = command.args(own).arg("--help").stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout);
        let refused = String::from_utf8_lossy(&output.stderr);
        match output.status.success() && said.contains("Usage:") {
            true => Ok(()),
            false if is_sketch(&refused) => Ok(()),
            false => Err(refused.lines().next().unwrap_or("it has no help").to_owned()),
        }
    }
}

/// The words that are not another program's: those before `--`, and of `node exec` the options
/// before the node, after which its program takes even `--help`.
fn own_words<'a, 'b>(args: &'a [&'b str]) -> &'a [&'b str] {
    let end = match args {
        ["node", "exec", rest @ ..] => 2 + rest.iter().take_while(|w| w.starts_with('-')).count(),
        _ => args.len(),
    };
    &args[..args.iter().position(|word| *word == "--").unwrap_or(end).min(end)]
}

/// A chore of ours.
fn chore(args: &[&str]) -> Result<(), String> {
    // What comes after `--` chooses tests.
    let args = &args[..args.iter().position(|word| *word == "--").unwrap_or(args.len())];
    let words = ["xtask"].iter().chain(args).chain(&["--help"]);
    let Err(answer) = Cli::try_parse_from(words) else { return Err("ran".to_owned()) };
    let text = answer.to_string();
    // `cargo xtask` alone, of all chores.
    match answer.kind() {
        ErrorKind::DisplayHelp => Ok(()),
        _ if is_sketch(&text) => Ok(()),
        _ => Err(text.lines().next().unwrap_or_default().to_owned()),
    }
}

/// Whether all that was refused is a word in capitals, which stands for something, or an
/// option that is named without its value.
fn is_sketch(refused: &str) -> bool {
    let word = ["invalid value '", "unrecognized subcommand '"]
        .iter()
        .find_map(|begin| refused.split_once(begin)?.1.split_once('\''));
    let stands_for = |(word, _): (&str, &str)| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || "_,:-".contains(c))
    };
    refused.contains("a value is required for '") || word.is_some_and(stands_for)
}

/// What follows one of these options.
fn value<'a>(args: &[&'a str], options: &[&str]) -> Option<&'a str> {
    let at = args.iter().position(|word| options.contains(word))?;
    args.get(at + 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_another_program_are_not_asked_for_help() {
        for (shown, own) in [
            ("node exec n1 ls -l", "node exec"),
            ("node exec -it n1 bash", "node exec -it"),
            ("node exec n1 -- ls --no-such-option", "node exec"),
            ("measure --against v1 -- true", "measure --against v1"),
            ("node ls --json", "node ls --json"),
        ] {
            let words: Vec<_> = shown.split(' ').collect();
            assert_eq!(own_words(&words).join(" "), own);
        }
    }

    #[test]
    fn each_program_that_documents_show_is_checked() {
        for (program, _) in SHOWN {
            assert!(is_command(&format!("{program} --help")), "{program}");
            assert!(asks_a_program(&format!("{program} --help")), "{program}");
        }
        assert!(!is_command("kumiki-places = \"1\""));
        assert!(asks_a_program("cargo run --release -- doctor"));
        for chore in ["cargo xtask lint", "cargo build", "cargo +nightly fuzz run x"] {
            assert!(!asks_a_program(chore), "{chore}");
        }
    }

    #[test]
    fn an_option_or_a_package_that_does_not_exist_is_found() {
        let programs = Programs::unbuilt().unwrap();
        for shown in [
            "cargo xtask test --no-such-option",
            "cargo xtask no-such-chore",
            "cargo xtask test nothing",
            "cargo run -p kumiki-shadow --example copy_bandwidth",
            "cargo test -p kumiki-nobody",
            "cargo +nightly fuzz run --fuzz-dir dev/fuzz nothing",
            "cargo frobnicate",
            // A program that cannot be asked is none.
            "kumiki doctor",
        ] {
            assert!(programs.check(shown).is_err(), "`{shown}` was accepted");
        }
        for shown in [
            "cargo xtask test PART",
            "cargo xtask stress NAME",
            "cargo xtask capi --prefix",
            "cargo xtask lint",
            "cargo xtask test workspace -- wake",
            "cargo run --release -p kumiki-copy --example copy_bandwidth -- --all",
            "cargo test -p kumiki-copy --test copy",
            "cargo +nightly fuzz run --fuzz-dir dev/fuzz getdents64",
            "cargo clean",
        ] {
            programs.check(shown).unwrap_or_else(|why| panic!("`{shown}`: {why}"));
        }
    }
}
