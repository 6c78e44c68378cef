//! The page as text: what it holds, and what it must never hold.

use crate::common::{empty, full, params, row};
use kumiki_measure::schema::{Params, Results, Row, Trend};

fn page(results: &[Results]) -> String {
    kumiki_report::html(results)
}

#[test]
fn untrusted_text_stays_text() {
    let attack = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>";
    let mut r = full(attack, 1.0);
    r.run.label = Some(attack.to_owned());
    r.run.command = attack.to_owned();
    r.run.started = attack.to_owned();
    r.machine.cpu_model = attack.to_owned();
    r.skipped[0].reason = attack.to_owned();
    for row in &mut r.rows {
        row.disturbed = true;
        row.disturbances = vec![attack.to_owned()];
        row.params.insert("way".to_owned(), attack.into());
    }
    let mut other = r.clone();
    other.rows[0].case = format!("{attack}.{attack}");
    for page in [page(&[r.clone()]), page(&[r, other])] {
        assert!(page.contains("alert(1)"), "the text is shown");
        assert!(!page.contains("<script>alert"), "a script of an attacker");
        assert!(!page.contains("<img"), "an element of an attacker");
        assert!(!page.contains("\"'>"), "an attribute is closed");
    }
}

#[test]
fn it_asks_for_nothing_outside() {
    let html = kumiki_report::html(&[full("host", 1.0)]);
    assert!(html.contains("content=\"default-src 'none';"), "a policy forbids all loading");
    let own = page(&[full("host", 1.0)]);
    for outside in ["src=\"", "<link", "@import", "url(", "https://", "fetch("] {
        assert!(!own.contains(outside), "{outside} in the page");
    }
}

#[test]
fn a_whole_result_fits_into_two_megabytes() {
    for reference in kumiki_report::reference::all() {
        let html = page(std::slice::from_ref(reference.results()));
        assert!(html.contains("class=\"plot\""), "{}: charts are drawn", reference.name());
        assert!(html.len() < 2_000_000, "{}: {} bytes", reference.name(), html.len());
    }
}

#[test]
fn it_says_which_tool_made_it() {
    let html = page(&[full("host", 1.0)]);
    assert!(html.contains(&format!("Made by Kumiki {}.", kumiki_report::version())));
    assert!(kumiki_report::version().starts_with(env!("CARGO_PKG_VERSION")));
}

#[test]
fn nothing_measured_is_a_page_that_says_so() {
    assert!(page(&[]).contains("There is nothing to show"));
    let html = page(&[empty("host")]);
    assert!(html.contains("Nothing was measured."));
    assert!(!html.contains("class=\"plot\"") && !html.contains("class=\"card"));
}

#[test]
fn one_row_is_a_table_and_no_chart() {
    let r = Results { rows: vec![row("entry.getppid", Params::new(), 86.0)], ..empty("host") };
    let page = page(&[r]);
    assert!(page.contains("<h2>What does entering the kernel cost?</h2>"));
    assert!(page.contains("A system call costs ") && page.contains("The one row"));
    // What a paper has published stands there beside whatever was measured.
    let published = "<figure data-figure=\"paper-nodes-load\">";
    assert!(!page.replace(published, "").contains("<figure"));
}

#[test]
fn rows_without_a_size_are_dots_side_by_side() {
    let program = |kind: &str, ns| row("process.program", params([("kind", kind.into())]), ns);
    let rows = vec![program("static_c", 38e3), program("bare", 19e3)];
    let html = page(&[Results { rows, ..empty("host") }]).replace('\u{202f}', " ");
    let figure = figure(&html, "ways-process");
    // The quicker one stands higher.
    let height = |name: &str| -> f64 {
        let before = figure.split(&format!(">{name}</text>")).next().expect(name);
        let y = before.rsplit(" y=\"").next().and_then(|rest| rest.split('"').next());
        y.and_then(|y| y.parse().ok()).expect("a place")
    };
    assert!(height("program, bare") < height("program, static_c"), "{figure}");
    assert!(figure.contains("19.0 µs") && figure.contains("38.0 µs"), "{figure}");
}

