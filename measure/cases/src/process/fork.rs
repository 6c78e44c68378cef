//! fork, against the size of what is duplicated.
//!
//! As in the paper's §3.1, a program forks, its child exits at once, and it
//! waits for the child, again and again: one operation is the three system
//! calls, and the cpu runs one process at a time. The program has the asked
//! sizes and has touched its pages before the first fork; it reads the clock
//! itself, around a whole sample.
//!
//! The parent writes to its stack once after each fork (the child's status):
//! that page fault belongs to fork in any program.
//!
//! Reading memory that was never written maps shared pages only, of the file or
//! of zeros. Linux does not copy the page tables of a mapping without a page of
//! its own (`vma_needs_copy`, mm/memory.c), so that data, bss and anonymous
//! memory that were read cost next to nothing here; the stack, whose first
//! pages every program writes, is copied whole.

use std::process::{Command, Stdio};

use super::sweep::{self, K, M, Sizes};
use crate::mapping::{HUGE_PAGE_BYTES, Touch, huge_pages_allowed};
use crate::program::{
    ADDRESS_SPACE, Code, Image, Program, StackLimit, memory_fits, memory_promised,
};
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
    (64 * M, Level::Default),
    (256 * M, Level::Full),
];
const STACK: Sizes = &[
    (64 * K, Level::Quick),
    (256 * K, Level::Default),
    (M, Level::Quick),
    (2 * M, Level::Default),
    (4 * M, Level::Quick),
    (6 * M, Level::Default),
    (64 * M, Level::Full),
];
const ANON: Sizes = &[
    (4 * M, Level::Quick),
    (16 * M, Level::Quick),
    (64 * M, Level::Quick),
    (256 * M, Level::Default),
    (1024 * M, Level::Full),
];
/// A page copied costs some tens of times a page shared.
const COW: Sizes = &[(M, Level::Quick), (4 * M, Level::Quick), (16 * M, Level::Quick)];

/// Sizes of executed text, which is in the file and shared: long enough to see that it costs
/// nothing.
const TEXT: Sizes = &[
    (M, Level::Default),
    (4 * M, Level::Default),
    (16 * M, Level::Default),
    (64 * M, Level::Full),
];
/// Memory of a process whose fork is looked at part by part.
const PARTS: Sizes = &[(16 * M, Level::Default)];

/// `process.fork_text`, `process.fork_first` and `process.vfork`.
pub(super) fn part_cases(choice: &Choice) -> Vec<Case> {
    let base = Fork::base();
    let mut cases = Vec::new();
    for touch in [Touch::None, Touch::Read] {
        for (text_bytes, level) in nonzero(choice, TEXT) {
            cases.push(Fork { text_bytes, touch, ..base }.case(level));
        }
    }
    for way in [Way::First, Way::Vfork] {
        let written = Fork { way, touch: Touch::Write, ..base };
        cases.push(written.case(Level::Quick));
        for (anon_bytes, level) in nonzero(choice, PARTS) {
            cases.push(Fork { anon_bytes, ..written }.case(level));
        }
    }
    cases
}

/// `process.fork`.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let base = Fork::base();
    let mut cases = vec![base.case(Level::Quick)];
    for (data_bytes, touch, level) in sweep::touched(choice, DATA) {
        cases.push(Fork { data_bytes, touch, ..base }.case(level));
    }
    for (bss_bytes, touch, level) in sweep::touched(choice, DATA) {
        cases.push(Fork { bss_bytes, touch, ..base }.case(level));
    }
    for (stack_bytes, touch, level) in sweep::touched(choice, STACK) {
        cases.push(Fork { stack_bytes, touch, ..base }.case(level));
    }
    for huge in [false, true] {
        for (anon_bytes, touch, level) in sweep::touched(choice, ANON) {
            // Less than a huge page cannot be one. Untouched mappings are the
            // same at every size, as the rows for bss show already.
            if huge && anon_bytes < HUGE_PAGE_BYTES as u64 {
                continue;
            }
            let level = if touch == Touch::None { level.max(Level::Default) } else { level };
            cases.push(Fork { anon_bytes, touch, huge, ..base }.case(level));
        }
    }
    cases
}

/// `process.fork_cow`.
pub(super) fn cow_cases(choice: &Choice) -> Vec<Case> {
    let base = Fork { touch: Touch::Write, child: Touch::Write, ..Fork::base() };
    let mut cases = vec![base.case(Level::Quick)];
    for (anon_bytes, level) in nonzero(choice, COW) {
        cases.push(Fork { anon_bytes, ..base }.case(level));
    }
    for (data_bytes, level) in nonzero(choice, COW) {
        cases.push(Fork { data_bytes, ..base }.case(level.max(Level::Default)));
    }
    cases
}

