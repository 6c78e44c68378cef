//! exec, against the size of the new program and of what is handed to it.
//!
//! As in the paper's §4.1, two programs exec each other and count down a number
//! in their arguments; no process is made. A program cannot keep a clock over
//! an exec, and so the paper timed the whole from outside, by the shell's
//! `time`. Here, too, the clock is read outside the chain of execs: once by the
//! image that starts it, before its first exec, and once by the image that
//! finds the counter at zero. The first reading survives in a file in memory
//! that both have open. Against `time`, this leaves out what is not exec (the
//! start of the first process, its end), so that a short chain is enough and
//! its length cancels out.
//!
//! One operation is: the kernel replaces the program, the new image touches its
//! data and bss if it shall, counts, and calls exec. Processor time is the
//! process's own, which lasts over exec.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};

use super::sweep::{self, K, M, Sizes};
use crate::mapping::Touch;
use crate::program::{Code, Image, PAGE, Program, STAMP, StackLimit, memory_fits, memory_promised};
use crate::sweep::nonzero;
use kumiki_measure::case::{Case, Choice, Level, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

const DATA: Sizes = &[
    (64 * K, Level::Quick),
    (256 * K, Level::Default),
    (M, Level::Quick),
    (4 * M, Level::Quick),
    (16 * M, Level::Quick),
    (64 * M, Level::Full),
];
const ARGS: Sizes = &[
    (16 * K, Level::Quick),
    (64 * K, Level::Quick),
    (256 * K, Level::Quick),
    (512 * K, Level::Default),
    (M, Level::Quick),
];
const ENV: Sizes = &[
    (16 * K, Level::Default),
    (64 * K, Level::Quick),
    (256 * K, Level::Default),
    (512 * K, Level::Default),
    (M, Level::Quick),
];

/// Longest string that exec takes, with its end (`MAX_ARG_STRLEN`, 32 pages).
const STRING_MAX: u64 = 32 * PAGE;
/// Most that arguments and environment may take together, with a pointer each,
/// whatever the stack limit (three quarters of `_STK_LIM`, fs/exec.c).
const STRINGS_MAX: u64 = 6 * M;
/// The shortest variable that is made here: `A0000=` and its end.
const VARIABLE_MIN: u64 = 7;
/// Digits of the counter, as `exec.s` reads it.
const DIGITS: usize = 10;

/// Text sizes, as for fork: pages that nobody reads are not loaded.
const TEXT: Sizes = &[
    (M, Level::Default),
    (4 * M, Level::Default),
    (16 * M, Level::Default),
    (64 * M, Level::Full),
];

/// `process.exec`.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let base = Exec::base();
    let mut cases = vec![base.case(Level::Quick)];
    for (data_bytes, touch, level) in sweep::touched(choice, DATA) {
        cases.push(Exec { data_bytes, touch, ..base }.case(level));
    }
    for (bss_bytes, touch, level) in sweep::touched(choice, DATA) {
        cases.push(Exec { bss_bytes, touch, ..base }.case(level));
    }
    for (args_bytes, level) in nonzero(choice, ARGS) {
        cases.push(Exec { args_bytes, ..base }.case(level));
    }
    for (env_bytes, level) in nonzero(choice, ENV) {
        cases.push(Exec { env_bytes, ..base }.case(level));
    }
    cases
}

/// `process.exec_text`.
pub(super) fn text_cases(choice: &Choice) -> Vec<Case> {
    let sizes = nonzero(choice, TEXT);
    let each = [Touch::None, Touch::Read].into_iter().flat_map(|touch| {
        sizes.iter().map(move |(text_bytes, level)| {
            Exec { text_bytes: *text_bytes, touch, ..Exec::base() }.case(*level)
        })
    });
    each.collect()
}

/// Contents of both programs, and arguments they are handed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exec {
    text_bytes: u64,
    data_bytes: u64,
    bss_bytes: u64,
    /// Bytes of argument strings with their ends, beside the few dozen that the
    /// programs talk by.
    args_bytes: u64,
    /// Bytes of the environment's strings with their ends.
    env_bytes: u64,
    /// Access each image makes to data and bss before it execs.
    touch: Touch,
}