#[test]
fn a_part_that_no_question_is_about_is_shown_all_the_same() {
    let sizes = [1u64, 2, 3].map(|n| row("x.y", params([("bytes", (n * 4096).into())]), 1.0));
    let page = page(&[Results { rows: sizes.to_vec(), ..empty("host") }]);
    assert!(page.contains("<section id=\"rows-x\">") && page.contains("All 3 rows"));
    assert!(page.contains("<figure id=\"other-x-bytes\">"));
}

#[test]
fn some_parts_only() {
    let mut r = full("host", 1.0);
    r.rows.retain(|row| !row.case.starts_with("process."));
    r.slopes.clear();
    let page = page(&[r]);
    assert!(!page.contains("id=\"fork-data\"") && !page.contains("id=\"paper-calls\""));
    assert!(page.contains("id=\"round-trips\"") && page.contains("<h2>What do files cost?</h2>"));
    assert!(!page.contains("slopes</summary>"));
}

#[test]
fn every_figure_of_the_paper_is_there_and_captioned() {
    let result = full("host", 1.0);
    let page = page(std::slice::from_ref(&result));
    let ids = ["fork-data", "fork-bss", "fork-stack", "exec-data", "exec-bss", "exec-args"];
    for (id, number) in ids.iter().zip(["3-2", "3-3", "3-4", "4-2", "4-3", "4-4"]) {
        let at = page.find(&format!("<figure id=\"{id}\">")).expect(id);
        let end = at + page[at..].find("</figure>").expect("it ends");
        assert!(page[at..end].contains(&format!("Figure {number} of the paper")), "{id}");
        // What was found there, then whether that is so here.
        assert!(page[at..end].contains(" There ") && page[at..end].contains(" Here"), "{id}");
    }
    // Two results may not agree.
    let mut other = result.clone();
    other.machine.hostname = "other".to_owned();
    let args = |r: &mut Results| {
        let slopes = r.slopes.iter_mut().filter(|slope| slope.param == "args_bytes");
        slopes.for_each(|slope| slope.trend = Trend::Flat);
    };
    args(&mut other);
    let html = figure(&self::page(&[result, other]), "exec-args");
    let said = html.find("host: Here, too.").zip(html.find("other: Here it does not grow."));
    assert!(said.is_some_and(|(first, second)| first < second), "{html}");
}

/// A figure of the page, a chart or a table.
fn figure(html: &str, id: &str) -> String {
    // Tables are there once for each result: they have no anchor.
    let names = ["id", "data-figure"].map(|name| format!("<figure {name}=\"{id}\">"));
    let at = names.iter().find_map(|name| html.find(name)).unwrap_or_else(|| panic!("no {id}"));
    html[at..at + html[at..].find("</figure>").expect("it ends")].to_owned()
}

#[test]
fn the_parasc_papers_table_and_figure_are_there() {
    let r = full("host", 1.0);
    let html = page(std::slice::from_ref(&r)).replace('\u{202f}', " ");
    let own = "With 1 processing thread it is faster than plain calls from 50 requests on; 300 \
               take 0.539 × their time.";
    let one = "With 2 processing threads no number of requests is faster than plain calls beyond \
               doubt; 300 take 1.14 × their time.";
    for (id, texts) in [
        // Kumiki's figure, as a multiple of the round trip, and the paper's.
        ("parasc-steps", [">gettid awake *<", "<b>540 ns</b>", "1.74 ×", "16.1 µs"]),
        ("parasc-requests-own", ["Figure 7", "data-x=\"count log", "2 processing threads", own]),
        (
            "parasc-requests-own",
            ["alone: 1 processing thread", "bare, beside 1 processing", "engine as it is", own],
        ),
        ("parasc-requests-one", ["Figure 7", "plain calls", "1 processing thread", one]),
        ("parasc-ratio-own", [own, "class=\"better\">0.539 ×", "class=\"same\">1.00 ×", "51.0 µs"]),
        (
            "parasc-ratio-one",
            [one, "class=\"worse\">1.14 ×", "class=\"same\">1.00 ×", "about half"],
        ),
        ("parasc-calls", ["open close", "0.640 ×", "class=\"same\">1.02 ×", "15.0 µs"]),
        ("parasc-inside", ["getppid × 300", "0.500 ×", "0.577 ×", "7.00 µs"]),
    ] {
        let figure = figure(&html, id);
        for text in texts {
            assert!(figure.contains(text), "{id}: no {text:?} in {figure}");
        }
    }
    // Three samples of ten.
    assert!(figure(&html, "parasc-steps").contains("<td class=\"n\">30</td>"));
    // Each result beside the others says its own.
    let html = page(&[r.clone(), full("other", 1.5)]).replace('\u{202f}', " ");
    let figure = figure(&html, "parasc-requests-own");
    assert!(figure.contains("host: With 1") && figure.contains("other: With 1"), "{figure}");
}

