//! What to do about what a result shows.

use std::collections::BTreeMap;

use kumiki_measure::schema::{Machine, Other, Results};

use super::{Figure, Grade};
use crate::format::{count, time, times};

/// Share of disturbed rows from which on it is said first.
const MUCH_DISTURBED: f64 = 0.1;

/// Names of others that used the cpus.
const NAMED: usize = 3;

/// fork and spawn are told apart from so many times on.
const FORK_TO_SPAWN: f64 = 10.0;

/// A wake-up is long from so many round trips of a cache line on.
const WAKE_TO_LINE: f64 = 20.0;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The key of the figure it is about; none where it is about the run.
    pub figure: Option<&'static str>,
    /// Finding, in a sentence.
    pub finding: String,
    /// Advised action.
    pub action: String,
}

/// The run's own trouble first, then the bad figures in their order, then what
/// holds on most machines. Where others disturbed most rows only the first, and settings.
pub(super) fn advice(results: &Results, figures: &[Figure]) -> Vec<Advice> {
    let of = |key: &str| figures.iter().find(|figure| figure.key == key);
    let mut out: Vec<Advice> = disturbed(results).into_iter().collect();
    let bad = figures.iter().filter(|f| f.standing.is_some_and(|s| s.grade == Grade::Bad));
    out.extend(bad.map(|figure| about_bad(figure, &results.machine)));
    out.extend(state(&results.machine));
    // What is graded by nobody gives no advice.
    if mostly_disturbed(results) {
        return out;
    }
    if let (Some(fork), Some(spawn)) = (of("fork-gib"), of("spawn")) {
        out.extend(spawn_instead(fork, spawn));
    }
    if let (Some(wake), Some(line)) = (of("wake"), of("line")) {
        out.extend(stay_awake(wake, line, of("shadow")));
    }
    out
}

/// True if so many rows were disturbed that this is said before all else.
pub fn much_disturbed(results: &Results) -> bool {
    let disturbed = results.rows.iter().filter(|row| row.disturbed).count();
    disturbed > 0 && disturbed as f64 >= MUCH_DISTURBED * results.rows.len() as f64
}

/// True if most rows were disturbed: then nothing is graded.
pub fn mostly_disturbed(results: &Results) -> bool {
    let disturbed = results.rows.iter().filter(|row| row.disturbed).count();
    2 * disturbed > results.rows.len()
}

fn disturbed(results: &Results) -> Option<Advice> {
    if !much_disturbed(results) {
        return None;
    }
    let all = results.rows.len();
    let rows: Vec<_> = results.rows.iter().filter(|row| row.disturbed).collect();
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for visit in rows.iter().flat_map(|row| &row.visits) {
        for cause in &visit.disturbances {
            *causes.entry(cause).or_default() += 1;
        }
    }
    let most = causes.into_iter().max_by_key(|(_, visits)| *visits).map(|(cause, _)| cause);
    let why = most.map(|cause| format!(", most by this: {cause}")).unwrap_or_default();
    let grey = if mostly_disturbed(results) { ", so nothing here is graded" } else { "" };
    let finding = format!(
        "{} of {} rows were disturbed{why}{grey}.",
        count(rows.len() as u64),
        count(all as u64)
    );
    Some(Advice { figure: None, finding, action: against(most.unwrap_or_default(), results) })
}

/// Remedy against a cause of disturbance, by the words of the sampler.
fn against(cause: &str, results: &Results) -> String {
    match cause {
        "the hypervisor took the cpu" => "Other guests want the same cpus: ask the host for cpus \
             of this guest alone, or measure when it is quiet."
            .to_owned(),
        "the cache-line round trip changed" => "The hypervisor moves the virtual cpus: ask the \
             host to pin each to a core."
            .to_owned(),
        "pages were read from disk" => "Memory is short, or --scratch lies on a slow disk: choose \
             another folder, or stop what uses the memory."
            .to_owned(),
        "a sample is short for the clock" => "The clock is coarse: see that \
             /sys/devices/system/clocksource/clocksource0/current_clocksource says tsc."
            .to_owned(),
        _ => format!(
            "{} or give the run cpus of its own (isolcpus or a cpuset, and --cpu-list), and measure \
             again before you compare.",
            stop(&results.run.others)
        ),
    }
}