impl Exec {
    /// One with nothing of its own.
    pub(super) const fn base() -> Self {
        Exec {
            text_bytes: 0,
            data_bytes: 0,
            bss_bytes: 0,
            args_bytes: 0,
            env_bytes: 0,
            touch: Touch::None,
        }
    }

    fn case(self, level: Level) -> Case {
        let start = move |place: &Place| Execing::start(&self, place);
        if self.text_bytes > 0 {
            let about = "two programs with much text exec each other";
            return Case::new("process.exec_text", about, start)
                .level(level)
                .with("text_bytes", self.text_bytes)
                .with("touch", self.touch.word());
        }
        Case::new("process.exec", "two programs exec each other", start)
            .level(level)
            .with("data_bytes", self.data_bytes)
            .with("bss_bytes", self.bss_bytes)
            .with("args_bytes", self.args_bytes)
            .with("env_bytes", self.env_bytes)
            .with("touch", self.touch.word())
            .with("huge", false)
    }

    /// The stack limit that exec needs: it gives a quarter to the strings.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no limit allows these strings.
    fn stack_limit(&self) -> Result<u64> {
        if (1..VARIABLE_MIN).contains(&self.env_bytes) {
            return Err(Error::Invalid(format!(
                "env_bytes {} is less than the shortest variable, {VARIABLE_MIN} bytes",
                self.env_bytes
            )));
        }
        let strings = self.args_bytes.saturating_add(self.env_bytes);
        // A pointer a string, and the programs' own arguments and names.
        let count = strings / STRING_MAX + 2;
        let needed = strings.saturating_add(count * 8 + PAGE);
        if needed > STRINGS_MAX {
            return Err(Error::Invalid(format!(
                "args_bytes {} and env_bytes {} are together more than exec takes: the kernel's \
                 limit is {STRINGS_MAX} bytes, of which {} remain for them; choose smaller sizes",
                self.args_bytes,
                self.env_bytes,
                STRINGS_MAX - (needed - strings).min(STRINGS_MAX)
            )));
        }
        Ok(4 * needed)
    }

    fn check(&self) -> Result<()> {
        let program = "the programs that exec";
        let bytes = self.data_bytes.saturating_add(self.bss_bytes);
        match self.touch {
            Touch::Write => memory_fits(program, bytes),
            _ => memory_promised(program, bytes),
        }
    }
}

/// Splits `bytes` into strings of nearly the same size, none longer than exec
/// takes; each size counts the string's end.
fn split(bytes: u64) -> impl Iterator<Item = usize> {
    let count = bytes.div_ceil(STRING_MAX);
    (0..count).map(move |i| ((i + 1) * bytes / count - i * bytes / count) as usize)
}

/// Argument strings of `bytes` together with their ends.
fn arguments(bytes: u64) -> impl Iterator<Item = OsString> {
    split(bytes).map(|size| OsString::from_vec(vec![b'x'; size - 1]))
}

/// Variables of `bytes` together with `=` and their ends.
fn variables(bytes: u64) -> impl Iterator<Item = (String, OsString)> {
    split(bytes).enumerate().map(|(i, size)| {
        (format!("A{i:04}"), OsString::from_vec(vec![b'x'; size - VARIABLE_MIN as usize]))
    })
}

/// A program that becomes another and back when told to.
pub(super) struct Execing {
    pub(super) program: Program,
}

impl Execing {
    /// The counter of a program that is to become nothing yet.
    pub(super) const NONE: &str = "0000000000";