#[test]
fn of_requests_that_were_not_measured_both_ways_there_is_no_ratio() {
    let mut r = full("host", 1.0);
    let plain = |row: &Row| row.params.get("processing_threads") == Some(&0u64.into());
    r.rows.retain(|row| !plain(row) && row.params.get("way") != Some(&"plain".into()));
    let html = page(&[r]);
    assert!(html.contains("<figure id=\"parasc-requests-own\">"));
    for id in ["parasc-ratio-own", "parasc-ratio-one", "parasc-calls", "parasc-inside"] {
        assert!(!html.contains(id), "{id}");
    }
    assert!(!html.contains("than plain calls"));
}

#[test]
fn the_resource_papers_figures_are_there() {
    let html = page(&[full("host", 1.0)]).replace('\u{202f}', " ");
    let memory = figure(&html, "resource-memory");
    for text in [
        // Throughput of one core and of two, gain, and both types against each other.
        ">12 500<",
        ">24 390<",
        ">0.976 ×<",
        ">11.0 ×<",
    ] {
        assert!(memory.contains(text), "no {text:?} in {memory}");
    }
    // Two counts of cores say nothing of more, and are no curve.
    assert!(!html.contains(", model") && !html.contains("resource-memory-gain"));
    // 20 a millisecond by one core, and shared no more by two.
    let process = figure(&html, "resource-process");
    for text in [">20.0<", ">36.4<", ">1.82 ×<"] {
        assert!(process.contains(text), "no {text:?} in {process}");
    }
    let spawn = figure(&html, "resource-spawn");
    for text in ["64 MiB", "fork_exec", "44.4 ×", "kumiki/server", "1.33 ×"] {
        assert!(spawn.contains(text), "no {text:?} in {spawn}");
    }
    let calls = figure(&html, "resource-call");
    assert!(calls.contains("<b>110 ns</b>"), "{calls}");
}

/// A machine of so many cores, two of them on another socket.
fn many_cores(counts: std::ops::RangeInclusive<u64>, spread: f64) -> Results {
    let mut r = full("host", 1.0);
    for cores in counts {
        for (kind, alone, more) in [
            ("per_core", 5000.0, 1.02),
            ("shared", 5000.0, 1.3),
            ("plain_threads", 4000.0, 1.2),
            ("plain_processes", 4000.0, 1.01),
        ] {
            for case in ["resource.memory_paper", "resource.process_paper"] {
                let ns = alone * f64::powi(more, cores as i32 - 1);
                let mut params = params([("type", kind.into()), ("cores", cores.into())]);
                if cores > 4 {
                    params.insert("cpus".to_owned(), "more sockets".into());
                }
                let ci = [ns / spread, ns * spread];
                r.rows.push(Row { ci, ..row(case, params, ns) });
            }
        }
    }
    r
}

