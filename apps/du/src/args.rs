//! The command line: du's options.

use std::ffi::{CString, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::exclude::Exclude;
use crate::format::Format;
use crate::lines::Style;
use crate::output;
use crate::talk::say;
use crate::walk::Rules;

const EXAMPLES: &str = "\
Examples:
  kumiki-du -sh /usr                 how much /usr takes, in a unit that fits
  kumiki-du -h -d 1 ~                the same for each directory in the home
  kumiki-du -xsc /var /opt           two totals and their sum, mounts left out
  kumiki-du -a --exclude='*.o' .     every file but object files
  kumiki-du -0 . | sort -zn          names with line feeds survive

The lines are those of GNU du of coreutils 9.1, directories after what is in
them. They are printed when an operand has been gone through, not before. Which
name of a file with several hard links counts can differ in a directory of more
than 10,000 entries, which GNU du reorders.

GNU du's --files0-from, --inodes, --threshold, --time and --time-style are not
there. Long options may be shortened as long as one only fits.

Sizes are rounded up. Without an option they are in the block size of
DU_BLOCK_SIZE, BLOCK_SIZE or BLOCKSIZE, or else 1024 bytes (512 if
POSIXLY_CORRECT is set).

Exit status: 0 if everything was counted; 1 if something could not be read, the
command line is wrong, or the output cannot be written, which is said on stderr.";

/// Disk usage of files and, recursively, of directories: what du says, with the
/// system calls made in parallel
#[derive(Debug, Parser)]
#[command(name = "kumiki-du", version, after_help = EXAMPLES, args_override_self = true)]
#[command(infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Cli {
    /// What to count; the working directory if nothing is given
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,

    /// End each line with a NUL, not a line feed
    #[arg(short = '0', long)]
    null: bool,
    /// A line for every file, not just for directories
    #[arg(short, long)]
    all: bool,
    /// How long files are, not what they take on the disk
    #[arg(long)]
    apparent_size: bool,
    /// Units of SIZE bytes: 512, K, 4K, MiB, MB, …
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = Format::parse)]
    block_size: Option<Format>,
    /// The same as --apparent-size --block-size=1
    #[arg(short, long)]
    bytes: bool,
    /// A grand total at the end
    #[arg(short = 'c', long)]
    total: bool,
    /// Follow symbolic links that are operands
    #[arg(short = 'D', short_alias = 'H', long, overrides_with_all = ["dereference", "no_dereference"])]
    dereference_args: bool,
    /// Lines only down to N levels below an operand
    #[arg(short = 'd', long, value_name = "N")]
    max_depth: Option<u32>,
    /// Sizes with a letter, powers of 1024: 1.1K 234M 2.0G
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Sizes with a letter, powers of 1000
    #[arg(long)]
    si: bool,
    /// The same as --block-size=1K
    #[arg(short)]
    k: bool,
    /// Follow all symbolic links
    #[arg(short = 'L', long, overrides_with_all = ["dereference_args", "no_dereference"])]
    dereference: bool,
    /// Count a file as often as it has names here
    #[arg(short = 'l', long)]
    count_links: bool,
    /// The same as --block-size=1M
    #[arg(short)]
    m: bool,
    /// Follow no symbolic links (the default)
    #[arg(short = 'P', long, overrides_with_all = ["dereference", "dereference_args"])]
    no_dereference: bool,
    /// Directories without their subdirectories
    #[arg(short = 'S', long)]
    separate_dirs: bool,
    /// Only one line for each operand
    #[arg(short, long)]
    summarize: bool,
    /// Leave out what is on other file systems
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Leave out what matches a shell pattern
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    exclude: Vec<OsString>,
    /// Leave out what matches a pattern in FILE, one a line; - is stdin
    #[arg(short = 'X', long, value_name = "FILE", action = ArgAction::Append)]
    exclude_from: Vec<PathBuf>,
    /// Make one system call after the other, without other threads
    #[arg(long, overrides_with = "parallel")]
    plain: bool,
    /// Make system calls in parallel from the first one on, not only where many
    /// directories are found
    #[arg(long, overrides_with = "plain")]
    parallel: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// Who makes the system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The calling thread.
    Plain,
    /// Whoever is free.
    Parallel,
    /// First the one, then the other.
    Either,
}

/// What to do.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) operands: Vec<CString>,
    pub(crate) rules: Rules,
    pub(crate) style: Style,
    pub(crate) grand_total: bool,
    pub(crate) who: Who,
}

/// Reads the command line; ends the program if that is wrong, or asks for help.
pub(crate) fn task() -> Result<Task> {
    let mut command = Cli::command();
    if posix() {
        // The first operand ends the options.
        command = command.mut_arg("files", |files| files.trailing_var_arg(true));
    }
    let matches =
        command.try_get_matches_from_mut(std::env::args_os()).unwrap_or_else(|error| end(&error));
    let cli =
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| end(&error.format(&mut command)));
    if cli.summarize && cli.all {
        contradict("cannot both summarize and show all entries");
    }
    match cli.max_depth {
        Some(0) if cli.summarize => say("warning: summarizing is the same as using --max-depth=0"),
        Some(deepest) if cli.summarize => {
            contradict(&format!("warning: summarizing conflicts with --max-depth={deepest}"));
        }
        _ => {}
    }
    cli.task(&matches)
}

