//! `cargo xtask docs`: the documents as a site with search, by mdBook.
//!
//! Its source folder is made anew each time, with documents at the places that they have in the
//! clone: a link between two leads to the same one on the site. The README is the first page.
//! Headers and code that documents link to become pages of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use pulldown_cmark::{Event, Parser, Tag};

use crate::run::{program, read, root, run, target_folder};
use crate::tool;

/// Chapters: headings of the list, and documents below them.
const CHAPTERS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Guides",
        &[
            ("Questions and programs to copy", "docs/questions.md"),
            ("Installing", "docs/installing.md"),
            ("Is it slower?", "docs/is-it-slower.md"),
            ("Nodes on hardware", "docs/nodes-on-hardware.md"),
            ("Many cpus", "docs/many-cpus.md"),
            ("Security", "SECURITY.md"),
        ],
    ),
    (
        "Parts",
        &[
            ("measure", "docs/design/measure.md"),
            ("shadow", "docs/design/shadow.md"),
            ("wait", "docs/design/wait.md"),
            ("A machine of lines", "docs/design/lines.md"),
            ("copy", "docs/design/copy.md"),
            ("parasc", "docs/design/parasc.md"),
            ("parasc in the kernel", "docs/design/parasc-kernel.md"),
            ("A server's turn by one entry", "docs/design/parasc-entry.md"),
            ("resource", "docs/design/resource.md"),
            ("slot", "docs/design/slot.md"),
            ("Calls between cores", "docs/design/rpc.md"),
            ("places", "docs/design/places.md"),
            ("spawn", "docs/design/spawn.md"),
            ("Servers", "docs/design/servers.md"),
            ("HTTP", "docs/design/http.md"),
            ("kv", "docs/design/kv.md"),
            ("lab", "docs/design/lab.md"),
            ("node", "docs/design/node.md"),
            ("Devices of nodes", "docs/design/node-devices.md"),
            ("Services of nodes", "docs/design/node-services.md"),
            ("Snapshots of nodes", "docs/design/node-snapshots.md"),
            ("Nodes whose cpus come and go", "docs/design/node-elastic.md"),
            ("PCI functions of nodes", "docs/design/node-pci.md"),
            ("A node that outlives its host", "docs/design/node-watchman.md"),
        ],
    ),
    (
        "Reference",
        &[
            ("Python", "docs/python.md"),
            ("Python programs to copy", "docs/python-programs.md"),
            ("C: shadow.h", "lib/capi/include/kumiki/shadow.h"),
            ("C: parasc.h", "lib/capi/include/kumiki/parasc.h"),
            ("C: files.h", "lib/capi/include/kumiki/files.h"),
            ("C: resource.h", "lib/capi/include/kumiki/resource.h"),
            ("C: spawn.h", "lib/capi/include/kumiki/spawn.h"),
            ("C: error.h", "lib/capi/include/kumiki/error.h"),
            ("Glossary", "docs/glossary.md"),
        ],
    ),
    (
        "Results",
        &[
            ("Zen 4, two cpus", "docs/results/2026-11-24-epyc-zen4-kvm-2cpu.md"),
            ("A virtual machine, two cpus", "docs/results/2026-11-21-kvm-2cpu.md"),
            ("parasc under stress", "docs/results/2026-11-23-parasc-stress.md"),
            ("parasc, several runs", "docs/results/2026-11-24-parasc-runs.md"),
            ("What was tried", "docs/design/tried.md"),
        ],
    ),
    ("Working on it", &[("Contributing", "CONTRIBUTING.md"), ("Changelog", "CHANGELOG.md")]),
];
/// The first page.
const FIRST: &str = "README.md";

/// Builds the site in `target/site`.
pub fn docs() -> Result<ExitCode> {
    tool::command("mdbook", "mdbook --no-default-features --features search")?;
    let target = target_folder()?;
    let (book, site) = (target.join("book"), target.join("site"));
    for folder in [&book, &site] {
        let _ = fs::remove_dir_all(folder);
    }
    let pages = write_book(&book)?;
    run(program("mdbook", ["build", "--dest-dir"]).arg(&site).arg(&book))?;
    let links = check_site(&site)?;
    println!("{} pages, {links} links within them, in {}", pages, site.display());
    Ok(ExitCode::SUCCESS)
}

/// The source folder of the book; how many pages it has.
fn write_book(book: &Path) -> Result<usize> {
    let mut pages: Vec<&str> = vec![FIRST];
    pages.extend(CHAPTERS.iter().flat_map(|(_, pages)| pages.iter().map(|(_, file)| *file)));
    let unlisted = unlisted(&pages)?;
    pages.extend(unlisted.iter().map(String::as_str));
    let src = book.join("src");
    let mut linked = BTreeSet::new();
    for page in &pages {
        let text =
            fs::read_to_string(root().join(page)).with_context(|| format!("reading {page}"))?;
        match page.ends_with(".md") {
            true => {
                linked.extend(links(page, &text));
                write(&src.join(page), &text)?;
            }
            // A link to it goes to the page, whose name is its own with an end more.
            false => write(&src.join(format!("{page}.md")), &as_page(page, &text))?,
        }
    }
    // What is linked to and no page goes along as it is.
    for file in linked.iter().filter(|file| !pages.contains(&file.as_str())) {
        let from = root().join(file);
        if from.is_file() {
            let bytes = fs::read(&from).with_context(|| format!("reading {file}"))?;
            let to = src.join(file);
            fs::create_dir_all(to.parent().expect("it is in the book"))?;
            fs::write(&to, bytes).with_context(|| format!("writing {}", to.display()))?;
        }
    }
    for header in pages.iter().filter(|page| !page.ends_with(".md")) {
        fs::copy(root().join(header), src.join(header)).with_context(|| header.to_string())?;
    }
    write(&src.join("SUMMARY.md"), &summary(&unlisted))?;
    write(
        &book.join("book.toml"),
        "[book]\ntitle = \"Kumiki\"\nlanguage = \"en\"\n\n[output.html]\n\
         [output.html.search]\nenable = true\n",
    )?;
    Ok(pages.len())
}