#[test]
fn figures_5_to_8_are_drawn_of_three_counts_and_a_law_of_four() {
    let ids = ["memory-throughput", "memory-gain", "process-throughput", "process-gain"];
    let html = page(&[many_cores(1..=3, 1.01)]);
    for id in ids {
        assert!(html.contains(&format!("<figure id=\"resource-{id}\">")), "{id}");
    }
    assert!(!html.contains(", model"));
    let html = page(&[many_cores(1..=6, 1.01)]);
    let table = figure(&html, "resource-memory-paper");
    assert!(table.contains(">8, model") && !table.contains(">6, model"), "{table}");
    assert!(table.contains("5, more sockets"), "{table}");
    assert!(html.contains("cores; from 5 on more sockets"));
    // An interval that leaves it open says nothing.
    assert!(!page(&[many_cores(1..=6, 1.8)]).contains(", model"));
}

#[test]
fn the_shadow_papers_tables_and_figures_are_there() {
    let mut r = full("host", 1.0);
    let html = page(&[r.clone()]).replace('\u{202f}', " ");
    for (id, texts) in [
        // Kumiki's figure, as a multiple of the round trip, and the paper's.
        ("shadow-null", ["Table 1", "<b>323 ns</b>", "1.04 ×", "23.6 µs"]),
        ("shadow-null", ["sleep by futex", "<b>41.0 µs</b>", "1.03 µs", ">pthread<"]),
        ("shadow-null", [">ucontext<", "<b>412 ns</b>", "948 ns", "MPC++"]),
        // With ticks, of which there are 2.6 a nanosecond.
        ("shadow-null", ["23.6 µs", ">ticks<", ">840<", ">1071<"]),
        ("shadow-threshold", ["Table 2", ">10 000 ticks", "infinite", "1.03 µs"]),
        ("shadow-threshold_both", ["Table 2", ">10 000 ticks", "<b>122 µs</b>", "1.03 µs"]),
        ("shadow-pair-spin", ["3.14 M/s", "1.50 M/s", "one l3", "other socket"]),
        ("shadow-idle-over", ["Figure 8", ">800 ms<", "1.50 cpu", "0.380 cpu"]),
        ("shadow-idle-over", [">20 s<", "4 to 6 s", "one wait of each age", "0.380 cpu"]),
        ("shadow-pair-spin", ["Figure 5", "318 ns", "668 ns", "2.15 ×"]),
        ("shadow-pair-sleep", ["Figure 6", "41.0 µs", "cpu 3", "132 ×"]),
        (
            "shadow-idle",
            ["Figure 8", "processor time a second", "no energy counter", "data-x=\"cpu linear"],
        ),
        ("shadow-copy", ["Figure 13", "block 256", "libc", "auto"]),
    ] {
        let figure = figure(&html, id);
        for text in texts {
            assert!(figure.contains(text), "{id}: no {text:?} in {figure}");
        }
    }
    assert!(!html.contains("some pairs of each relation"));
    // Where energy was counted, it is shown, and said.
    for i in 0..r.rows.len() {
        if r.rows[i].case == "shadow.idle" {
            let mut power = r.rows[i].clone();
            power.case = "shadow.idle_power".to_owned();
            power.unit = kumiki_measure::schema::Unit::Watts;
            r.rows.push(power);
        }
    }
    r.rows.retain(|row| row.params.get("helper_cpu") != Some(&3u64.into()));
    let html = page(&[r]);
    let idle = figure(&html, "shadow-idle");
    assert!(idle.contains("energy counters tell") && idle.contains("data-x=\"W linear"), "{idle}");
    assert!(html.contains("some pairs of each relation"));
}

#[test]
fn lines_that_differ_in_touch_begin_at_the_row_of_size_zero() {
    let html = page(&[full("host", 1.0)]);
    let figure = figure(&html, "fork-data").replace('\u{202f}', " ");
    let lines: Vec<&str> = figure.split("<g class=\"line ").skip(1).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        let said: Vec<&str> = line.split("<title>").skip(1).collect();
        assert_eq!(said.len(), 5, "{line}");
        assert!(said[0].contains("\n0: 44.0 µs\n95 % CI [43.1, 44.9] µs"), "{}", said[0]);
        let dots = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(dots.map(|points| points.split(' ').count()), Some(5));
    }
}

