//! The answers to the page's questions, each from its rows alone.

use kumiki_measure::schema::{Params, Results, Row, Trend};

use crate::common::{MIB, crossing, disturbed, empty, full, params, row};

/// The page's answers as a person reads them.
fn of(results: &Results) -> Vec<String> {
    let html = kumiki_report::html(std::slice::from_ref(results));
    let mut out = Vec::new();
    for list in html.split("<ul class=\"answer\">").skip(1) {
        let list = list.split("</ul>").next().unwrap_or_default();
        out.extend(list.split("<li").skip(1).map(text));
    }
    out
}

/// What stands between the tags after the first.
fn text(element: &str) -> String {
    let pieces =
        element.split('>').skip(1).map(|piece| piece.split('<').next().unwrap_or_default());
    pieces.collect::<String>().replace('\u{202f}', " ").trim().to_owned()
}

fn of_rows(rows: Vec<Row>) -> Vec<String> {
    of(&Results { rows, ..empty("host") })
}

#[test]
fn nothing_measured_nothing_said() {
    assert_eq!(of_rows(vec![]), [""; 0]);
    assert_eq!(of_rows(vec![row("entry.unheard_of", Params::new(), 1.0)]), [""; 0]);
}

#[test]
fn a_full_result_says_all_of_it() {
    let said = of(&full("host", 1.0));
    for sentence in [
        "A system call costs 86.0 ns. [84.3, 87.7] ns",
        "Reading the clock costs 22.0 ns, 131 ns by a system call. [21.6, 22.4] ns",
        "The smallest process forks in 44.0 µs, its child’s exit and the wait included. [43.1, 44.9] µs",
        "fork costs 14.6 µs per resident MiB here, 57.0 ns a page, and 78.0 ns a page beyond 128 MiB. [14.0, 15.3] µs",
        "In huge pages the same memory costs fork 230 ns per MiB, 63.3 × less. [221, 242] ns",
        "posix_spawn starts a program in 60.0 µs from a parent of 256 MiB and in 60.0 µs from a small one; fork and exec take 3.90 ms. [58.8, 61.2] µs",
        "exec costs 371 µs per MiB of initialised data that the new program writes to. [356, 390] µs",
        "Waking a thread on another cpu and being woken by it takes 82.0 µs, 265 × the cache line’s round trip; on the same cpu 3.90 µs. [80.4, 83.6] µs ⚠",
        "Handing a byte to another process on the same cpu takes 1.60 µs; without the switch 700 ns. [1.57, 1.63] µs",
        "A thread is created and joined in 11.0 µs. [10.8, 11.2] µs",
        "Fork and join to a shadow thread on the nearest cpu take 323 ns, 1.04 × the cache line’s round trip; with a helper that must be woken first 41.0 µs; a new thread takes 83.0 µs. [317, 329] ns",
        "A shadow thread takes 0.000600 cpu while it waits, one that only spins 1.00 cpu. [0.000588, 0.000612] cpu",
        "With a shadow thread 16 MiB that are in no cache are copied at 17.0 GB/s, by the C library alone at 7.00 GB/s. [16.6, 17.3] GB/s",
        "A processing thread that spins makes a system call for another thread in 540 ns, 1.74 × the cache line’s round trip; one that must be woken first takes 41.0 µs; the plain call 88.0 ns. [529, 551] ns",
        "A call to the core that owns a resource takes 110 ns, 0.355 × the cache line’s round trip; with 32 under way 30.0 ns each. [108, 112] ns",
        "On 2 cores at once each allocates and frees 4 KiB of named memory in 82.0 ns; with tables that all share in 900 ns. [80.4, 83.6] ns",
        "300 parallel reads of a page of /dev/zero take 19.0 µs. With 2 processing threads it is faster than plain calls from 50 requests on; 300 take 0.373 × their time. [18.6, 19.4] µs",
    ] {
        assert!(said.iter().any(|s| s == sentence), "no {sentence:?} in {said:#?}");
    }
}

#[test]
fn a_sentence_without_its_companions_is_shorter() {
    let at = |bytes: u64, ns| {
        row("process.spawn.posix_spawn", params([("anon_bytes", bytes.into())]), ns)
    };
    assert_eq!(
        of_rows(vec![at(0, 60e3)]),
        ["posix_spawn starts a program in 60.0 µs from a small parent. [58.8, 61.2] µs"]
    );
    let wake = || row("thread.wake.round_trip", params([("cpu", "other".into())]), 82e3);
    let mut blind = crossing(wake());
    blind.round_trip_ns = None;
    assert_eq!(
        of_rows(vec![blind]),
        ["Waking a thread on another cpu and being woken by it takes 82.0 µs. [80.4, 83.6] µs"]
    );
}

#[test]
fn a_disturbed_row_marks_its_sentence() {
    let said = of_rows(vec![disturbed(row("entry.getppid", Params::new(), 86.0), "steal")]);
    assert!(said[0].ends_with(" ⚠"), "{said:?}");
    let mut r = full("host", 1.0);
    let marked = |r: &Results| {
        let said = of(r).into_iter().find(|s| s.starts_with("fork costs ")).expect("a slope");
        said.ends_with(" ⚠")
    };
    assert!(!marked(&r));
    let mut rows = r.rows.iter_mut();
    let below = rows.find(|row| row.params.get("anon_bytes") == Some(&(64 * MIB).into()));
    below.expect("a row of 64 MiB").disturbed = true;
    assert!(marked(&r));
}

#[test]
fn a_slope_whose_interval_holds_zero_is_no_growth() {
    let mut r = full("host", 1.0);
    let mut slopes = r.slopes.iter_mut();
    let slope = slopes.find(|slope| slope.param == "anon_bytes").expect("a slope");
    (slope.ci, slope.trend) = ([-1.0, 60.0], Trend::Unclear);
    let fork =
        |r: &Results| of(r).into_iter().find(|s| s.starts_with("fork costs ")).expect("a slope");
    let said = fork(&r);
    let unclear = "fork costs at most 15.4 µs more per MiB; whether it grows at all is unclear.";
    assert!(said.starts_with(unclear), "{said}");
    let mut slopes = r.slopes.iter_mut();
    let slope = slopes.find(|slope| slope.param == "anon_bytes").expect("a slope");
    slope.trend = Trend::Grows;
    let said = fork(&r);
    let grows = "fork costs at most 15.4 µs more per MiB; it grows, and only how fast is unclear.";
    assert!(said.starts_with(grows), "{said}");
    let mut slopes = r.slopes.iter_mut();
    let slope = slopes.find(|slope| slope.param == "anon_bytes").expect("a slope");
    (slope.ci, slope.trend) = ([-0.02, 0.04], Trend::Flat);
    let said = fork(&r);
    let flat = "fork costs about the same whatever the size, at most 10.2 ns more per MiB.";
    assert!(said.starts_with(flat), "{said}");
}
