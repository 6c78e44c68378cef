//! Table 3 of Nakamura's paper on parallel system calls (2018), and requests
//! against plain calls: the numbers below its Figure 7, and other calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use indexmap::IndexSet;
use kumiki_measure::schema::{FLAT, Params, Results, Row};
use maud::{Markup, html};

use crate::format::{count, interval, param, params, quantity, times, value};
use crate::paper::{Table, mark};
use crate::rows::{self, Verdict, compare, find, number};

/// Nanoseconds that the paper gives on an Intel Core i5-4690 with Linux 4.14.9.
/// Its gettid had to wait for a processing thread that was not ready.
const PAPER_STEPS: [(&str, f64); 5] = [
    ("init", 24_759.0),
    ("struct", 59.0),
    ("gettid_asleep", 16_138.0),
    ("end", 32_649.0),
    ("normal", 379.0),
];

/// A result's tables of them.
pub(crate) fn tables(results: &Results) -> Option<Markup> {
    let steps = Table {
        case: "parasc.steps",
        param: "step",
        paper: "paper, 2018",
        published: &PAPER_STEPS,
        ticks: false,
        marked: &["gettid_asleep", "gettid_awake"],
        title: "the steps of one parallel system call",
        caption: "Table 3 and Figure 6 of Nakamura. Init: until a processing thread has started \
                  and made its first call; the paper's is over when the thread has been made, and \
                  its gettid contains the rest. Struct: one request. Gettid: without the \
                  requesting thread's help, by a processing thread that must be woken first, and \
                  by one that spins. * It answers for the processing thread, so a program must \
                  not hand it over. End: from the termination flag. Normal: the plain call. The paper \
                  gives means of 500 times; here they are medians, each made as often as stands \
                  beside it.",
    };
    let inside_steps = Table {
        case: "parasc.kernel_steps",
        title: "the steps of one parallel system call, inside the kernel",
        caption: "Table 3 and Figure 6 of Nakamura with the processing thread where the paper has it: \
                  it stays in the kernel module for its whole life, and sleeps there when it must \
                  be woken. Init: until the thread has started, entered and made its first call. \
                  End: from the termination flag until the thread is joined, as the paper's. * It \
                  answers for the processing thread. Medians; the paper gives means of 500 times. \
                  In an emulated machine an entry into the kernel is dear.",
        ..steps
    };
    let all = [
        steps.of(results),
        inside_steps.of(results),
        requests(results, "own"),
        requests(results, "one"),
        calls(results),
        inside(results),
        by_kernel(
            results,
            "read",
            "reads of 4096 bytes from /dev/zero inside the kernel ÷ plain calls",
        ),
        by_kernel(results, "gettid", "gettid inside the kernel ÷ plain calls"),
    ];
    let all: Vec<Markup> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| html! { div.figures.small-tables { @for one in &all { (one) } } })
}

/// Batches of requests beside as many plain calls.
pub(crate) struct Against<'a> {
    /// Processing threads.
    pub(crate) threads: u64,
    /// Number of requests, the plain calls, the requests; the fewest first.
    pub(crate) rows: Vec<(u64, &'a Row, &'a Row)>,
}

/// The rows of Figure 7 with `own` open files or with `one`, by the engine as it is (`None`)
/// or by something else: processing threads (0: plain calls), requests, row.
pub(crate) fn measured<'a>(
    results: &'a Results,
    files: &str,
    by: Option<&str>,
) -> Vec<(u64, u64, &'a Row)> {
    let wanted = [("files", files.into())];
    let rows = find(results, "parasc.requests", &wanted);
    let by = by.map(|by| by.into());
    let rows = rows.filter(|row| row.params.get("by") == by.as_ref()).filter_map(|row| {
        let number = |name| number(&row.params, name);
        Some((number("processing_threads")?, number("requests")?, row))
    });
    rows.collect()
}