    pub(super) fn start(exec: &Exec, place: &Place) -> Result<Self> {
        let stack = exec.stack_limit()?;
        exec.check()?;
        let Exec { text_bytes, data_bytes, bss_bytes, .. } = *exec;
        let image = Image { code: Code::Exec, text_bytes, data_bytes, bss_bytes };
        let [one, two] =
            [1, 2].map(|i| format!("exec{i}-text{text_bytes}-data{data_bytes}-bss{bss_bytes}"));
        let path = image.file(&place.scratch, &one)?;
        image.file(&place.scratch, &two)?;

        // They find each other by bare names in their working folder: the
        // folder's own path is part of neither strings nor lookup.
        let folder = path.parent().expect("a file is in a folder");
        let mut command = Command::new(&path);
        command
            .current_dir(folder)
            .arg0(&one)
            .arg(Self::NONE)
            .arg(sweep::touch_number(exec.touch).to_string())
            .arg(&two)
            .args(arguments(exec.args_bytes))
            .env_clear()
            .envs(variables(exec.env_bytes));
        let why = format!("args_bytes {} with env_bytes {}", exec.args_bytes, exec.env_bytes);
        let _limit = StackLimit::at_least(stack, &why)?;
        Execing::begin(&one, &mut command)
    }

    /// Starts the program `name` by `command`, whose counter is zero.
    pub(super) fn begin(name: &str, command: &mut Command) -> Result<Self> {
        let notebook = File::from(
            memfd_create("kumiki-exec", MemfdFlags::CLOEXEC)
                .map_err(|e| Error::os("make a file in memory", e))?,
        );
        notebook.set_len(STAMP as u64).map_err(|e| Error::os("size a file in memory", e))?;
        Ok(Execing { program: Program::start(name, command.stderr(notebook), &[])? })
    }
}

fn counter(iterations: u64) -> String {
    format!("{iterations:0DIGITS$}")
}

impl Workload for Execing {
    fn sample(&mut self, iterations: u64, _: &Meter) -> Result<Sample> {
        Ok(self.program.ask(counter(iterations).as_bytes())?.sample())
    }

    fn overhead(&mut self, _: u64, meter: &Meter) -> Result<Sample> {
        self.sample(0, meter)
    }

    fn max_batch(&self) -> Option<u64> {
        Some(10u64.pow(DIGITS as u32) - 1)
    }
}

#[cfg(test)]
mod tests {
    use procfs::process::Process;

    use super::*;
    use crate::process::tests::{meter, place};
    use crate::program::hard_stack_limit_below;

    const BASE: Exec = Exec::base();

    fn process(execing: &Execing) -> Process {
        Process::new(execing.program.pid() as i32).unwrap()
    }

    fn faults(execing: &Execing) -> u64 {
        process(execing).stat().unwrap().minflt
    }

    fn image(execing: &Execing) -> String {
        let path = process(execing).exe().unwrap();
        path.file_name().unwrap().to_str().unwrap()[..5].to_owned()
    }

    #[test]
    fn programs_become_each_other() {
        let place = place();
        let mut execing = Execing::start(&BASE, &place).unwrap();
        let id = execing.program.pid();
        assert_eq!(image(&execing), "exec1");
        for (n, now) in [(0, "exec1"), (1, "exec2"), (2, "exec2"), (99, "exec1"), (100, "exec1")] {
            let sample = execing.sample(n, &meter()).unwrap();
            assert!(sample.wall_ns > 0.0);
            assert_eq!(image(&execing), now, "after {n} more");
            assert_eq!(execing.program.pid(), id);
        }
    }

    #[test]
    fn every_image_touches_its_pages() {
        let place = place();
        let size = 64 * K;
        let pages = size / PAGE;
        let exec = Exec { bss_bytes: size, touch: Touch::Write, ..BASE };
        let mut execing = Execing::start(&exec, &place).unwrap();
        let before = faults(&execing);
        execing.sample(10, &meter()).unwrap();
        let ten = faults(&execing) - before;
        assert!(ten >= 10 * pages, "{ten} faults");
        execing.sample(20, &meter()).unwrap();
        let twenty = faults(&execing) - before - ten;
        assert!(twenty >= 20 * pages, "{twenty} faults");

        let mut untouched = Execing::start(&Exec { touch: Touch::None, ..exec }, &place).unwrap();
        let before = faults(&untouched);
        untouched.sample(10, &meter()).unwrap();
        assert!(faults(&untouched) - before < ten - 9 * pages);
    }