/// Call that makes a child, as `fork.s` knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// fork, until the child has been waited for.
    Fork = 0,
    /// vfork, until then.
    Vfork = 1,
    /// fork, until the child's first instruction.
    First = 2,
}

/// Contents of the program that forks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fork {
    text_bytes: u64,
    data_bytes: u64,
    bss_bytes: u64,
    stack_bytes: u64,
    anon_bytes: u64,
    /// Access it makes to all of that before the first fork.
    touch: Touch,
    huge: bool,
    /// Access each child makes to it before it exits.
    child: Touch,
    way: Way,
}

impl Fork {
    /// One with nothing of its own.
    pub(super) fn base() -> Self {
        Fork {
            text_bytes: 0,
            data_bytes: 0,
            bss_bytes: 0,
            stack_bytes: 0,
            anon_bytes: 0,
            touch: Touch::None,
            huge: false,
            child: Touch::None,
            way: Way::Fork,
        }
    }

    fn case(self, level: Level) -> Case {
        let (name, about) = match (self.way, self.child) {
            (Way::Vfork, _) => ("process.vfork", "vfork, the child exits, the parent waits"),
            (Way::First, _) => ("process.fork_first", "fork until the child's first instruction"),
            (Way::Fork, Touch::None) if self.text_bytes > 0 => {
                ("process.fork_text", "fork of a program with much text")
            }
            (Way::Fork, Touch::None) => ("process.fork", "fork, the child exits, the parent waits"),
            _ => (
                "process.fork_cow",
                "fork, the child writes every page and exits, the parent waits",
            ),
        };
        let case = Case::new(name, about, move |place| Forking::start(&self, place)).level(level);
        if self.text_bytes > 0 {
            let text = case.with("text_bytes", self.text_bytes);
            return text.with("touch", self.touch.word());
        }
        case.with("data_bytes", self.data_bytes)
            .with("bss_bytes", self.bss_bytes)
            .with("stack_bytes", self.stack_bytes)
            .with("anon_bytes", self.anon_bytes)
            .with("touch", self.touch.word())
            .with("huge", self.huge)
    }

    /// Refuses what cannot work.
    fn check(&self) -> Result<()> {
        let sizes = [self.data_bytes, self.bss_bytes, self.stack_bytes, self.anon_bytes];
        let total = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        let Some(total) = total.filter(|total| *total <= ADDRESS_SPACE) else {
            return Err(Error::Invalid(format!(
                "data, bss, stack and anonymous memory of {sizes:?} bytes are together more than \
                 the {ADDRESS_SPACE} bytes of address space that a program can have: choose \
                 smaller sizes"
            )));
        };
        let program = "the program that forks";
        match (self.touch, self.child) {
            (Touch::Write, Touch::Write) => memory_fits(program, 2 * total)?,
            (Touch::Write, _) => memory_fits(program, total)?,
            _ => memory_promised(program, total)?,
        }
        if self.huge {
            huge_pages_allowed()?;
        }
        Ok(())
    }

