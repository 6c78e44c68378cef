//! The page in a real browser: Chromium, headless.
//!
//! `KUMIKI_CHROMIUM` names another browser's program. Screenshots and the
//! printed page are left in `target/report-screenshots` for a person to look at.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headless_chrome::protocol::cdp::types::Event;
use headless_chrome::protocol::cdp::{Emulation, Input, Network, Page};
use headless_chrome::types::PrintToPdfOptions;
use headless_chrome::{Browser, LaunchOptions, Tab};

use Input::DispatchMouseEventTypeOption as Mouse;

use crate::common::full;

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

    /// The whole page.
    fn screenshot(&self, name: &str) {
        self.picture(name, true);
    }

    /// What the window shows.
    fn screenshot_of_window(&self, name: &str) {
        self.picture(name, false);
    }

    fn picture(&self, name: &str, whole: bool) {
        let png = self
            .tab
            .call_method(Page::CaptureScreenshot {
                format: Some(Page::CaptureScreenshotFormatOption::Png),
                quality: None,
                clip: None,
                from_surface: Some(true),
                capture_beyond_viewport: Some(whole),
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
    let reference = &kumiki_report::reference::all()[0];
    let pages = [
        ("reference", vec![reference.results().clone()]),
        ("one", vec![full("host-a", 1.0)]),
        ("two", vec![full("host-a", 1.0), full(hostile, 1.6)]),
    ];
    for (name, results) in pages {
        let file = folder.path().join(format!("{name}.html"));
        let html = kumiki_report::html(&results);
        std::fs::write(&file, &html).expect("the page can be written");
        std::fs::write(screenshots().join(format!("{name}.html")), html).expect("a copy can");
        let page = Open::new(&browser, &file);
        charts_are_drawn(&page);
        it_fits_and_is_readable(&page, name);
        no_column_is_cut(&page, name);
        a_point_says_its_value(&page);
        a_drag_zooms_and_two_clicks_show_all(&page, "fork-data");
        a_drag_zooms_and_two_clicks_show_all(&page, "round-trips");
        a_legend_entry_hides_its_line(&page);
        it_prints(&page, name);
        page.silent(&file);
        page.tab.close(false).expect("the tab closes");
    }
}

fn charts_are_drawn(page: &Open) {
    let charts = page.number("document.querySelectorAll('.chart').length");
    assert!(charts >= 10.0, "{charts} charts");
    let empty = page.eval(
        "[...document.querySelectorAll('.chart')].filter((c) => !c.querySelector('.line .mark') ||
          c.querySelectorAll('.mesh text').length < 4).map((c) => c.parentElement.id)",
    );
    assert_eq!(empty, serde_json::json!([]), "charts without a point or ticks");
    for id in ["fork-data", "fork-bss", "fork-stack", "exec-data", "exec-bss", "exec-args"] {
        page.wait_for(&format!("document.getElementById('{id}') !== null"));
    }
    // Labels lie within their chart and not over each other.
    let crowded = page.eval(
        "[...document.querySelectorAll('.plot')].flatMap((plot) => {
          const whole = plot.getBoundingClientRect();
          const boxes = [...plot.querySelectorAll('.mesh text')].map((t) => t.getBoundingClientRect());
          const out = boxes.some((b) => b.left < whole.left - 1 || b.right > whole.right + 1 || b.bottom > whole.bottom + 1);
          const over = boxes.some((a, i) => boxes.some((b, j) => i < j &&
            a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom));
          return out || over ? [`${plot.ariaLabel}: ${out ? 'outside' : 'over each other'}`] : [];
        })",
    );
    assert_eq!(crowded, serde_json::json!([]));
}

/// Texts of every kind, by selectors.
const TEXTS: [&str; 10] = [
    "h1",
    ".answer li",
    ".answer .ci",
    ".card p, .headline th",
    ".rows .n",
    "thead th",
    "#fork-data .label",
    "#fork-data button.key",
    "figcaption",
    ".compact .quiet",
];

