//! A result's name, its machine and its run as lines of text.

use std::collections::HashMap;

use kumiki_measure::schema::{Machine, Results};

use crate::format::{bytes, hertz, number, wait};

/// A short name for each result, different from every other.
pub(crate) fn names(results: &[Results]) -> Vec<String> {
    let own = |r: &Results| match r.run.label.as_deref() {
        Some(label) if !label.trim().is_empty() => label.trim().to_owned(),
        _ if r.machine.hostname.is_empty() => "unnamed machine".to_owned(),
        _ => r.machine.hostname.clone(),
    };
    let plain: Vec<_> = results.iter().map(own).collect();
    let twice = |names: &[String], name: &String| names.iter().filter(|n| *n == name).count() > 1;
    // When it was measured tells runs of one machine apart, as far as it does.
    let dated = |(name, r): (&String, &Results)| match minute(&r.run.started) {
        Some(minute) if twice(&plain, name) => format!("{name}, {minute}"),
        _ => name.clone(),
    };
    let dated: Vec<_> = plain.iter().zip(results).map(dated).collect();
    let taken = |name: &String| dated.contains(name);
    let mut last: HashMap<&String, usize> = HashMap::new();
    let mut number = |name| {
        if !twice(&dated, name) {
            return name.clone();
        }
        let at = last.entry(name).or_default();
        // A name may end in a number already.
        loop {
            *at += 1;
            let numbered = format!("{name} #{at}");
            if !taken(&numbered) {
                return numbered;
            }
        }
    };
    dated.iter().map(&mut number).collect()
}

/// A result's name in a title: a label says which, the host where.
pub(crate) fn title(name: &str, result: &Results) -> String {
    let host = &result.machine.hostname;
    if host.is_empty() || name.starts_with(host.as_str()) {
        return name.to_owned();
    }
    format!("{host} ({name})")
}

/// `2026-11-24 08:11` of `2026-11-24T08:11:12Z`.
fn minute(started: &str) -> Option<String> {
    started.get(..16).map(|text| text.replace('T', " "))
}

/// The machine in one line: processor, cpus, memory, kernel.
pub(crate) fn in_one_line(m: &Machine) -> String {
    let mut words = Vec::new();
    if !m.cpu_model.is_empty() {
        words.push(m.cpu_model.clone());
    }
    if m.cpus > 0 {
        words.push(format!("{} {}", m.cpus, if m.cpus == 1 { "cpu" } else { "cpus" }));
    }
    if m.memory_bytes > 0 {
        words.push(format!("{} memory", bytes(m.memory_bytes)));
    }
    if !m.kernel.is_empty() {
        words.push(format!("Linux {}", m.kernel));
    }
    words.extend(m.hypervisor.as_ref().map(|h| format!("under {h}")));
    words.join(" · ")
}

/// The machine and its state. What could not be read is not listed.
pub(crate) fn facts(m: &Machine) -> Vec<(&'static str, String)> {
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let cpus = (m.cpus > 0).then(|| {
        format!(
            "{} online, allowed {}; {} cores × {} threads, {} NUMA node{}",
            m.cpus,
            if m.cpus_allowed.is_empty() { "?" } else { &m.cpus_allowed },
            m.cores,
            m.threads_per_core,
            m.numa_nodes,
            if m.numa_nodes == 1 { "" } else { "s" },
        )
    });
    let facts = [
        ("host", text(&m.hostname)),
        ("processor", text(&m.cpu_model)),
        ("cpus", cpus),
        ("memory", (m.memory_bytes > 0).then(|| bytes(m.memory_bytes))),
        ("last-level cache", m.cache_bytes.map(bytes)),
        ("hypervisor", m.hypervisor.clone()),
        ("system", text(&m.os)),
        ("kernel", text(&m.kernel)),
        ("kernel build", text(&m.kernel_version)),
        ("clock", text(&m.clock)),
        ("time stamp counter", m.tsc_hz.map(hertz)),
        ("frequency governor", m.governor.clone()),
        ("boost", m.boost.map(|on| if on { "on" } else { "off" }.to_owned())),
        ("files of the cases", text(&m.scratch)),
        ("transparent huge pages", m.transparent_huge_pages.clone()),
        ("load at the start", m.load.map(number)),
        ("mitigations", text(&m.mitigations.join("; "))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Facts about the run: its settings and times.
pub(crate) fn run_facts(r: &Results) -> Vec<(&'static str, String)> {
    let text = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    let facts = [
        ("started", text(&r.run.started)),
        ("took", (r.run.seconds > 0.0).then(|| wait(r.run.seconds))),
        ("mode", text(&r.run.mode)),
        ("Kumiki", text(&r.run.version)),
        ("peak memory of the tool", r.run.peak_bytes.map(bytes)),
        ("rows", Some(r.rows.len().to_string())),
        ("samples", Some(crate::format::count(r.rows.iter().map(|row| row.n as u64).sum()))),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Warning of a run that was interrupted.
pub(crate) const INCOMPLETE: &str =
    "This run was interrupted and is incomplete: what is missing here was not measured.";

/// Warnings that a reader must know before the first figure: an interrupted run, disturbed rows.
pub(crate) fn warnings(r: &Results) -> Vec<String> {
    let mut out = Vec::new();
    if !r.run.complete {
        out.push(INCOMPLETE.to_owned());
    }
    let disturbed = r.rows.iter().filter(|row| row.disturbed).count();
    if disturbed > 0 {
        let (was, them) = if disturbed == 1 { ("was", "it") } else { ("were", "them") };
        out.push(format!(
            "{disturbed} of {} rows {was} disturbed by other work on the machine; ⚠ marks {them} \
             and the tables say why.",
            r.rows.len()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(host: &str, label: Option<&str>) -> Results {
        let machine = Machine { hostname: host.into(), ..Machine::default() };
        let mut results = Results {
            schema: kumiki_measure::schema::SCHEMA,
            run: Default::default(),
            machine,
            rows: vec![],
            slopes: vec![],
            skipped: vec![],
        };
        results.run.label = label.map(str::to_owned);
        results
    }

    #[test]
    fn names_differ() {
        let results =
            [on("a", None), on("b", Some("old kernel")), on("a", Some(" ")), on("", None)];
        let names = names(&results);
        assert_eq!(names, ["a #1", "old kernel", "a #2", "unnamed machine"]);
        let titles: Vec<_> = names.iter().zip(&results).map(|(name, r)| title(name, r)).collect();
        assert_eq!(titles, ["a #1", "b (old kernel)", "a #2", "unnamed machine"]);
    }

    #[test]
    fn an_unknown_machine_has_few_facts() {
        assert_eq!(facts(&Machine::default()), []);
        assert_eq!(in_one_line(&Machine::default()), "");
    }

    #[test]
    fn an_interrupted_run_says_so() {
        let mut results = on("a", None);
        assert!(warnings(&results)[0].contains("incomplete"));
        results.run.complete = true;
        assert!(warnings(&results).is_empty());
    }
}
