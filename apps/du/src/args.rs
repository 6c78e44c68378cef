//! The command line: du's options.

mod getopt;
mod help;
mod options;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::Result;
use kumiki_sys::sentence::with_causes;

use crate::choice::{Choices, NoChoice, choose};
use crate::exclude::Exclude;
use crate::format::Format;
use crate::lines::Style;
use crate::locale::{is_posix, is_utf8};
use crate::names::Names;
use crate::number::{self, Refused, Units};
use crate::output;
use crate::quote::{if_needed, in_shell, in_words};
use crate::rules::{Amount, Rules};
use crate::talk::{self, reason, say, tell};
use crate::when::{Layout, Which};
use getopt::{GivenOption, Options};
use options::Id;

/// Makers of the system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The calling thread.
    Plain,
    /// Any thread that is free.
    Parallel,
    /// First the one, then the other.
    Either,
}

/// Work that the command line asks for.
pub(crate) struct Task {
    pub(crate) names: Names,
    pub(crate) rules: Rules,
    pub(crate) style: Style,
    pub(crate) grand_total: bool,
    pub(crate) who: Who,
}

const TIMES: &Choices<Which> = &[
    ("atime", Which::Access),
    ("access", Which::Access),
    ("use", Which::Access),
    ("ctime", Which::Change),
    ("status", Which::Change),
];

const TIME_STYLES: &Choices<&str> =
    &[("full-iso", "%Y-%m-%d %H:%M:%S.%N %z"), ("long-iso", "%Y-%m-%d %H:%M"), ("iso", "%Y-%m-%d")];

/// Symbolic links that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Follow {
    #[default]
    None,
    Operands,
    All,
}

/// Values of the options.
#[derive(Debug, Default)]
struct Cli {
    all: bool,
    apparent: bool,
    count_links: bool,
    files_from: Option<OsString>,
    follow: Follow,
    format: Option<Format>,
    grand_total: bool,
    inodes: bool,
    max_depth: Option<i64>,
    null: bool,
    one_file_system: bool,
    patterns: Vec<Vec<u8>>,
    separate: bool,
    summarize: bool,
    threshold: i64,
    time: Option<Which>,
    time_style: Option<Vec<u8>>,
    who: Option<Who>,
    /// True if something is wrong, which has been said.
    wrong: bool,
}

/// Reads the command line; ends the program if that is wrong, or asks for help.
pub(crate) fn task() -> Result<Task> {
    let mut options = Options::new(std::env::args_os().skip(1), is_posix());
    let cli = Cli::read(&mut options);
    if cli.wrong {
        end_with_hint();
    }
    cli.task(options.operands)
}

/// Ends the program since the command line is wrong, which has been said.
fn end_with_hint() -> ! {
    tell(&[b"Try '", talk::name(), b" --help' for more information.\n"].concat());
    std::process::exit(1)
}

/// Ends the program after `text`, and hints at the help.
fn refuse(text: impl AsRef<[u8]>) -> ! {
    say(text);
    end_with_hint()
}

/// Ends the program after `text`.
fn fail(text: impl AsRef<[u8]>) -> ! {
    say(text);
    std::process::exit(1)
}

/// Ends the program with the text that was asked for.
fn end_with(text: &str) -> ! {
    let mut stdout = std::io::stdout().lock();
    let printed = output::is_there().and_then(|()| stdout.write_all(text.as_bytes()));
    match output::written(printed.and_then(|()| stdout.flush())) {
        Ok(()) => std::process::exit(0),
        Err(error) => fail(with_causes(error.as_ref())),
    }
}

impl Cli {
    fn read(options: &mut Options<impl Iterator<Item = OsString>>) -> Self {
        let mut cli = Cli::default();
        for given in options {
            match given {
                Ok(given) => cli.take(given),
                Err(text) => {
                    say(text);
                    cli.wrong = true;
                }
            }
        }
        cli
    }

