//! The page as text: what it holds, and what it must never hold.

use crate::common::{empty, full, params, row};
use kumiki_measure::schema::{Params, Results, Row};

fn page(results: &[Results]) -> String {
    // plotly.js is megabytes of text that says everything; leave it out.
    let html = kumiki_report::html(results);
    let Some(start) = html.find("plotly.js v") else { return html };
    let end = start + html[start..].find("</script>").expect("a script ends");
    format!("{}{}", &html[..start], &html[end..])
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
fn it_carries_its_charts_and_their_licence_but_no_typesetter() {
    let html = kumiki_report::html(&[full("host", 1.0)]);
    assert!(html.contains("plotly.js v"), "plotly.js is there");
    assert!(html.contains("Licensed under the MIT license"), "and its licence");
    assert_eq!(html.matches("MathJax-script").count(), 0, "no formulas here");
    assert!(html.len() < 6_000_000, "{} bytes", html.len());
}

#[test]
fn nothing_measured_is_a_page_that_says_so() {
    assert!(page(&[]).contains("There is nothing to show"));
    let html = kumiki_report::html(&[empty("host")]);
    assert!(html.contains("Nothing was measured."));
    assert!(!html.contains("plotly.js v"), "no chart, no script for charts");
}

#[test]
fn one_row_is_a_table_and_no_chart() {
    let r = Results { rows: vec![row("entry.getppid", Params::new(), 86.0)], ..empty("host") };
    let page = page(&[r]);
    assert!(page.contains("<h2>Entering the kernel</h2>"));
    assert!(page.contains("A system call costs "));
    assert!(!page.contains("<figure"));
}

#[test]
fn some_parts_only() {
    let mut r = full("host", 1.0);
    r.rows.retain(|row| !row.case.starts_with("process."));
    r.slopes.clear();
    let page = page(&[r]);
    assert!(!page.contains("id=\"fork-data\"") && !page.contains("six figures"));
    assert!(page.contains("id=\"round-trips\"") && page.contains("<h2>Files</h2>"));
    assert!(!page.contains("id=\"slopes\""));
}

#[test]
fn every_figure_of_the_paper_is_there_and_captioned() {
    let page = page(&[full("host", 1.0)]);
    let ids = ["fork-data", "fork-bss", "fork-stack", "exec-data", "exec-bss", "exec-args"];
    for (id, number) in ids.iter().zip(["3-2", "3-3", "3-4", "4-2", "4-3", "4-4"]) {
        let at = page.find(&format!("<figure id=\"{id}\">")).expect(id);
        let end = at + page[at..].find("</figure>").expect("it ends");
        assert!(page[at..end].contains(&format!("Figure {number} of the paper")), "{id}");
    }
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
        ("parasc-requests-own", ["Figure 7", "data-kind=\"counts\"", "2 processing threads", own]),
        ("parasc-requests-one", ["Figure 7", "plain calls", "1 processing thread", one]),
        ("parasc-ratio-own", [own, "class=\"better\">0.539 ×", "class=\"same\">1.00 ×", "51.0 µs"]),
        (
            "parasc-ratio-one",
            [one, "class=\"worse\">1.14 ×", "class=\"same\">1.00 ×", "about half"],
        ),
        ("parasc-calls", ["open close", "0.640 ×", "class=\"same\">1.02 ×", "15.0 µs"]),
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
    for id in ["parasc-ratio-own", "parasc-ratio-one", "parasc-calls"] {
        assert!(!html.contains(id), "{id}");
    }
    assert!(!html.contains("than plain calls"));
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
        ("shadow-threshold", ["Table 2", ">10 000 ticks", "infinite", "1.03 µs"]),
        ("shadow-pair-spin", ["Figure 5", "318 ns", "668 ns", "2.15 ×"]),
        ("shadow-pair-sleep", ["Figure 6", "41.0 µs", "cpu 3", "132 ×"]),
        ("shadow-idle", ["Figure 8", "processor time a second", "no energy counter", "\"cpu\""]),
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
    assert!(idle.contains("energy counters tell") && idle.contains("data-unit=\"W\""), "{idle}");
    assert!(html.contains("some pairs of each relation"));
}

#[test]
fn lines_that_differ_in_touch_begin_at_the_row_of_size_zero() {
    let html = page(&[full("host", 1.0)]);
    let at = html.find("<figure id=\"fork-data\">").expect("the figure");
    let json = &html[at + html[at..].find("json\">").expect("its data") + 6..];
    let json = &json[..json.find("</script>").expect("it ends")];
    let chart: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let lines = chart["data"].as_array().expect("lines");
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert_eq!(line["x"][0], 0.0, "{}", line["name"]);
        assert_eq!(line["y"][0], 44e3 * 1e-9);
        assert_eq!(line["x"].as_array().map(Vec::len), Some(5));
    }
}

#[test]
fn results_side_by_side_are_compared() {
    let mut slow = full("b", 1.6);
    slow.rows.retain(|row| row.case != "entry.getppid");
    let page = page(&[full("a", 1.0), slow]).replace('\u{202f}', " ");
    assert!(page.contains("<h2>Comparison</h2>"));
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