/// Each number of processing threads against plain calls.
pub(crate) fn against<'a>(results: &'a Results, files: &str) -> Vec<Against<'a>> {
    // Of a row that is there twice the first counts.
    let mut by_threads: BTreeMap<u64, BTreeMap<u64, &Row>> = BTreeMap::new();
    for (threads, requests, row) in measured(results, files, None) {
        by_threads.entry(threads).or_default().entry(requests).or_insert(row);
    }
    let Some(plain) = by_threads.remove(&0) else { return Vec::new() };
    let against = by_threads.into_iter().map(|(threads, own)| {
        let beside = |(n, row)| Some((n, *plain.get(&n)?, row));
        Against { threads, rows: own.into_iter().filter_map(beside).collect() }
    });
    against.filter(|against| !against.rows.is_empty()).collect()
}

impl<'a> Against<'a> {
    /// The plain calls and the requests, so many of them.
    fn at(&self, requests: u64) -> Option<(&'a Row, &'a Row)> {
        let at = self.rows.binary_search_by_key(&requests, |(n, ..)| *n).ok()?;
        self.rows.get(at).map(|(_, plain, row)| (*plain, *row))
    }

    /// Number of requests from which on they are faster than plain calls: there the intervals are
    /// apart, and beyond no median is above the plain calls'.
    pub(crate) fn faster_from(&self) -> Option<u64> {
        let slower = |(_, plain, row): &&(u64, &Row, &Row)| row.median >= plain.median;
        let from = self.rows.iter().rposition(|one| slower(&one)).map_or(0, |at| at + 1);
        let apart = |(_, plain, row): &&(u64, &Row, &Row)| compare(plain, row).1 == Verdict::Better;
        self.rows[from..].iter().find(apart).map(|(n, ..)| *n)
    }

    /// True if no number of requests takes less than its plain calls by as much as matters,
    /// whatever end of both intervals is true.
    pub(crate) fn never_pays(&self) -> bool {
        let good_end = |(_, plain, row): &(u64, &Row, &Row)| row.ci[0] / plain.ci[1];
        self.rows.iter().all(|one| good_end(one) > 1.0 - FLAT)
    }

    /// Reading of it, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let threads = match self.threads {
            1 => "1 processing thread".to_owned(),
            n => format!("{n} processing threads"),
        };
        let Some((most, plain, row)) = self.rows.last() else { return String::new() };
        let (most, ratio) = (count(*most), times(row.median / plain.median));
        match self.faster_from() {
            Some(from) => format!(
                "With {threads} it is faster than plain calls from {} on; {most} take {ratio} \
                 their time.",
                param("requests", &from.into())
            ),
            None => format!(
                "With {threads} no number of requests is faster than plain calls beyond doubt; \
                 {most} take {ratio} their time."
            ),
        }
    }
}