/// Documents of the clone that no chapter names: they come last.
fn unlisted(pages: &[&str]) -> Result<Vec<String>> {
    let list = read(&mut program("git", ["ls-files", "docs/*.md"]))?;
    Ok(list.lines().filter(|file| !pages.contains(file)).map(str::to_owned).collect())
}

fn summary(unlisted: &[String]) -> String {
    let mut text = format!("# Summary\n\n[Start]({FIRST})\n");
    for (heading, pages) in CHAPTERS {
        text += &format!("\n# {heading}\n\n");
        for (title, file) in pages {
            let end = if file.ends_with(".md") { "" } else { ".md" };
            text += &format!("- [{title}]({file}{end})\n");
        }
    }
    if !unlisted.is_empty() {
        text += "\n# Further\n\n";
    }
    for file in unlisted {
        let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".md");
        text += &format!("- [{name}]({file})\n");
    }
    text
}

/// A header as a page.
fn as_page(file: &str, text: &str) -> String {
    let name = file.rsplit("include/").next().unwrap_or(file);
    format!("# `<{name}>`\n\n```c\n{text}```\n")
}

/// Files of the clone that a document links to.
fn links(page: &str, markdown: &str) -> BTreeSet<String> {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let targets = Parser::new(markdown).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url),
        _ => None,
    });
    let within = targets.filter_map(|url| {
        let path = url.split('#').next().unwrap_or_default().to_owned();
        (!path.is_empty() && !path.contains(':')).then(|| normal(&folder.join(path)))
    });
    within.collect()
}

/// A path without `..`, as text.
fn normal(path: &Path) -> String {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Follows every link of every page; how many there are.
fn check_site(site: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    html(site, &mut |path| {
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        pages.insert(path, text);
        Ok(())
    })?;
    let mut faults = BTreeSet::new();
    let mut count = 0;
    for (page, text) in &pages {
        // It is for any address, so its links begin at the site's root.
        if page.ends_with("404.html") {
            continue;
        }
        for link in attribute(text, "href").chain(attribute(text, "src")) {
            if link.contains(':') || link.is_empty() || link.starts_with("//") {
                continue;
            }
            count += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = path.split('?').next().unwrap_or_default();
            let there = match path {
                "" => page.clone(),
                path => site.join(normal(
                    &page.strip_prefix(site).unwrap_or(page).parent().unwrap_or(site).join(path),
                )),
            };
            let there = if there.is_dir() { there.join("index.html") } else { there };
            let anchored = pages.get(&there).is_none_or(|text| has_anchor(text, anchor));
            if !there.exists() || !anchored {
                let page = page.strip_prefix(site).unwrap_or(page).display();
                faults.insert(format!("{page}: {link}"));
            }
        }
    }
    if !faults.is_empty() {
        let faults: Vec<_> = faults.into_iter().collect();
        bail!("{} links lead nowhere:\n  {}", faults.len(), faults.join("\n  "));
    }
    Ok(count)
}

fn html(folder: &Path, work: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            html(&path, work)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            work(path)?;
        }
    }
    Ok(())
}

/// Values of an attribute in mdBook's pages, which quote all.
fn attribute<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.find(&begin)? + begin.len();
        let (value, after) = rest[at..].split_once('"')?;
        rest = after;
        Some(value)
    })
}

fn has_anchor(text: &str, anchor: &str) -> bool {
    anchor.is_empty() || text.contains(&format!("id=\"{anchor}\""))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("it is in the book")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_a_chapter_and_every_chapter_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let pages = write_book(folder.path()).unwrap();
        assert!(pages > 30, "{pages}");
        let summary = fs::read_to_string(folder.path().join("src/SUMMARY.md")).unwrap();
        for file in attribute(&summary.replace("](", " href=\"").replace(')', "\""), "href") {
            assert!(folder.path().join("src").join(file).is_file(), "{file}");
        }
        assert!(folder.path().join("src/docs/report.png").is_file());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let site = tempfile::tempdir().unwrap();
        let page = |name: &str, text: &str| write(&site.path().join(name), text).unwrap();
        page("b/c.html", "<h1 id=\"here\">C</h1> <a href=\"../index.html#top\">A</a>");
        page("index.html", "<p id=\"top\"><a href=\"b/c.html#here\">C</a> <img src=\"x.png\">");
        page("x.png", "");
        assert_eq!(check_site(site.path()).unwrap(), 3);
        page("index.html", "<p id=\"top\"><a href=\"b/c.html#gone\">C</a> <a href=\"no.html\">");
        let error = check_site(site.path()).unwrap_err().to_string();
        assert!(error.contains("index.html: b/c.html#gone"), "{error}");
        assert!(error.contains("index.html: no.html"), "{error}");
    }

    #[test]
    fn links_are_meant_from_their_document_s_folder() {
        let text = "[a](copy.md#measured) [b](../../README.md) ![c](../x.png) [d](https://e)";
        let links: Vec<_> = links("docs/design/wait.md", text).into_iter().collect();
        assert_eq!(links, ["README.md", "docs/design/copy.md", "docs/x.png"]);
    }
}