    /// The command to prepare, as `fork.s` reads it.
    fn prepare(&self) -> Vec<u8> {
        let words = [
            self.stack_bytes,
            self.anon_bytes,
            sweep::touch_number(self.touch),
            u64::from(self.huge),
            sweep::touch_number(self.child),
            self.way as u64,
        ];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// A program that forks when told to.
pub(super) struct Forking {
    pub(super) program: Program,
    way: Way,
}

impl Forking {
    /// A program that has its memory, and forks as `fork.s` does.
    pub(super) fn of(program: Program) -> Self {
        Forking { program, way: Way::Fork }
    }

    pub(super) fn start(fork: &Fork, place: &Place) -> Result<Self> {
        fork.check()?;
        let Fork { text_bytes, data_bytes, bss_bytes, .. } = *fork;
        let name = format!("fork-text{text_bytes}-data{data_bytes}-bss{bss_bytes}");
        let image = Image { code: Code::Fork, text_bytes, data_bytes, bss_bytes };
        let path = image.file(&place.scratch, &name)?;
        // Beside what is asked for: the program's own frame and the kernel's
        // strings at the top of the stack.
        let stack = fork.stack_bytes + M;
        let _limit = StackLimit::at_least(stack, &format!("stack_bytes {}", fork.stack_bytes))?;
        let mut command = Command::new(path);
        command.env_clear().stderr(Stdio::null());
        let program = Program::start(name, &mut command, &fork.prepare())?;
        if fork.huge && fork.touch == Touch::Write {
            got_huge_pages(&program, fork.anon_bytes)?;
        }
        Ok(Forking { program, way: fork.way })
    }
}

impl Workload for Forking {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let ticks = self.way == Way::First;
        if ticks && !meter.clock().is_tsc() {
            let needs = "a time stamp counter that the kernel trusts: a child's first instruction \
                         reads no other clock";
            return Err(Error::unsupported("the moment of a child's first instruction", needs));
        }
        let answer = self.program.ask(&iterations.to_ne_bytes())?;
        if answer.done != iterations {
            let what = format!("forked {} times instead of {iterations}", answer.done);
            return Err(self.program.error(what));
        }
        let sample = answer.sample();
        // What lies between its stamps is ticks.
        let wall_ns = match ticks {
            true => meter.clock().ns(sample.wall_ns as u64),
            false => sample.wall_ns,
        };
        Ok(Sample { wall_ns, ..sample })
    }

    fn overhead(&mut self, _: u64, meter: &Meter) -> Result<Sample> {
        self.sample(0, meter)
    }
}

/// Checks that the kernel really gave huge pages for at least half of `bytes`: it falls back to
/// ordinary ones without a word when memory is fragmented.
fn got_huge_pages(program: &Program, bytes: u64) -> Result<()> {
    let rollup = procfs::process::Process::new(program.pid() as i32)
        .and_then(|process| process.smaps_rollup())
        .map_err(|e| Error::unsupported("huge pages that can be counted", e.to_string()))?;
    let maps = rollup.memory_map_rollup;
    let got = maps.iter().filter_map(|map| map.extension.map.get("AnonHugePages")).sum::<u64>();
    if got >= bytes / 2 {
        return Ok(());
    }
    Err(Error::unsupported(
        format!("{bytes} bytes in huge pages"),
        format!(
            "the kernel gave only {got}: memory is fragmented (as root: echo 1 > /proc/sys/vm/compact_memory)"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use procfs::process::{MMapPath, Process};

    use super::*;
    use crate::process::tests::{meter, place};
    use crate::program::hard_stack_limit_below;

    fn process(forking: &Forking) -> Process {
        Process::new(forking.program.pid() as i32).unwrap()
    }

    fn resident(forking: &Forking) -> u64 {
        process(forking).statm().unwrap().resident * procfs::page_size()
    }

    #[test]
    fn forks_as_often_as_asked() {
        let place = place();
        let mut forking = Forking::start(&Fork::base(), &place).unwrap();
        for n in [0, 1, 7, 100] {
            let before = process(&forking).stat().unwrap().cminflt;
            forking.sample(n, &meter()).unwrap();
            // Every child faults at least on its code, and none does otherwise.
            let faults = process(&forking).stat().unwrap().cminflt - before;
            assert!(faults >= n && (n > 0 || faults == 0), "{faults} faults by {n} children");
        }
    }

    #[test]
    fn a_sample_has_wall_and_processor_time() {
        let place = place();
        let fork = Fork { anon_bytes: 4 * M, touch: Touch::Write, ..Fork::base() };
        let sample = Forking::start(&fork, &place).unwrap().sample(50, &meter()).unwrap();
        assert!(sample.wall_ns > 0.0);
        assert!(sample.cpu.system_ns + sample.cpu.user_ns > 0.0);
        assert!(sample.cpu.children_ns > 0.0);
    }

    #[test]
    fn a_child_begins_before_it_has_been_waited_for() {
        let place = place();
        let meter = meter();
        let sample = |way| {
            let fork = Fork { anon_bytes: 4 * M, touch: Touch::Write, way, ..Fork::base() };
            let mut forking = Forking::start(&fork, &place).unwrap();
            // Others only add: the least of some.
            let samples = (0..20).map(|_| forking.sample(10, &meter).map(|s| s.wall_ns));
            samples.reduce(|least, next| Ok(least?.min(next?))).unwrap()
        };
        let whole = sample(Way::Fork).unwrap();
        assert!(sample(Way::Vfork).unwrap() < whole, "no page table is copied");
        if !meter.clock().is_tsc() {
            let error = sample(Way::First).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            return;
        }
        let first = sample(Way::First).unwrap();
        assert!(0.0 < first && first < whole, "{first} of {whole}");
    }

    #[test]
    fn text_that_was_read_is_resident() {
        let place = place();
        let text = |touch| {
            let fork = Fork { text_bytes: 2 * M, touch, ..Fork::base() };
            let mut forking = Forking::start(&fork, &place).unwrap();
            forking.sample(2, &meter()).unwrap();
            resident(&forking)
        };
        assert!(text(Touch::Read) >= text(Touch::None) + M, "{}", text(Touch::Read));
    }

    #[test]
    fn touched_memory_is_resident_and_untouched_is_not() {
        let place = place();
        let size = 2 * M;
        let base = Fork::base();
        let idle = resident(&Forking::start(&base, &place).unwrap());
        for fork in [
            Fork { data_bytes: size, ..base },
            Fork { bss_bytes: size, ..base },
            Fork { stack_bytes: size, ..base },
            Fork { anon_bytes: size, ..base },
        ] {
            let untouched = resident(&Forking::start(&fork, &place).unwrap());
            assert!(untouched < idle + M, "{fork:?}: {untouched}");
            let fork = Fork { touch: Touch::Write, ..fork };
            let written = resident(&Forking::start(&fork, &place).unwrap());
            assert!(written >= idle + size - M / 2, "{fork:?}: {written}, idle {idle}");
        }
        let read = Fork { data_bytes: size, touch: Touch::Read, ..base };
        let read = Forking::start(&read, &place).unwrap();
        assert!(resident(&read) >= size);
        let private = process(&read).smaps_rollup().unwrap().memory_map_rollup;
        let dirty =
            private.iter().filter_map(|m| m.extension.map.get("Private_Dirty")).sum::<u64>();
        assert!(dirty < M, "reading copies no page, {dirty} bytes are private");
    }

    #[test]
    fn the_stack_has_the_asked_size_beyond_the_soft_limit_too() {
        let place = place();
        for (stack_bytes, touch) in [(M, Touch::None), (64 * M, Touch::Write)] {
            if hard_stack_limit_below(stack_bytes + M) {
                return;
            }
            let fork = Fork { stack_bytes, touch, ..Fork::base() };
            let forking = Forking::start(&fork, &place).unwrap();
            let maps = process(&forking).maps().unwrap();
            let stack = maps.iter().find(|map| map.pathname == MMapPath::Stack).unwrap();
            let size = stack.address.1 - stack.address.0;
            assert!((stack_bytes..stack_bytes + M).contains(&size), "{size} for {stack_bytes}");
        }
    }

    #[test]
    fn children_that_write_copy_every_page() {
        let place = place();
        let fork = Fork { anon_bytes: M, touch: Touch::Write, child: Touch::Write, ..Fork::base() };
        let mut forking = Forking::start(&fork, &place).unwrap();
        let before = process(&forking).stat().unwrap().cminflt;
        forking.sample(3, &meter()).unwrap();
        let faults = process(&forking).stat().unwrap().cminflt - before;
        assert!(faults >= 3 * M / 4096, "{faults}");
    }

    #[test]
    fn huge_pages_are_huge_or_refused() {
        let place = place();
        let fork = Fork { anon_bytes: 4 * M, touch: Touch::Write, huge: true, ..Fork::base() };
        match Forking::start(&fork, &place) {
            Ok(mut forking) => {
                forking.sample(2, &meter()).unwrap();
                let before = process(&forking).stat().unwrap();
                assert!(before.minflt < 4 * M / 4096, "{} faults", before.minflt);
            }
            Err(e) => assert!(matches!(e, Error::Unsupported { .. }), "{e}"),
        }
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let place = place();
        let base = Fork::base();
        for fork in [
            Fork { anon_bytes: u64::MAX, stack_bytes: 1, ..base },
            Fork { stack_bytes: 1 << 47, ..base },
            Fork { bss_bytes: u64::MAX, ..base },
        ] {
            let error = Forking::start(&fork, &place).err().unwrap();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        for touch in [Touch::None, Touch::Write] {
            let fork = Fork { bss_bytes: 1 << 45, touch, ..base };
            let error = Forking::start(&fork, &place).err().unwrap();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains(&(1u64 << 45).to_string()), "{error}");
        }
    }

    #[test]
    fn every_row_has_every_parameter_once() {
        let all = ["anon_bytes", "bss_bytes", "data_bytes", "huge", "stack_bytes", "touch"];
        let choice = Choice::default();
        let mut rows = Vec::new();
        for case in cases(&choice).into_iter().chain(cow_cases(&choice)) {
            assert!(case.params.keys().eq(all), "{:?}", case.params);
            rows.push(format!("{} {:?}", case.name, case.params));
        }
        let count = rows.len();
        rows.sort();
        rows.dedup();
        assert_eq!(rows.len(), count);
    }

    #[test]
    fn chosen_sizes_replace_the_own_ones_and_keep_the_base() {
        let choice = Choice { level: None, sizes: Some(vec![0, 8192]) };
        let cases = cases(&choice);
        // Three touches of data, bss, stack and ordinary anonymous memory.
        assert_eq!(cases.len(), 1 + 4 * 3);
        assert!(cases[1..].iter().all(|c| c.params.values().any(|v| *v == 8192u64.into())));
    }
}