/// The numbers below Figure 7.
fn requests(results: &Results, files: &str) -> Option<Markup> {
    let all = against(results, files);
    let first = all.first()?;
    let numbers: BTreeSet<u64> = all.iter().flat_map(|a| a.rows.iter().map(|row| row.0)).collect();
    let filled = all.iter().map(|a| a.rows.len()).sum();
    if !rows::fills(filled, [all.len(), numbers.len()]) {
        return None;
    }
    let title = format!("requests against plain calls, {}", value("files", &files.into()));
    Some(html! {
        figure data-figure={ "parasc-ratio-" (files) } {
            h4 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.compact {
                    thead {
                        tr {
                            th.n scope="col" { "requests" }
                            th.n scope="col" { "plain calls" }
                            @for a in &all {
                                th.n scope="col" { (value("processing_threads", &a.threads.into())) }
                                th.n scope="col" { "of plain" }
                            }
                        }
                    }
                    tbody {
                        @for n in &numbers {
                            tr {
                                th.n scope="row" { (count(*n)) }
                                @match first.at(*n) {
                                    Some((plain, _)) => (figure(plain)),
                                    None => td.n.quiet { "–" },
                                }
                                @for a in &all {
                                    @match a.at(*n) {
                                        Some((plain, row)) => { (figure(row)) td.n { (ratio(plain, row)) } }
                                        None => { td.n.quiet { "–" } td.n.quiet { "–" } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    @for a in &all { (a.sentence()) " " }
                    "The paper's threads are faster from 50 to 75 requests on, and three of them \
                     take about half the time of plain calls at 300."
                }
            }
        }
    })
}

fn figure(row: &Row) -> Markup {
    html! {
        td.n title={ "95 % CI " (interval(row.ci, row.unit)) } {
            (quantity(row.median, row.unit)) (mark(row))
        }
    }
}

/// Coloured where the intervals are apart.
fn ratio(plain: &Row, row: &Row) -> Markup {
    let (ratio, verdict) = compare(plain, row);
    let class = match verdict {
        Verdict::Same => "same",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
    };
    html! { span class=(class) { (times(ratio)) } }
}

/// Every kind of call by the size of its batch.
fn calls(results: &Results) -> Option<Markup> {
    let way = |way: &str| -> Vec<&Row> {
        find(results, "parasc.calls", &[("way", way.into())]).collect()
    };
    let plain: HashMap<&Params, &Row> =
        way("plain").into_iter().map(|row| (&row.params, row)).collect();
    let mut rows: HashMap<(String, u64), (&Row, &Row)> = HashMap::new();
    let mut kinds: IndexSet<String> = IndexSet::new();
    for row in way("parallel") {
        let mut params = row.params.clone();
        params.insert("way".to_owned(), "plain".into());
        let Some(plain) = plain.get(&params) else { continue };
        let kind = row.params.get("call").map(|call| value("call", call)).unwrap_or_default();
        kinds.insert(kind.clone());
        if let Some(requests) = number(&row.params, "requests") {
            rows.entry((kind, requests)).or_insert((plain, row));
        }
    }
    let numbers: BTreeSet<u64> = rows.keys().map(|(_, requests)| *requests).collect();
    if kinds.is_empty() || !rows::fills(rows.len(), [kinds.len(), numbers.len()]) {
        return None;
    }
    let title = "batches of other calls, as multiples of plain calls";
    Some(html! {
        figure data-figure="parasc-calls" {
            h4 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.matrix {
                    thead {
                        tr {
                            th scope="col" { "call ╲ batch" }
                            @for n in &numbers { th.n scope="col" { (count(*n)) } }
                        }
                    }
                    tbody {
                        @for kind in &kinds {
                            tr {
                                th scope="row" { (kind) }
                                @for n in &numbers {
                                    @match rows.get(&(kind.clone(), *n)) {
                                        Some((plain, row)) => (against_plain(plain, row)),
                                        None => td.n.quiet { "–" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "Time of a batch of requests divided by that of as many plain calls, and the \
                     batch's time. Coloured where the 95 % intervals are apart. Open close: all \
                     files are opened, then all closed; mmap: pages are mapped, then unmapped, \
                     which only one thread at a time can do. Fsync: a page of each file has been \
                     written. Nanosleep: 100 µs."
                }
            }
        }
    })
}

/// Ways by which calls were made, in the order of the table; plain ones are the measure.
const WAYS: [&str; 6] = ["user", "kernel", "user_helped", "kernel_helped", "one_entry", "io_uring"];

/// Threads inside the kernel beside those in user space, by call and size of the batch.
fn inside(results: &Results) -> Option<Markup> {
    let all: Vec<&Row> = find(results, "parasc.inside", &[]).collect();
    let plain: Vec<&Row> = all.iter().copied().filter(|row| is_way(row, "plain")).collect();
    if plain.is_empty() {
        return None;
    }
    let by_params: HashMap<&Params, &Row> = all.iter().map(|row| (&row.params, *row)).collect();
    let beside = |plain: &Row, way: &str| {
        let mut params = plain.params.clone();
        params.insert("way".to_owned(), way.into());
        by_params.get(&params).copied()
    };
    let title = "calls inside the kernel ÷ plain calls";
    Some(html! {
        figure data-figure="parasc-inside" {
            h4 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.matrix.ways {
                    thead {
                        tr {
                            th scope="col" { "call × batch" }
                            th.n scope="col" { "plain" }
                            @for way in WAYS { th.n scope="col" { (value("way", &way.into())) } }
                        }
                    }
                    tbody {
                        @for plain in &plain {
                            tr {
                                th scope="row" {
                                    @if let Some(call) = plain.params.get("call") { (value("call", call)) }
                                    " × "
                                    (count(number(&plain.params, "requests").unwrap_or_default()))
                                }
                                (figure(plain))
                                @for way in WAYS {
                                    @match beside(plain, way) {
                                        Some(row) => (against_plain(plain, row)),
                                        None => td.n.quiet { "–" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "By an engine with the kernel module. User and kernel: a processing thread makes \
                     all calls, in user space or inside the kernel, also a single one; helped: the \
                     requesting thread makes some, too, or all of them where plain calls have \
                     proved faster: then both are alike; one entry: it makes all by one entry into \
                     the kernel, and there is no other thread. What an entry costs decides: an \
                     emulated machine exaggerates it."
                }
            }
        }
    })
}

/// Figure 7 with the processing threads where the paper has them: by the module alone.
fn by_kernel(results: &Results, call: &str, title: &str) -> Option<Markup> {
    let mut all: BTreeMap<(String, u64), BTreeMap<u64, &Row>> = BTreeMap::new();
    for row in find(results, "parasc.kernel", &[("call", call.into())]) {
        let number = |name| number(&row.params, name);
        let way = row.params.get("way").map(|way| value("way", way));
        let (Some(way), Some(threads), Some(requests)) =
            (way, number("processing_threads"), number("requests"))
        else {
            continue;
        };
        all.entry((way, threads)).or_default().entry(requests).or_insert(row);
    }
    let plain = all.remove(&("plain".to_owned(), 0))?;
    let columns: Vec<_> = all.iter().collect();
    Some(html! {
        figure data-figure={ "parasc-kernel-" (call) } {
            h4 { (title) }
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.matrix.ways {
                    thead {
                        tr {
                            th.n scope="col" { "requests" }
                            th.n scope="col" { "plain calls" }
                            @for ((way, threads), _) in &columns {
                                th.n scope="col" {
                                    (way)
                                    @if *threads > 0 { " × " (count(*threads)) }
                                }
                            }
                        }
                    }
                    tbody {
                        @for (requests, plain) in &plain {
                            tr {
                                th.n scope="row" { (count(*requests)) }
                                (figure(plain))
                                @for (_, rows) in &columns {
                                    @match rows.get(requests) {
                                        Some(row) => (against_plain(plain, row)),
                                        None => td.n.quiet { "–" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
            figcaption {
                p {
                    "Figure 7 of Nakamura by its mechanism alone, at one request, too: so many \
                     threads stay inside the kernel and make all calls, while the requesting thread \
                     looks (kernel) or sleeps there until they are over (kernel sleeps). One entry: \
                     it makes them itself, with no other thread"
                    @if call == "gettid" { "; gettid it is handed back and makes plainly" }
                    ". The paper's are a module of Linux 4.14 on a processor of four cores, and means; \
                     these are medians of a module of a stock kernel, in an emulated machine where \
                     the result says so."
                }
            }
        }
    })
}

fn is_way(row: &Row, way: &str) -> bool {
    row.params.get("way") == Some(&way.into())
}

fn against_plain(plain: &Row, row: &Row) -> Markup {
    html! {
        td.n title={ (params(&plain.params)) ": " (quantity(plain.median, plain.unit)) } {
            (ratio(plain, row)) (mark(row))
            small { (quantity(row.median, row.unit)) }
        }
    }
}