    fn take(&mut self, given: GivenOption) {
        let GivenOption { row, called, value } = given;
        let value_given = value.is_some();
        let value = value.unwrap_or_default().into_vec();
        let refused = |refused: Refused| -> ! { fail(refused.text(&called, &value)) };
        match row.id {
            Id::All => self.all = true,
            Id::ApparentSize => self.apparent = true,
            Id::BlockSize => match Format::parse(&value) {
                Ok(format) => self.format = Some(format),
                Err(error) => refused(error.refused),
            },
            Id::Bytes => {
                self.apparent = true;
                self.format = Some(Format::blocks(1));
            }
            Id::CountLinks => self.count_links = true,
            Id::Dereference => self.follow = Follow::All,
            Id::DereferenceArgs => self.follow = Follow::Operands,
            Id::Exclude => self.patterns.push(value),
            Id::ExcludeFrom => self.take_patterns(&value),
            Id::FilesFrom => self.files_from = Some(OsString::from_vec(value)),
            Id::Help => end_with(&help::help()),
            Id::HumanReadable => self.format = Some(Format::Human { base: 1024 }),
            Id::Inodes => self.inodes = true,
            Id::Kibibytes => self.format = Some(Format::blocks(1024)),
            Id::MaxDepth => {
                let (lowest, highest) = (i64::MIN.into(), i64::MAX.into());
                let depth = number::read(&value, lowest, highest, Units::None);
                match depth.map(number::Number::checked) {
                    Some(Ok(depth)) => self.max_depth = Some(depth as i64),
                    _ => {
                        say([&b"invalid maximum depth "[..], &in_words(&value)].concat());
                        self.wrong = true;
                    }
                }
            }
            Id::Mebibytes => self.format = Some(Format::blocks(1024 * 1024)),
            Id::NoDereference => self.follow = Follow::None,
            Id::Null => self.null = true,
            Id::OneFileSystem => self.one_file_system = true,
            Id::Parallel => self.who = Some(Who::Parallel),
            Id::Plain => self.who = Some(Who::Plain),
            Id::SeparateDirs => self.separate = true,
            Id::Si => self.format = Some(Format::Human { base: 1000 }),
            Id::Summarize => self.summarize = true,
            Id::Threshold => {
                let (lowest, highest) = (i64::MIN.into(), i64::MAX.into());
                let threshold = number::read(&value, lowest, highest, Units::Threshold);
                match threshold.ok_or(Refused::Invalid).and_then(number::Number::checked) {
                    Ok(0) if value.starts_with(b"-") => fail("invalid --threshold argument '-0'"),
                    Ok(threshold) => self.threshold = threshold as i64,
                    Err(error) => refused(error),
                }
            }
            Id::Time if !value_given => self.time = Some(Which::Modification),
            Id::Time => self.time = Some(chosen(&value, "--time", TIMES)),
            Id::TimeStyle => self.time_style = Some(value),
            Id::Total => self.grand_total = true,
            Id::Version => {
                end_with(concat!("kumiki-du ", env!("CARGO_PKG_VERSION"), "\n"));
            }
        }
    }

    /// Takes the patterns of a file, one a line; what stands behind a NUL in a line
    /// is none of it.
    fn take_patterns(&mut self, file: &[u8]) {
        let mut text = Vec::new();
        let read = match file {
            b"-" => std::io::stdin().read_to_end(&mut text),
            _ => std::fs::File::open(std::ffi::OsStr::from_bytes(file))
                .and_then(|mut file| file.read_to_end(&mut text)),
        };
        if let Err(error) = read {
            say([if_needed(file), format!(": {}", reason(&error)).into()].concat());
            self.wrong = true;
        }
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
        for line in text.split(|&byte| byte == b'\n') {
            if let Some(last) = line.iter().rposition(|byte| !blank(byte)) {
                let pattern = line[..=last].split(|&byte| byte == 0).next();
                self.patterns.extend(pattern.map(<[u8]>::to_vec));
            }
        }
    }