/// Processes that are to be stopped, as far as they were seen.
fn stop(others: &[Other]) -> String {
    if others.is_empty() {
        return "Stop other programs,".to_owned();
    }
    let one = |other: &Other| {
        let cpus: Vec<String> = other.cpus.iter().map(usize::to_string).collect();
        let word = if cpus.len() == 1 { "cpu" } else { "cpus" };
        let time = time(other.cpu_seconds * 1e9);
        format!("{} ({time} of {word} {})", other.name, cpus.join(", "))
    };
    let named: Vec<String> = others.iter().take(NAMED).map(one).collect();
    format!("Stop {},", named.join(", "))
}

/// A setting that costs, whatever the figures are.
fn state(machine: &Machine) -> Vec<Advice> {
    let mut out = Vec::new();
    if let Some(governor) = machine.governor.as_deref().filter(|g| *g != "performance") {
        out.push(Advice {
            figure: None,
            finding: format!(
                "The frequency governor is {governor}: cpus slow down between bursts."
            ),
            action: "Use the governor performance where latency counts \
                     (cpupower frequency-set -g performance)."
                .to_owned(),
        });
    }
    if machine.transparent_huge_pages.as_deref() == Some("never") {
        out.push(Advice {
            figure: Some("page-fault"),
            finding: "Transparent huge pages are off.".to_owned(),
            action: "Set /sys/kernel/mm/transparent_hugepage/enabled to madvise, and let programs \
                     with large heaps ask for them."
                .to_owned(),
        });
    }
    out
}

fn spawn_instead(fork: &Figure, spawn: &Figure) -> Option<Advice> {
    (fork.interval[0] > FORK_TO_SPAWN * spawn.interval[1]).then(|| Advice {
        figure: Some("fork-gib"),
        finding: format!(
            "A process that has written 1 GiB forks in {}{}; posix_spawn takes {}.",
            fork.quantity(),
            if fork.extrapolated { " (extrapolated)" } else { "" },
            spawn.quantity()
        ),
        action: "Start programs by posix_spawn or vfork from large processes, and look for \
                 pre-exec hooks that force a fork."
            .to_owned(),
    })
}

fn stay_awake(wake: &Figure, line: &Figure, shadow: Option<&Figure>) -> Option<Advice> {
    if wake.interval[0] < WAKE_TO_LINE * line.interval[1] {
        return None;
    }
    let quicker = shadow.filter(|shadow| shadow.interval[1] < wake.interval[0]);
    let instead =
        quicker.map(|s| format!("; a shadow thread that waits awake answers in {}", time(s.value)));
    Some(Advice {
        figure: Some("wake"),
        finding: format!(
            "Waking a thread on another cpu takes {}, there and back{}.",
            wake.quantity(),
            instead.unwrap_or_default()
        ),
        action: "Where gaps are shorter than that, spin before you sleep, or keep the work on the \
                 cpu that has it."
            .to_owned(),
    })
}