/// Ends the program with the help that was asked for, or with what is wrong about the
/// command line.
fn end(text: &clap::Error) -> ! {
    if text.use_stderr() {
        // If somebody listens there.
        let _ = text.print();
        std::process::exit(1)
    }
    let printed = output::is_there().and_then(|()| text.print());
    let printed = printed.and_then(|()| std::io::stdout().flush());
    let code = match output::written(printed) {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("{error:#}"));
            1
        }
    };
    std::process::exit(code)
}

/// Ends the program, as du does, since two options exclude each other.
fn contradict(text: &str) -> ! {
    say(text);
    say("try '--help' for more information");
    std::process::exit(1)
}

impl Cli {
    fn task(self, matches: &ArgMatches) -> Result<Task> {
        let format = self.format(matches);
        let deepest = if self.summarize { 0 } else { self.max_depth.unwrap_or(u32::MAX) };
        let patterns = self.patterns()?;
        let rules = Rules {
            apparent: self.apparent_size || self.bytes,
            count_links: self.count_links,
            once: self.files.len() > 1 || self.dereference,
            one_file_system: self.one_file_system,
            follow: self.dereference,
            follow_operands: self.dereference_args,
            exclude: Exclude::new(&patterns, utf8_locale())?,
            files_to_depth: self.all.then_some(deepest),
        };
        let end = if self.null { 0 } else { b'\n' };
        let style = Style { format, deepest, separate: self.separate_dirs, end };
        let files = if self.files.is_empty() { vec![".".into()] } else { self.files };
        Ok(Task {
            operands: files.into_iter().map(operand).collect::<Result<_>>()?,
            rules,
            style,
            grand_total: self.total,
            who: match (self.plain, self.parallel) {
                (true, _) => Who::Plain,
                (_, true) => Who::Parallel,
                _ => Who::Either,
            },
        })
    }

    /// The last option that says how to print sizes, or what the environment
    /// says.
    fn format(&self, matches: &ArgMatches) -> Format {
        let given = |id: &str, format: Option<Format>| {
            let typed = matches.value_source(id) == Some(ValueSource::CommandLine);
            let last = matches.indices_of(id).filter(|_| typed).and_then(Iterator::last);
            last.zip(format)
        };
        let candidates = [
            given("block_size", self.block_size.clone()),
            given("bytes", Some(Format::blocks(1))),
            given("human_readable", Some(Format::Human { base: 1024 })),
            given("si", Some(Format::Human { base: 1000 })),
            given("k", Some(Format::blocks(1024))),
            given("m", Some(Format::blocks(1024 * 1024))),
        ];
        let last = candidates.into_iter().flatten().max_by_key(|&(index, _)| index);
        last.map_or_else(environment, |(_, format)| format)
    }

    fn patterns(&self) -> Result<Vec<Vec<u8>>> {
        let mut patterns: Vec<_> = self.exclude.iter().map(|p| p.as_bytes().to_vec()).collect();
        for file in &self.exclude_from {
            let text = match file.to_str() {
                Some("-") => {
                    let mut text = Vec::new();
                    std::io::stdin().read_to_end(&mut text).map(|_| text)
                }
                _ => std::fs::read(file),
            };
            let text = text
                .with_context(|| format!("reading patterns to exclude from {}", file.display()))?;
            let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
            let lines = lines.filter(|line| !line.is_empty());
            patterns.extend(lines.map(<[u8]>::to_vec));
        }
        Ok(patterns)
    }
}

/// The block size of the environment, as far as it can be read.
fn environment() -> Format {
    let named = ["DU_BLOCK_SIZE", "BLOCK_SIZE", "BLOCKSIZE"].into_iter().find_map(std::env::var_os);
    let read = named.and_then(|text| {
        Format::parse(&text.to_string_lossy()).map_or_else(|error| error.readable, Some)
    });
    read.unwrap_or_else(|| Format::blocks(if posix() { 512 } else { 1024 }))
}

fn posix() -> bool {
    std::env::var_os("POSIXLY_CORRECT").is_some()
}

/// Whether this locale's characters are UTF-8, by the variables that set it.
fn utf8_locale() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}

/// An operand as it is opened and printed: of several slashes at the end one
/// is kept.
fn operand(file: OsString) -> Result<CString> {
    let mut bytes = file.into_vec();
    if bytes.len() > 2 {
        while bytes.ends_with(b"//") {
            bytes.pop();
        }
    }
    // Arguments cannot hold a NUL.
    CString::new(bytes).context("a name with a NUL in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Task {
        let matches = Cli::command().get_matches_from(line.split(' '));
        Cli::from_arg_matches(&matches).unwrap().task(&matches).unwrap()
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_last_format_wins_and_bytes_stay_apparent() {
        assert_eq!(parse("du -k -h -h").style.format, Format::Human { base: 1024 });
        assert_eq!(parse("du -h -B 1M -k").style.format, Format::blocks(1024));
        let task = parse("du -b -h");
        assert_eq!(task.style.format, Format::Human { base: 1024 });
        assert!(task.rules.apparent);
        assert!(parse("du -L -P a").rules.files_to_depth.is_none());
        assert!(!parse("du -L -P a").rules.follow);
        assert!(parse("du -P -L a").rules.once);
    }

    #[test]
    fn slashes_at_the_end() {
        for (given, kept) in [("a", "a"), ("a/", "a/"), ("a//", "a/"), ("//", "//"), ("///", "/")] {
            assert_eq!(operand(given.into()).unwrap().to_str().unwrap(), kept, "{given}");
        }
    }
}