    fn task(self, operands: Vec<OsString>) -> Result<Task> {
        if self.all && self.summarize {
            refuse("cannot both summarize and show all entries");
        }
        match self.max_depth {
            Some(0) if self.summarize => {
                say("warning: summarizing is the same as using --max-depth=0");
            }
            Some(deepest) if self.summarize => {
                refuse(format!("warning: summarizing conflicts with --max-depth={deepest}"));
            }
            _ => {}
        }
        let deepest = if self.summarize { 0 } else { self.max_depth.unwrap_or(i64::MAX) };
        let deepest = u32::try_from(deepest.max(0)).unwrap_or(u32::MAX);
        if self.inodes && self.apparent {
            say("warning: options --apparent-size and -b are ineffective with --inodes");
        }
        let format = self.format.clone().unwrap_or_else(environment);
        let layout = self.time.map(|_| self.layout());
        let once = self.files_from.is_some() || operands.len() > 1 || self.follow == Follow::All;
        let names = match self.files_from {
            Some(file) => names_from(file, &operands),
            None if operands.is_empty() => Names::Given(vec![".".into()].into_iter()),
            None => Names::Given(operands.into_iter()),
        };
        let rules = Rules {
            amount: match (self.inodes, self.apparent) {
                (true, _) => Amount::Inodes,
                (_, true) => Amount::Lengths,
                _ => Amount::Blocks,
            },
            count_links: self.count_links,
            once,
            one_file_system: self.one_file_system,
            follow: self.follow == Follow::All,
            follow_operands: self.follow == Follow::Operands,
            exclude: Exclude::new(&self.patterns, is_utf8(), is_posix())?,
            files_to_depth: self.all.then_some(deepest),
            time: self.time,
        };
        let style = Style {
            format: if self.inodes { format.for_inodes() } else { format },
            deepest,
            separate: self.separate,
            threshold: self.threshold,
            layout,
            end: if self.null { 0 } else { b'\n' },
        };
        let who = self.who.unwrap_or(Who::Either);
        Ok(Task { names, rules, style, grand_total: self.grand_total, who })
    }

    /// Layout of times: by the option, or by the environment, as for all programs that list files.
    fn layout(&self) -> Layout {
        let style = self.time_style.clone().unwrap_or_else(|| {
            let named = std::env::var_os("TIME_STYLE").map(OsString::into_vec);
            match named.as_deref() {
                None | Some(b"locale") => b"long-iso".to_vec(),
                Some(style @ [b'+', ..]) => {
                    style.split(|&byte| byte == b'\n').next().unwrap_or_default().to_vec()
                }
                Some(mut style) => {
                    while let Some(rest) = style.strip_prefix(b"posix-") {
                        style = rest;
                    }
                    style.to_vec()
                }
            }
        });
        let format = match style.strip_prefix(b"+") {
            Some(format) => format.to_vec(),
            None => chosen(&style, "time style", TIME_STYLES).into(),
        };
        Layout::new(format)
    }
}

/// Value that `word` names among `choices`; ends the program if there is none.
fn chosen<T: Copy + PartialEq>(word: &[u8], what: &str, choices: &Choices<T>) -> T {
    choose(word, choices).unwrap_or_else(|error: NoChoice| refuse(error.text(word, what, choices)))
}

/// The names in `file`; ends the program if there are operands, too.
fn names_from(file: OsString, operands: &[OsString]) -> Names {
    if let Some(operand) = operands.first() {
        say([&b"extra operand "[..], &in_words(operand.as_bytes())].concat());
        tell(b"file operands cannot be combined with --files0-from\n");
        end_with_hint();
    }
    let shown = in_shell(file.as_bytes());
    Names::listed(file).unwrap_or_else(|error| {
        let why = format!(" for reading: {}", reason(&error));
        fail([&b"cannot open "[..], &shown, why.as_bytes()].concat())
    })
}

/// The block size of the environment, as far as it can be read.
fn environment() -> Format {
    let named = ["DU_BLOCK_SIZE", "BLOCK_SIZE", "BLOCKSIZE"].into_iter().find_map(std::env::var_os);
    let read = named
        .and_then(|text| Format::parse(text.as_bytes()).map_or_else(|error| error.readable, Some));
    read.unwrap_or_else(|| Format::blocks(if is_posix() { 512 } else { 1024 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Task {
        let arguments: Vec<_> = line.split(' ').map(OsString::from).collect();
        let mut options = Options::new(arguments.into_iter(), false);
        let cli = Cli::read(&mut options);
        assert!(!cli.wrong);
        cli.task(options.operands).unwrap()
    }

    #[test]
    fn the_last_format_wins_and_bytes_stay_apparent() {
        assert_eq!(parse("-k -h -h").style.format, Format::Human { base: 1024 });
        let task = parse("-b -h -k");
        assert_eq!(task.style.format, Format::blocks(1024));
        assert_eq!(task.rules.amount, Amount::Lengths);
        assert!(parse("-L -P a").rules.files_to_depth.is_none());
        assert!(!parse("-L -P a").rules.follow);
        assert!(parse("-P -L a").rules.once);
    }

    #[test]
    fn depths_and_thresholds() {
        assert_eq!(parse("-d 0x2").style.deepest, 2);
        assert_eq!(parse("-d -1").style.deepest, 0);
        assert_eq!(parse("-t -1K").style.threshold, -1024);
        assert_eq!(parse("--inodes -h").rules.amount, Amount::Inodes);
    }
}