fn about_bad(figure: &Figure, machine: &Machine) -> Advice {
    let finding = match figure.standing {
        Some(s) => format!(
            "{}: {}, {} that of {}.",
            capital(figure.name),
            figure.quantity(),
            times(s.ratio),
            s.reference
        ),
        None => String::new(),
    };
    let action = match figure.key {
        "system-call" if !machine.mitigations.is_empty() => format!(
            "Active mitigations: {}. See whether this machine needs each of them; look also for \
             audit rules, a seccomp filter or a tracer on the process.",
            machine.mitigations.iter().map(|m| name_of(m)).collect::<Vec<_>>().join(", ")
        ),
        "system-call" => {
            "Look for audit rules, a seccomp filter or a tracer on the process.".to_owned()
        }
        "clock" => {
            "See that /sys/devices/system/clocksource/clocksource0/current_clocksource says \
                    tsc: with hpet or acpi_pm each reading is a slow system call."
                .to_owned()
        }
        "page-fault" => "Let the heap use huge pages (madvise), fault memory in beforehand \
                         (MAP_POPULATE, mlockall), and see that init_on_alloc is off if you can \
                         do without."
            .to_owned(),
        "open" => "Look at the file system of the scratch folder (network, overlay), and for \
                   security modules or fanotify watchers that look at each open."
            .to_owned(),
        "fork" | "fork-gib" => "Use posix_spawn; put large heaps into huge pages; look for a \
                                memory cgroup near its limit."
            .to_owned(),
        "spawn" => {
            "A program’s start is mostly its dynamic linker: link statically what is started \
                    often, and keep helpers running."
                .to_owned()
        }
        "switch" => {
            "Look for mitigations that flush on a switch (IBPB, L1D), for busy neighbours on \
                     the cpu, and for a cpu cgroup near its quota."
                .to_owned()
        }
        "wake" => "Deep idle states and halted virtual cpus are slow to wake: limit C-states \
                   (/dev/cpu_dma_latency), ask the host for idle=poll or haltpoll, or spin before \
                   you sleep."
            .to_owned(),
        "line" => {
            "The two cpus lie far apart: choose a pair of one core complex (--cpu-list), or ask the \
                   host to pin virtual cpus to cores that share a cache."
                .to_owned()
        }
        "shadow" => {
            "Bind main thread and helper to neighbouring cpus that nothing else uses.".to_owned()
        }
        "parasc" => "Parallel calls need a cpu that is free: see that nothing else runs on the \
                     processing thread’s."
            .to_owned(),
        _ => String::new(),
    };
    Advice { figure: Some(figure.key), finding, action }
}

/// `spectre_v2: Retpolines; …` is known as `spectre_v2`.
fn name_of(mitigation: &str) -> &str {
    mitigation.split_once(':').map_or(mitigation, |(name, _)| name)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headline::figures::QUESTIONS;
    use crate::headline::{Standing, standing::BAD};
    use kumiki_measure::schema::Unit;

    fn bad(key: &'static str) -> Figure {
        Figure {
            key,
            name: "x",
            value: 1.0,
            unit: Unit::Nanoseconds,
            interval: [1.0, 1.0],
            meaning: String::new(),
            disturbed: false,
            extrapolated: false,
            standing: Some(Standing {
                grade: Grade::Bad,
                ratio: BAD,
                interval: [BAD; 2],
                in_round_trips: false,
                reference: "r",
                otherwise: None,
            }),
        }
    }

    #[test]
    fn every_figure_that_can_be_bad_has_something_to_do() {
        for question in &QUESTIONS {
            let advice = about_bad(&bad(question.key), &Machine::default());
            assert!(!advice.action.is_empty(), "{}", question.key);
            assert!(advice.finding.contains("1.50"), "{}", advice.finding);
        }
    }

    #[test]
    fn who_disturbed_is_named_with_the_cpus() {
        let other = |name: &str, cpu_seconds, cpus: &[usize]| Other {
            name: name.to_owned(),
            cpu_seconds,
            cpus: cpus.to_vec(),
        };
        assert_eq!(stop(&[]), "Stop other programs,");
        let others = [other("rustc", 38.2, &[0, 1]), other("cc1", 0.5, &[1])];
        let said = stop(&others).replace(crate::format::THIN, " ");
        assert_eq!(said, "Stop rustc (38.2 s of cpus 0, 1), cc1 (500 ms of cpu 1),");
    }

    #[test]
    fn settings_that_cost_are_named() {
        let governed = |governor: &str, pages: &str| Machine {
            governor: Some(governor.to_owned()),
            transparent_huge_pages: Some(pages.to_owned()),
            ..Machine::default()
        };
        assert_eq!(state(&governed("performance", "madvise")), []);
        let said = state(&governed("powersave", "never"));
        assert_eq!(said.len(), 2);
        assert!(said[0].finding.contains("powersave"));
    }
}
