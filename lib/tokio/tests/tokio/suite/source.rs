//! A source of tokio's tests, in its items.

/// One test of a source.
pub(super) struct Test {
    pub(super) name: String,
    pub(super) is_of_windows: bool,
    text: String,
}

/// A source without its conditions for the whole file, and its tests apart.
pub(super) struct Source {
    pub(super) tests: Vec<Test>,
    rest: String,
}

/// In place of tokio's support, which asks the kernel for an io_uring: none is used here, so that none
/// of the tests that are held has a question but whether a test for kernels with one may run.
const SUPPORT: &str = "#[allow(dead_code)]\nmod support {\n    pub(crate) mod io_uring {\n        \
                       pub fn io_uring_supported() -> bool {\n            true\n        }\n        \
                       pub fn uring_fs_op_in_use(_: u8) -> bool {\n            false\n        }\n        \
                       pub fn uring_op_supported(_: u8) -> bool {\n            false\n        }\n    }\n}\n";

impl Source {
    /// As rustfmt has it: what begins at the left ends with a line that does so, too.
    pub(super) fn of(text: &str) -> Source {
        let (mut tests, mut rest) = (Vec::new(), String::new());
        // Attributes and comments of the item that comes, and whether it is a test.
        let (mut before, mut is_test) = (String::new(), false);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with("#![") {
                until(&mut lines, line, |line| {
                    line.trim_end().ends_with(']') || line.contains(")] //")
                });
                continue;
            }
            if line.starts_with("mod support") {
                rest += SUPPORT;
                until(&mut lines, line, |line| line == "}" || line == "mod support;");
                continue;
            }
            if line.starts_with("#[") {
                is_test |= line.starts_with("#[tokio::test") || line == "#[test]";
                before +=
                    &until(&mut lines, line, |line| line.ends_with(']') || line.contains(")] //"));
                continue;
            }
            if line.starts_with("//") {
                before += &format!("{line}\n");
                continue;
            }
            let attributes = std::mem::take(&mut before);
            if !std::mem::take(&mut is_test) {
                rest += &format!("{attributes}{line}\n");
                continue;
            }
            let (_, name) = line.split_once("fn ").expect("a test is a function");
            let name = name.split('(').next().unwrap().to_owned();
            let is_of_windows = attributes.contains("#[cfg(windows)]");
            let text = attributes + &until(&mut lines, line, |line| line == "}");
            tests.push(Test { name, is_of_windows, text });
        }
        Source { tests, rest }
    }

    /// With the tests that are still there, and other names.
    pub(super) fn text(&self) -> String {
        let tests: String = self.tests.iter().map(|test| format!("\n{}", test.text)).collect();
        let all = format!("#![allow(unused, clippy::all)]\n{}{tests}", self.rest);
        all.replace("tokio::fs", "kumiki_names::fs")
    }
}

/// This line and those after it, up to one that ends an item.
fn until<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    first: &str,
    is_end: impl Fn(&str) -> bool,
) -> String {
    let mut all = format!("{first}\n");
    let mut line = first;
    while !is_end(line) {
        line = lines.next().expect("an item that ends");
        all += &format!("{line}\n");
    }
    all
}