    #[test]
    fn the_faults_of_the_programs_are_counted() {
        let place = place();
        let exec = Exec { data_bytes: 16 * M, touch: Touch::Write, ..BASE };
        let mut execing = Execing::start(&exec, &place).unwrap();
        let written = execing.sample(2, &meter()).unwrap().program;
        assert!(written.minor_faults >= 2 * 16 * M / PAGE, "{written:?}");
        let mut untouched = Execing::start(&BASE, &place).unwrap();
        let base = untouched.sample(2, &meter()).unwrap().program;
        assert!(base.minor_faults < 200, "{base:?}");
    }

    #[test]
    fn strings_have_exactly_the_asked_size() {
        for bytes in [0, 1, 7, 4096, STRING_MAX, STRING_MAX + 1, M, 5 * M + 1] {
            let strings: Vec<_> = arguments(bytes).collect();
            assert!(strings.iter().all(|s| s.len() < STRING_MAX as usize));
            assert_eq!(strings.iter().map(|s| s.len() as u64 + 1).sum::<u64>(), bytes);
            if bytes >= VARIABLE_MIN {
                let sum: usize = variables(bytes).map(|(k, v)| k.len() + v.len() + 2).sum();
                assert_eq!(sum as u64, bytes);
            }
        }
    }

    #[test]
    fn strings_reach_the_last_image() {
        let place = place();
        let exec = Exec { args_bytes: 200_000, env_bytes: 300_000, ..BASE };
        let mut execing = Execing::start(&exec, &place).unwrap();
        execing.sample(5, &meter()).unwrap();
        let id = execing.program.pid();
        let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap();
        assert_eq!(environment.len(), 300_000);
        let arguments = std::fs::read(format!("/proc/{id}/cmdline")).unwrap();
        assert!((200_000..200_100).contains(&arguments.len()), "{}", arguments.len());
    }

    #[test]
    fn the_largest_strings_work_and_larger_ones_are_refused() {
        let place = place();
        let exec = Exec { args_bytes: 3 * M, env_bytes: 3 * M - 2 * PAGE, ..BASE };
        if !hard_stack_limit_below(4 * STRINGS_MAX) {
            Execing::start(&exec, &place).unwrap().sample(2, &meter()).unwrap();
        }
        for (args_bytes, env_bytes) in [(6 * M, 0), (0, 6 * M), (u64::MAX, u64::MAX), (0, 3)] {
            let exec = Exec { args_bytes, env_bytes, ..BASE };
            let error = Execing::start(&exec, &place).err().unwrap();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains(&env_bytes.to_string()), "{error}");
        }
    }

    #[test]
    fn text_that_is_read_is_mapped_anew_by_each_image() {
        let place = place();
        let faults = |touch| {
            let exec = Exec { text_bytes: M, touch, ..BASE };
            let mut execing = Execing::start(&exec, &place).unwrap();
            execing.sample(10, &meter()).unwrap().program.minor_faults
        };
        // One fault may map many pages of a file, but not all of them.
        let (none, read) = (faults(Touch::None), faults(Touch::Read));
        assert!(read >= none + 10, "{read} and {none}");
    }

    #[test]
    fn a_missing_partner_is_an_error() {
        let place = place();
        let mut execing = Execing::start(&BASE, &place).unwrap();
        std::fs::remove_file(place.scratch.join("programs/exec2-text0-data0-bss0")).unwrap();
        let error = execing.sample(3, &meter()).unwrap_err();
        assert!(matches!(error, Error::Program { .. }), "{error}");
        assert!(error.to_string().contains("execve: No such file"), "{error}");
    }

    #[test]
    fn every_row_has_every_parameter_once() {
        let all = ["args_bytes", "bss_bytes", "data_bytes", "env_bytes", "huge", "touch"];
        let cases = cases(&Choice::default());
        assert!(cases.iter().all(|case| case.params.keys().eq(all)));
        let mut rows: Vec<_> = cases.iter().map(|case| format!("{:?}", case.params)).collect();
        rows.sort();
        rows.dedup();
        assert_eq!(rows.len(), cases.len());
    }
}
