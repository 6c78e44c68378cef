//! The page in a real browser: Chromium, headless.
//!
//! `KUMIKI_CHROMIUM` names another browser's program. Screenshots and the
//! printed page are left in `target/report-screenshots` for a person to look at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headless_chrome::protocol::cdp::types::Event;
use headless_chrome::protocol::cdp::{Emulation, Network, Page};
use headless_chrome::types::PrintToPdfOptions;
use headless_chrome::{Browser, LaunchOptions, Tab};

/// Where the browser is, or how to get one.
fn chromium() -> PathBuf {
    if let Some(path) = std::env::var_os("KUMIKI_CHROMIUM") {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
    let mut found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .filter(|program| program.is_file());
    found.next().expect(
        "this test needs Chromium and none is in PATH: run `apt-get install chromium`, or name \
         one by KUMIKI_CHROMIUM",
    )
}

fn browser(profile: &Path) -> Browser {
    let args = [
        "--disable-quic",
        "--disable-component-update",
        "--hide-scrollbars",
        "--allow-file-access-from-files",
    ];
    let options = LaunchOptions::default_builder()
        .path(Some(chromium()))
        // Chromium's sandbox refuses to work for root.
        .sandbox(!is_root())
        .user_data_dir(Some(profile.to_owned()))
        .idle_browser_timeout(Duration::from_secs(120))
        .args(args.iter().map(OsStr::new).collect())
        .build()
        .expect("options are complete");
    Browser::new(options).expect("Chromium starts")
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn screenshots() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    let folder = target.join("report-screenshots");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// A page in a tab, with what it complained about and what it asked for.
struct Open {
    tab: Arc<Tab>,
    complaints: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Open {
    fn new(browser: &Browser, file: &Path) -> Self {
        let tab = browser.new_tab().expect("a tab opens");
        tab.set_default_timeout(Duration::from_secs(60));
        let (complaints, requests) =
            (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (to_complaints, to_requests) = (complaints.clone(), requests.clone());
        tab.add_event_listener(Arc::new(move |event: &Event| match event {
            Event::LogEntryAdded(e) => {
                to_complaints.lock().expect("not poisoned").push(e.params.entry.text.clone());
            }
            Event::RuntimeExceptionThrown(e) => {
                let details = format!("{:?}", e.params.exception_details);
                to_complaints.lock().expect("not poisoned").push(details);
            }
            Event::RuntimeConsoleAPICalled(e) => {
                let call = format!("{:?} {:?}", e.params.Type, e.params.args);
                to_complaints.lock().expect("not poisoned").push(call);
            }
            Event::NetworkRequestWillBeSent(e) => {
                to_requests.lock().expect("not poisoned").push(e.params.request.url.clone());
            }
            _ => {}
        }))
        .expect("events can be heard");
        tab.enable_log().expect("log");
        tab.enable_runtime().expect("runtime");
        tab.call_method(Network::Enable {
            max_total_buffer_size: None,
            max_resource_buffer_size: None,
            max_post_data_size: None,
            report_direct_socket_traffic: None,
            enable_durable_messages: None,
        })
        .expect("network");
        let open = Open { tab, complaints, requests };
        open.look(1600, "light");
        open.tab.navigate_to(&format!("file://{}", file.display())).expect("the page loads");
        open.tab.wait_until_navigated().expect("the page has loaded");
        open.wait_for("document.documentElement.dataset.charts === 'drawn'");
        open
    }

    /// Sets the width of the window and the system's theme.
    fn look(&self, width: u32, theme: &str) {
        self.tab
            .call_method(Emulation::SetDeviceMetricsOverride {
                width,
                height: 900,
                device_scale_factor: 1.0,
                mobile: false,
                scale: None,
                screen_width: None,
                screen_height: None,
                position_x: None,
                position_y: None,
                dont_set_visible_size: None,
                screen_orientation: None,
                viewport: None,
                display_feature: None,
                device_posture: None,
            })
            .expect("the window can be sized");
        let feature = Emulation::MediaFeature {
            name: "prefers-color-scheme".to_owned(),
            value: theme.to_owned(),
        };
        self.tab
            .call_method(Emulation::SetEmulatedMedia { media: None, features: Some(vec![feature]) })
            .expect("the theme can be set");
    }

    fn eval(&self, expression: &str) -> serde_json::Value {
        // The browser hands back objects by reference, but text by value.
        let text = format!("JSON.stringify(({expression}) ?? null)");
        let result = self.tab.evaluate(&text, false).expect(expression).value;
        let text = result.as_ref().and_then(|value| value.as_str()).expect("JSON is text");
        serde_json::from_str(text).expect("JSON")
    }

    fn number(&self, expression: &str) -> f64 {
        self.eval(expression).as_f64().unwrap_or_else(|| panic!("{expression} is not a number"))
    }

    /// Waits until an expression is true: resizing and redrawing take a while.
    fn wait_for(&self, expression: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.eval(expression) != serde_json::Value::Bool(true) {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn screenshot(&self, name: &str) {
        let png = self
            .tab
            .call_method(Page::CaptureScreenshot {
                format: Some(Page::CaptureScreenshotFormatOption::Png),
                quality: None,
                clip: None,
                from_surface: Some(true),
                capture_beyond_viewport: Some(true),
                optimize_for_speed: None,
            })
            .expect("a screenshot");
        use base64::Engine as _;
        let png = base64::engine::general_purpose::STANDARD.decode(png.data).expect("base64");
        std::fs::write(screenshots().join(name), png).expect("the screenshot can be written");
    }

    fn silent(&self, file: &Path) {
        let complaints = self.complaints.lock().expect("not poisoned");
        assert!(complaints.is_empty(), "the page complained: {complaints:#?}");
        let requests = self.requests.lock().expect("not poisoned");
        let own = format!("file://{}", file.display());
        let outside =
            |url: &&String| **url != own && !url.starts_with("data:") && !url.starts_with("blob:");
        let outside: Vec<_> = requests.iter().filter(outside).collect();
        assert!(outside.is_empty(), "the page asked for {outside:?}");
    }
}

/// Contrast of an element's text to the page, by WCAG's formula.
const CONTRAST: &str = "(selector) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector(selector);
  const style = getComputedStyle(element);
  const text = light(element instanceof SVGElement ? style.fill : style.color);
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
}";

#[test]
fn the_page_works_in_a_browser() {
    let folder = tempfile::tempdir().expect("a folder");
    let browser = browser(&folder.path().join("profile"));
    let hostile = "<script>alert(1)</script>";
    let pages = [
        ("one", vec![crate::common::full("host-a", 1.0)]),
        ("two", vec![crate::common::full("host-a", 1.0), crate::common::full(hostile, 1.6)]),
    ];
    for (name, results) in pages {
        let file = folder.path().join(format!("{name}.html"));
        std::fs::write(&file, kumiki_report::html(&results)).expect("the page can be written");
        let page = Open::new(&browser, &file);
        charts_are_drawn(&page);
        the_papers_columns_need_no_scrolling(&page);
        it_fits_and_is_readable(&page, name);
        a_legend_entry_hides_its_line(&page);
        axes_have_binary_ticks(&page);
        it_prints(&page, name);
        page.silent(&file);
        page.tab.close(false).expect("the tab closes");
    }
}

fn charts_are_drawn(page: &Open) {
    let charts = page.number("document.querySelectorAll('.chart').length");
    assert!(charts >= 10.0, "{charts} charts");
    let empty = page.eval(
        "[...document.querySelectorAll('.chart')].filter((c) => !c.data?.length ||
          !c.querySelector('.scatterlayer .trace .point')).map((c) => c.parentElement.id)",
    );
    assert_eq!(empty, serde_json::json!([]), "charts without a line");
    for id in ["fork-data", "fork-bss", "fork-stack", "exec-data", "exec-bss", "exec-args"] {
        page.wait_for(&format!("document.getElementById('{id}') !== null"));
    }
}

fn the_papers_columns_need_no_scrolling(page: &Open) {
    let wide = "[...document.querySelectorAll('.scroll')].filter((s) =>
      s.querySelector('.compact') && s.scrollWidth > s.clientWidth).map((s) => s.ariaLabel)";
    for width in [1000, 1240, 1280, 1600] {
        page.look(width, "light");
        page.wait_for(&format!("innerWidth === {width}"));
        assert_eq!(page.eval(wide), serde_json::json!([]), "beyond {width} px");
    }
}

fn it_fits_and_is_readable(page: &Open, name: &str) {
    let mut grounds = Vec::new();
    for theme in ["light", "dark"] {
        for width in [400, 1600] {
            page.look(width, theme);
            page.wait_for(&format!(
                "innerWidth === {width} && [...document.querySelectorAll('.chart')].every((c) =>
                  Math.abs(c._fullLayout.width - c.clientWidth) < 2)"
            ));
            let wide = page.number("document.documentElement.scrollWidth");
            assert!(wide <= f64::from(width), "{wide} px wide in a window of {width} px");
            for text in [
                "h1",
                ".verdict li",
                ".verdict .ci",
                ".rows .n",
                "thead th",
                "#fork-data .xtick text",
                "#fork-data button.line",
                "#fork-data .ytitle, #fork-data .xtitle",
                ".compact .quiet",
                "#shadow-idle .xtick text",
            ] {
                let contrast = page.number(&format!("({CONTRAST})({text:?})"));
                assert!(contrast >= 4.5, "{text} in {theme}: contrast {contrast:.2}");
            }
            page.screenshot(&format!("{name}-{width}-{theme}.png"));
        }
        grounds.push(page.eval("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1], "light and dark are the same");
    page.look(1600, "light");
    page.eval("document.getElementById('theme').click()"); // auto to light
    page.eval("document.getElementById('theme').click()"); // light to dark
    assert_eq!(page.eval("getComputedStyle(document.body).backgroundColor"), grounds[1]);
    page.eval("document.getElementById('theme').click()"); // dark to auto
    assert_eq!(page.eval("getComputedStyle(document.body).backgroundColor"), grounds[0]);
}

fn a_legend_entry_hides_its_line(page: &Open) {
    let lines = "document.querySelectorAll('#fork-data .scatterlayer .trace').length";
    let before = page.number(lines);
    page.eval("document.querySelector('#fork-data button.line').click()");
    page.wait_for(&format!("{lines} === {}", before - 1.0));
    page.eval("document.querySelector('#fork-data button.line').click()");
    page.wait_for(&format!("{lines} === {before}"));
}

fn axes_have_binary_ticks(page: &Open) {
    let ticks = page
        .eval("[...document.querySelectorAll('#fork-data .xtick text')].map((t) => t.textContent)");
    let ticks: Vec<String> = serde_json::from_value(ticks).expect("texts");
    assert!(ticks.len() >= 3, "{ticks:?}");
    assert!(ticks.iter().all(|t| t == "0" || t.ends_with("iB")), "{ticks:?}");
    page.eval("document.querySelector('#fork-data .tools button').click()");
    page.wait_for("document.querySelector('#fork-data .chart')._fullLayout.xaxis.type === 'log'");
}

fn it_prints(page: &Open, name: &str) {
    page.look(1600, "dark");
    let options =
        PrintToPdfOptions { print_background: Some(true), ..PrintToPdfOptions::default() };
    let pdf = page.tab.print_to_pdf(Some(options)).expect("the page prints");
    assert!(pdf.starts_with(b"%PDF"), "not a PDF");
    std::fs::write(screenshots().join(format!("{name}.pdf")), pdf).expect("can be written");
    // Printing leaves the charts as they were.
    page.wait_for(
        "[...document.querySelectorAll('.chart')].every((c) =>
          Math.abs(c._fullLayout.width - c.clientWidth) < 2)",
    );
}
