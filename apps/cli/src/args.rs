//! The command line: one definition from which help, man page and shell
//! completions are made.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration::duration;
use crate::percent::percent;
use crate::select::{Select, Sizes};
use crate::{ahead, duel, image, lab, many, node, place, resource, run};

/// Measure what the operating system costs on this machine.
///
/// Exit status: 0 fine, 1 a negative result (a regression, nothing found),
/// 2 an error, 130 ended by Ctrl-C (143 by SIGTERM), 141 nobody reads what is printed. `run`,
/// `ahead` and `node exec` give the command's own: 127 if it is not found, 126 if it is none.
#[derive(Debug, Parser)]
#[command(name = "kumiki", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure system calls, processes, memory, signals, files, IPC and threads
    ///
    /// Columns of a row: `median` and its interval; `p99`, the cost that one of a hundred samples
    /// exceeds; `cpu`, the time of all cpus together that one operation took; `line`, the round
    /// trip of a cache line between its two cpus, measured beside it; ! that others disturbed it.
    Measure(Measure),
    /// List, show, export, import or remove stored results, and show references
    ///
    /// Without a word more it lists them.
    ///
    /// A result is named by its number, its label, `latest`, `latest~1` for the one
    /// before, `@NAME` for a reference, or a JSON file.
    ///
    /// References are whole results of known machines that are shipped with the
    /// tool: `kumiki compare @NAME latest` holds this machine against one. To add
    /// one, measure on a quiet machine (`kumiki measure --label reference`) and
    /// follow measure/report/references/README.md in Kumiki's repository: one command
    /// packs the result, named by processor and kernel, with date and conditions.
    Results(Results),
    /// Compare two results: ratios with confidence intervals; exit 1 on a regression
    Compare(Compare),
    /// Measure this machine, say what it costs and write one HTML page about it
    ///
    /// Each WORD is a result if it is a number, `latest`, `latest~1`, `@NAME` of a
    /// reference, or a JSON file (its name ends in .json or has a slash); it is
    /// reported, and nothing is measured. Every other word is a filter, as `kumiki
    /// measure` takes it, and that selection is measured and reported. A result's
    /// label goes to --results.
    Report(Report),
    /// Is B slower than A? Two commands in interleaved pairs, with a verdict that holds
    ///
    /// `kumiki ab -- CMD… --- CMD…`, or one command under two settings:
    /// `kumiki ab --env A=1 --vs A=2 -- CMD…`.
    ///
    /// Columns: `quiet`, the time of a run that other programs do not disturb; `user` and `kernel`, its
    /// processor time; `memory`, its peak, – where it had no more than the program that started
    /// it; `faults`, its page faults.
    ///
    /// Exit status: 0 B is no worse, 1 B is slower, 2 an error, 3 it cannot be said; the
    /// output says what would clear it up. 130 ended by Ctrl-C, after the verdict so far.
    #[command(override_usage = "kumiki ab [OPTIONS] -- <CMD>... --- <CMD>...\n       \
        kumiki ab [OPTIONS] --env <NAME=VALUE> --vs <NAME=VALUE> -- <CMD>...")]
    Ab(Box<kumiki_ab::command::Options>),
    /// Is kernel B slower than kernel A? Each in a machine of the lab, visited in turns
    ///
    /// `kumiki duel 6.1 6.12` compares cases of `kumiki measure`, `kumiki duel 6.1 6.12 -- CMD…` a command
    /// that is in such a machine. A kernel against itself, `kumiki duel 6.12 6.12 --for 1h`, shows what
    /// can be told apart on this machine.
    ///
    /// Exit status: 0 B is no worse, 1 a case is slower, 2 an error, 3 it cannot be said of one.
    Duel(duel::Duel),
    /// Run a command that nobody changes, and ask a slow disk ahead for it
    ///
    /// What the command will look up next is looked up first by other threads, in the kernel's memory: names of
    /// the folders that it reads, attributes and first bytes of the files that it opens. It makes all its
    /// calls itself and gets the same answers, only sooner. It helps where a disk answers slowly and many requests at
    /// once, as disks of a network do; where all is in memory it does nothing.
    ///
    /// Its exit status is the command's own. Programs that are linked statically, set-user-ID, or call the kernel
    /// without the C library are run as they are. A unit of systemd takes
    /// `Environment=LD_PRELOAD=libkumiki-ahead.so`.
    Ahead(ahead::AheadArgs),
    /// Say what this machine has and lacks for every part of Kumiki
    Doctor(Doctor),
    /// Write what `measure many` measures into a file that can be sent, beside what was predicted
    ///
    /// The file has no name, no address and no path. Some minutes, from four cpus on.
    Many(many::Many),
    /// Run commands in a QEMU machine with a stock kernel
    Lab(lab::Lab),
    /// Keep kernels in memory, to start OS nodes from
    Image(image::ImageArgs),
    /// Run several Linux kernels on this machine, each on its own cpus and memory
    Node(node::NodeArgs),
    /// List the resources that processes own, and use those of other machines
    Resource(resource::Resource),
    /// Serve this machine's cores as places that other machines call
    Place(place::PlaceArgs),
    /// Run a command at a place, with this process's streams and signals
    ///
    /// Standard input, output and error are the command's, signals INT, TERM, HUP, QUIT, USR1, USR2 and
    /// CONT are passed to its process group, and its exit status is this one's (128 and the signal's number
    /// if one has ended it). A second signal that would end it ends it at once, by KILL. It has no
    /// terminal. A command whose `kumiki run` is not heard of for a minute is ended, too.
    Run(run::RunArgs),
    /// Print the man page (roff)
    Man(Man),
    /// Print a shell completion script
    Completions(Completions),
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Measure {
    #[command(subcommand)]
    pub(crate) command: Option<MeasureCommand>,
    #[command(flatten)]
    pub(crate) select: Select,
    #[command(flatten)]
    pub(crate) how: How,
    /// Print the whole result as JSON on standard output, the answer on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Name every disturbed row and what disturbed it
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MeasureCommand {
    /// List the cases that a run would measure
    Ls {
        #[command(flatten)]
        select: Select,
        /// Only those of a quick run
        #[arg(long, conflicts_with = "full")]
        quick: bool,
        /// Include those of a full run
        #[arg(long)]
        full: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure calls and teams on 1, 2, 4, … and all cpus: how much more they do, and from where on less
    ///
    /// Some minutes, from four cpus on. A call's row has its throughput as a multiple of one cpu's.
    Many {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Way to measure, and the place to keep the result.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct How {
    /// About a minute: fewer sizes
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Half an hour: more sizes, narrower intervals
    #[arg(long)]
    pub(crate) full: bool,
    /// The measuring cpu, and the other one for cross-core cases, e.g. 2,3
    /// [default: the last one allowed and the nearest to it]
    #[arg(
        long = "cpu-list",
        alias = "cpu",
        value_delimiter = ',',
        value_name = "CPU[,CPU]",
        allow_negative_numbers = true
    )]
    pub(crate) cpus: Option<Vec<usize>>,
    /// Stop after this time instead of the mode's own: 90s, 5m, 1h; every case
    /// is visited once, however long that takes
    #[arg(long, value_name = "TIME", value_parser = duration, allow_negative_numbers = true)]
    pub(crate) time: Option<Duration>,
    /// Folder for files that cases make (decides the file system measured)
    /// [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) scratch: Option<PathBuf>,
    /// A name for the result, to find it by
    #[arg(long, value_parser = label)]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) db: Db,
}

impl How {
    /// An option that was given and means something only where something is measured.
    pub(crate) fn measuring(&self) -> Option<&'static str> {
        let given = [
            ("--quick", self.quick),
            ("--full", self.full),
            ("--cpu-list", self.cpus.is_some()),
            ("--time", self.time.is_some()),
            ("--scratch", self.scratch.is_some()),
            ("--label", self.label.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

/// Place of the results.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Db {
    /// Database of results [default: kumiki/results.db in the XDG data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) db: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Results {
    #[command(subcommand)]
    pub(crate) command: Option<ResultsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ResultsCommand {
    /// List the references, then the stored results, the newest last
    Ls {
        #[command(flatten)]
        db: Db,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one result as a table
    Show {
        /// Number, label, `latest`, `latest~1`, `@NAME` of a reference, or a JSON file
        #[arg(default_value = "latest")]
        result: String,
        #[command(flatten)]
        db: Db,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Name every disturbed row and what disturbed it
        #[arg(long, short)]
        verbose: bool,
    },
    /// Write one result as JSON, CSV, Markdown or for Prometheus
    Export {
        /// Number, label, `latest`, `latest~1`, `@NAME` of a reference, or a JSON file
        #[arg(default_value = "latest")]
        result: String,
        /// Format
        #[arg(long, value_enum, default_value_t = Format::Json)]
        format: Format,
        /// File to write, - for standard output [default: -]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        db: Db,
    },
    /// Show how a case's cost went from result to result, and where it changed
    ///
    /// `quiet` is the cost where others leave it alone, `interval` holds also what changes from run
    /// to run.
    ///
    /// Exit status: 0 no row costs more than before its last change, 1 one does (or, with
    /// `--fail-on change`, one changed), 2 an error.
    Trend {
        /// Part of a case's name, and `parameter=value` to narrow it down
        #[arg(required = true, value_name = "CASE")]
        words: Vec<String>,
        #[command(flatten)]
        db: Db,
        /// Write a page with a chart of each row to this file; `-` is standard output
        #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
        output: Option<PathBuf>,
        /// Exit 1 where a row's last change was a rise, or where any changed
        #[arg(long, value_enum, default_value_t = FailOnTrend::Rise, value_name = "WHAT")]
        fail_on: FailOnTrend,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Add results from JSON files; one that is there already is not added again
    Import {
        /// Files that `results export` or `measure --json` wrote
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Give them this label instead of the one that they have
        #[arg(long, value_parser = label)]
        label: Option<String>,
        #[command(flatten)]
        db: Db,
    },
    /// Remove results
    Rm {
        /// Numbers or labels
        #[arg(required = true)]
        results: Vec<String>,
        #[command(flatten)]
        db: Db,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Json,
    Csv,
    Markdown,
    Prometheus,
}

/// Finding for which `kumiki results trend` exits with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOnTrend {
    /// A cost whose last change was a rise
    Rise,
    /// A cost that changed
    Change,
}

/// The least verdict that is a negative result.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum FailOn {
    /// A row that is worse
    Worse,
    /// A row that is worse or unclear
    Unclear,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The old one and the new one; or several of each side, three or more, `---` between the
    /// sides: number, label, `latest~1`, `@NAME` of a reference, or a JSON file
    #[arg(required = true, num_args = 1.., value_name = "RESULT")]
    pub(crate) results: Vec<String>,
    /// Compare times as users feel them, not cycles of the core's clock, with several of each side
    #[arg(long)]
    pub(crate) time: bool,
    /// Worse by more than this is a regression, in percent, e.g. 5 or 0.1
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) threshold: f64,
    /// Exit 1 also where a row is unclear
    #[arg(long, value_enum, default_value_t = FailOn::Worse, value_name = "VERDICT")]
    pub(crate) fail_on: FailOn,
    /// Show all rows, not only those that differ, and why each unclear one is
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) db: Db,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Filters of what to measure (`process.fork`), or results to report
    /// (`latest`) [default: measure everything]
    #[arg(value_name = "WORD", conflicts_with = "results")]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    /// Report these results, named in any way, instead of measuring; a line each
    /// in the figures
    #[arg(long, value_name = "RESULT", num_args = 1..,
        conflicts_with_all = ["sizes", "quick", "full", "cpus", "time", "scratch", "label"])]
    pub(crate) results: Vec<String>,
    /// The page to write, - for standard output
    #[arg(long, short, default_value = "kumiki-report.html", value_name = "FILE")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) how: How,
    /// Add a line for these results
    #[arg(long, value_name = "RESULT", conflicts_with = "results")]
    pub(crate) with: Vec<String>,
    /// Name every disturbed row and what disturbed it
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// A page about OS nodes instead: who has which cpus and memory of this
    /// machine, and what `cargo xtask bench node --json FILE` measured
    #[arg(long, value_name = "FILE", num_args = 0..=1,
        conflicts_with_all = ["words", "results", "with", "verbose"])]
    pub(crate) nodes: Option<Option<PathBuf>>,
    /// A page about servers and async programs instead: what
    /// `cargo xtask bench servers --json FILE` measured
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["words", "results", "with", "verbose", "nodes"])]
    pub(crate) servers: Option<PathBuf>,
    /// A page about places instead: what `cargo xtask bench resource --json FILE`
    /// measured, and `cargo xtask bench node` of calls to OS nodes
    #[arg(long, value_name = "FILE", num_args = 1..,
        conflicts_with_all = ["words", "results", "with", "verbose", "nodes", "servers"])]
    pub(crate) places: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for each command into this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}

fn label(text: &str) -> Result<String, String> {
    kumiki_measure::label::check(text).map(|()| text.to_owned()).map_err(|why| format!("it {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
