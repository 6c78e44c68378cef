//! Every command that the README and CONTRIBUTING show is one that the tools
//! understand.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// Commands of the ```console blocks (the lines that start with a prompt) and
/// of tables (the rows that start with one).
fn commands_of(markdown: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    for line in markdown.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(language) => inside = !inside && language.trim() == "console",
            None if inside => commands.extend(line.strip_prefix("$ ").map(str::to_owned)),
            None => commands.extend(table_command(line).map(str::to_owned)),
        }
    }
    commands
}

fn table_command(line: &str) -> Option<&str> {
    let (code, _) = line.strip_prefix("| `")?.split_once('`')?;
    ["kumiki ", "cargo "].iter().any(|program| code.starts_with(program)).then_some(code)
}

/// The program that a shown command runs, asked for its help with the same
/// arguments, so that an unknown verb or option is refused and nothing is done.
fn dry(shown: &str, kumiki: &Path) -> Command {
    let words = shlex::split(shown).unwrap_or_else(|| panic!("`{shown}`: quotes do not match"));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (program, args) = match words.as_slice() {
        ["cargo", "run", "--release", "--", args @ ..] | ["kumiki", args @ ..] => {
            (kumiki.to_owned(), args)
        }
        ["cargo", "run", "--release", "-p", program, "--", args @ ..] => {
            (kumiki.with_file_name(program), args)
        }
        ["cargo", "xtask", args @ ..] => (PathBuf::from(env!("CARGO_BIN_EXE_xtask")), args),
        _ => {
            panic!("`{shown}`: only kumiki, cargo run --release -- and cargo xtask can be checked")
        }
    };
    let mut command = Command::new(program);
    command.args(args).arg("--help").stdin(Stdio::null());
    command
}

/// Builds the `kumiki` command and says where it is.
fn build_kumiki() -> PathBuf {
    let mut build = Command::new(env::var("CARGO").expect("cargo runs its tests with CARGO set"));
    // All of the workspace with all features, as `cargo xtask test` built it:
    // otherwise dependencies would be compiled a second time.
    build.args(["build", "--workspace", "--all-features", "--locked", "--quiet"]);
    let status = build.current_dir(root()).status().expect("cargo runs");
    assert!(status.success(), "the workspace does not build");
    Path::new(env!("CARGO_BIN_EXE_xtask")).with_file_name("kumiki")
}

#[test]
fn shown_commands_exist() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md is readable");
    let mut commands = commands_of(&readme);
    for shown in ["cargo run --release -- report", "cargo xtask test"] {
        assert!(commands.iter().any(|command| command == shown), "README lost `{shown}`");
    }
    let contributing = fs::read_to_string(root().join("CONTRIBUTING.md"));
    commands.extend(commands_of(&contributing.expect("CONTRIBUTING.md is readable")));
    let kumiki = build_kumiki();
    for shown in &commands {
        let output = dry(shown, &kumiki).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{shown}`: {}\n{errors}", output.status);
        assert!(said.contains("Usage:"), "`{shown}` prints no help:\n{said}");
    }
}

#[test]
fn commands_stand_in_console_blocks_and_tables() {
    let markdown = "$ outside\n```console\n$ kumiki doctor\nits output\n```\n\n```rust\n$ no\n```\n\
                    | `kumiki report` | makes `x` |\n| `b` | c |\n\
                    ```console\n$ cargo xtask test\n```\n";
    assert_eq!(commands_of(markdown), ["kumiki doctor", "kumiki report", "cargo xtask test"]);
}

#[test]
fn an_option_that_does_not_exist_is_found() {
    for shown in ["cargo xtask test --no-such-option", "cargo xtask no-such-chore"] {
        let status = dry(shown, Path::new("unused")).output().expect("xtask runs").status;
        assert!(!status.success(), "`{shown}` was accepted");
    }
}