/// Texts of charts that reach beyond their drawing, which cuts them off.
const CUT_LABELS: &str = "[...document.querySelectorAll('svg.plot')].flatMap((plot) => {
    const all = plot.getBoundingClientRect();
    return [...plot.querySelectorAll('text')].filter((text) => {
        const own = text.getBoundingClientRect();
        return own.left < all.left - 1 || own.right > all.right + 1;
    }).map((text) => text.textContent);
})";

fn it_fits_and_is_readable(page: &Open, name: &str) {
    let mut grounds = Vec::new();
    for theme in ["light", "dark"] {
        for width in [400, 800, 1600] {
            page.look(width, theme);
            page.wait_for(&format!("innerWidth === {width}"));
            let wide = page.number("document.scrollingElement.scrollWidth");
            assert!(wide <= f64::from(width), "{wide} px wide in a window of {width} px");
            let high = page.number("document.scrollingElement.scrollHeight");
            assert!(width < 1600 || high <= 12_000.0, "{name}: {high} px high at {width} px");
            assert_eq!(page.eval(CUT_LABELS), serde_json::json!([]), "{name} at {width} px");
            if theme == "light" || width == 1600 {
                page.screenshot(&format!("{name}-{width}-{theme}.png"));
            }
        }
        // One question to the browser takes as long as a hundred texts.
        let contrasts = page.eval(&format!("{TEXTS:?}.map((text) => [text, ({CONTRAST})(text)])"));
        let contrasts: Vec<(String, f64)> = serde_json::from_value(contrasts).expect("numbers");
        for (text, contrast) in contrasts {
            assert!(contrast >= 4.5, "{text} in {theme}: contrast {contrast:.2}");
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

/// With every table open, nothing lies beyond the window or needs scrolling.
fn no_column_is_cut(page: &Open, name: &str) {
    page.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
    for width in [400, 800, 1000, 1240, 1600] {
        page.look(width, "light");
        page.wait_for(&format!("innerWidth === {width}"));
        let cut = page.eval(
            "[...document.querySelectorAll('.scroll')].filter((s) => s.scrollWidth > s.clientWidth + 1)
              .map((s) => `${s.ariaLabel}: ${s.scrollWidth} in ${s.clientWidth}`)",
        );
        assert_eq!(cut, serde_json::json!([]), "{name} at {width} px");
        let wide = page.number("document.scrollingElement.scrollWidth");
        assert!(wide <= f64::from(width), "{wide} px wide in a window of {width} px");
    }
    page.eval("document.querySelectorAll('details').forEach((d) => { d.open = false; })");
    page.look(1600, "light");
    page.wait_for("innerWidth === 1600");
}

impl Open {
    /// Moves the mouse, with its left button as said.
    fn mouse(
        &self,
        kind: Input::DispatchMouseEventTypeOption,
        [x, y]: [f64; 2],
        down: bool,
        clicks: u32,
    ) {
        self.tab
            .call_method(Input::DispatchMouseEvent {
                Type: kind,
                x,
                y,
                modifiers: None,
                timestamp: None,
                button: down.then_some(Input::MouseButton::Left),
                buttons: Some(u32::from(down)),
                click_count: Some(clicks),
                force: None,
                tangential_pressure: None,
                tilt_x: None,
                tilt_y: None,
                twist: None,
                delta_x: None,
                delta_y: None,
                pointer_Type: None,
            })
            .expect("the mouse moves");
    }

    /// The middle of an element, in the window.
    fn middle(&self, selector: &str) -> [f64; 2] {
        self.eval(&format!("document.querySelector({selector:?}).scrollIntoView({{ block: 'center', behavior: 'instant' }})"));
        let at = self.eval(&format!(
            "(({{ left, top, width, height }}) => [left + width / 2, top + height / 2])(
              document.querySelector({selector:?}).getBoundingClientRect())"
        ));
        serde_json::from_value(at).expect("a place")
    }
}

fn a_point_says_its_value(page: &Open) {
    let at = page.middle("#fork-data .p:last-child .mark");
    page.mouse(Mouse::MouseMoved, at, false, 0);
    page.wait_for("document.querySelector('#fork-data .tip').hidden === false");
    let text = page.eval("document.querySelector('#fork-data .tip').textContent");
    let text = text.as_str().expect("a text").replace('\u{202f}', " ");
    assert!(text.contains("95 % CI [") && text.contains("MiB: "), "{text}");
    page.screenshot_of_window("tip.png");
    page.mouse(Mouse::MouseMoved, [2.0, 2.0], false, 0);
    page.wait_for("document.querySelector('#fork-data .tip').hidden === true");
}

fn a_drag_zooms_and_two_clicks_show_all(page: &Open, id: &str) {
    let texts = format!(
        "[...document.querySelectorAll('#{id} .mesh text')].map((t) => [t.textContent, t.getAttribute('text-anchor')])"
    );
    let places = format!(
        "[...document.querySelectorAll('#{id} .p')].map((p) => p.getAttribute('transform'))"
    );
    let zoomed = format!("document.querySelector('#{id} .chart').classList.contains('zoomed')");
    let (before, placed) = (page.eval(&texts), page.eval(&places));
    let [x, y] = page.middle(&format!("#{id} .hit"));
    page.mouse(Mouse::MouseMoved, [x - 120.0, y - 60.0], false, 0);
    page.mouse(Mouse::MousePressed, [x - 120.0, y - 60.0], true, 1);
    page.mouse(Mouse::MouseMoved, [x, y], true, 0);
    page.mouse(Mouse::MouseMoved, [x + 40.0, y + 70.0], true, 0);
    page.mouse(Mouse::MouseReleased, [x + 40.0, y + 70.0], true, 1);
    page.wait_for(&zoomed);
    let after = page.eval(&texts);
    assert_ne!(after, before, "other ticks");
    assert_ne!(page.eval(&places), placed, "points moved");
    page.screenshot_of_window(&format!("zoomed-{id}.png"));
    let named = |texts: &serde_json::Value| -> Vec<String> {
        let all: Vec<(String, String)> = serde_json::from_value(texts.clone()).expect("texts");
        all.into_iter().filter(|(_, anchor)| anchor == "end").map(|(text, _)| text).collect()
    };
    if id == "round-trips" {
        assert_eq!(named(&after), named(&before), "ways keep their names");
    } else {
        let sizes: Vec<(String, String)> = serde_json::from_value(after).expect("texts");
        let sizes = sizes.iter().filter(|(text, _)| text.ends_with("iB")).count();
        assert!(sizes >= 3, "sizes stay binary");
    }
    for clicks in [1, 2] {
        page.mouse(Mouse::MousePressed, [x, y], true, clicks);
        page.mouse(Mouse::MouseReleased, [x, y], true, clicks);
    }
    page.wait_for(&format!("!{zoomed}"));
    assert_eq!((page.eval(&texts), page.eval(&places)), (before, placed));
}

fn a_legend_entry_hides_its_line(page: &Open) {
    let shown = "[...document.querySelectorAll('#fork-data .line')].filter((l) => getComputedStyle(l).display !== 'none').length";
    let before = page.number(shown);
    page.eval("document.querySelector('#fork-data button.key').click()");
    page.wait_for(&format!("{shown} === {}", before - 1.0));
    page.eval("document.querySelector('#fork-data button.key').click()");
    page.wait_for(&format!("{shown} === {before}"));
}

fn it_prints(page: &Open, name: &str) {
    page.look(1600, "dark");
    let options =
        PrintToPdfOptions { print_background: Some(true), ..PrintToPdfOptions::default() };
    let pdf = page.tab.print_to_pdf(Some(options)).expect("the page prints");
    assert!(pdf.starts_with(b"%PDF"), "not a PDF");
    let pages = String::from_utf8_lossy(&pdf).matches("/Type /Page\n").count();
    std::fs::write(screenshots().join(format!("{name}.pdf")), pdf).expect("can be written");
    assert!((2..=12).contains(&pages), "{name}: {pages} printed pages");
}