#[test]
fn a_slope_whose_interval_holds_zero_is_flat_or_unclear() {
    let mut r = full("host", 1.0);
    assert!(!page(&[r.clone()]).contains(">flat<"));
    let slope = r.slopes.iter_mut().find(|s| s.param == "data_bytes").expect("a slope");
    (slope.ci, slope.trend) = ([-0.3, 0.9], Trend::Flat);
    let html = page(&[r.clone()]);
    assert!(figure(&html, "fork-data").contains(">flat</b>"));
    // Beside the chart, and in the table of slopes.
    assert_eq!(html.matches(">flat</b>").count(), 2);
    // 149 µs that rise to 28 ms, of which nobody knows whether they do.
    let slope = r.slopes.iter_mut().find(|s| s.param == "data_bytes").expect("a slope");
    (slope.ci, slope.trend) = ([-5.8, 242.0], Trend::Unclear);
    let html = page(&[r]);
    assert!(figure(&html, "fork-data").contains(">unclear</b>") && !html.contains(">flat<"));
}

#[test]
fn the_cache_line_is_one_figure() {
    let html = page(&[full("host", 1.0)]).replace('\u{202f}', " ");
    assert_eq!(html.matches("id=\"figure-line\"").count(), 1);
    assert!(!html.contains("<dt>cache-line round trip</dt>"));
    assert!(!html.contains("round trip of 310 ns"), "no sentence says another");
}

#[test]
fn figures_are_graded_and_advice_stands_beside_them() {
    let mut r = kumiki_report::reference::all()[0].results().clone();
    for row in r.rows.iter_mut().filter(|row| row.case == "entry.getppid") {
        row.median *= 4.0;
        row.ci = row.ci.map(|end| end * 4.0);
    }
    let html = page(&[r.clone()]).replace('\u{202f}', " ");
    assert!(html.contains("▴ bad 4.00 ×"));
    assert!(html.contains("• usual 1.00 ×"));
    assert!(html.contains("<b>System call: "), "advice on what is bad");
    let both = page(&[r.clone(), r]).replace('\u{202f}', " ");
    assert!(both.contains("table class=\"headline\""), "several results are a table");
    assert_eq!(both.matches("▴ bad 4.00 ×").count(), 2);
}

#[test]
fn results_side_by_side_are_compared() {
    let mut slow = full("b", 1.6);
    slow.rows.retain(|row| row.case != "entry.getppid");
    let page = page(&[full("a", 1.0), slow]).replace('\u{202f}', " ");
    assert!(page.contains("<h2>How do they compare?</h2>"));
    assert!(page.contains("<span class=\"worse\">1.60 × <small>worse</small></span>"));
    assert!(page.contains("not measured"));
    let same = kumiki_report::html(&[full("a", 1.0), full("b", 1.0)]);
    assert!(same.contains("CIs overlap") && !same.contains("<small>worse"));
}

#[test]
fn more_bandwidth_is_better() {
    let rate = |ns: f64| {
        let mut row = row("ipc.pipe.bandwidth", params([("bytes", 64u64.into())]), ns);
        row.unit = kumiki_measure::schema::Unit::GigabytesPerSecond;
        Results { rows: vec![row], ..empty("host") }
    };
    assert!(kumiki_report::html(&[rate(1.0), rate(2.0)]).contains("<small>better"));
    assert!(kumiki_report::html(&[rate(2.0), rate(1.0)]).contains("<small>worse"));
}

#[test]
fn an_interrupted_run_says_so() {
    let mut r = full("host", 1.0);
    assert!(!page(&[r.clone()]).contains("incomplete"));
    r.run.complete = false;
    assert!(page(&[r]).contains("incomplete"));
}

#[test]
fn anchors_are_different() {
    let html = page(&[full("a", 1.0), full("b", 1.0)]);
    let mut ids: Vec<&str> =
        html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}
