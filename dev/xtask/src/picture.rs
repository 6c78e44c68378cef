//! `cargo xtask picture`: the README's picture of the page, made again; `--many`: that of teams.

mod many;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::debian;
use crate::run::{cargo, program, root, run, target_folder};

/// Picture that the README shows.
const PICTURE: &str = "docs/report.png";

/// Pixels: the top of the page, as wide as a large window.
const SIZE: (u32, u32) = (1600, 800);

/// Draws teams on many cpus.
pub(crate) fn many() -> Result<ExitCode> {
    many::picture()
}

/// Draws the top of `page`, or of a reference's.
pub(crate) fn picture(page: Option<&Path>) -> Result<ExitCode> {
    debian::install("page")?;
    let page = match page {
        Some(page) => page.to_owned(),
        None => of_reference()?,
    };
    // Of a page that is not there the browser draws its own, and is content.
    let page = fs::canonicalize(&page).with_context(|| format!("the page {}", page.display()))?;
    let picture = root().join(PICTURE);
    let (width, height) = SIZE;
    let browser = env::var("KUMIKI_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
    let mut draw = program(&browser, ["--headless", "--no-sandbox", "--hide-scrollbars"]);
    draw.arg(format!("--user-data-dir={}", target_folder()?.join("picture").display()))
        .arg(format!("--window-size={width},{height}"))
        // Scripts that draw charts get so many milliseconds.
        .arg("--virtual-time-budget=10000")
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()));
    run(&mut draw)?;
    let drawn = fs::read(&picture).with_context(|| format!("reading {}", picture.display()))?;
    ensure!(
        size(&drawn) == Some(SIZE),
        "{PICTURE} is {:?} pixels, not {SIZE:?}: what has the browser drawn?",
        size(&drawn)
    );
    println!("{PICTURE}: {width} × {height}, {} KiB, of {}", drawn.len() >> 10, page.display());
    Ok(ExitCode::SUCCESS)
}

/// The page of the first result that is shipped as a reference: of a quiet machine, which
/// the one that draws need not be.
fn of_reference() -> Result<PathBuf> {
    let folder = root().join("measure/report/references");
    let files = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let name = names.filter_map(|file| file.strip_suffix(".json.xz").map(str::to_owned)).min();
    let name = name.with_context(|| format!("{} has no reference", folder.display()))?;
    let page = target_folder()?.join("picture.html");
    let mut report = cargo("run --release --locked -- report --output");
    run(report.arg(&page).arg(format!("@{name}")))?;
    Ok(page)
}

/// Width and height of a PNG.
fn size(png: &[u8]) -> Option<(u32, u32)> {
    let header = png.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")?;
    let (width, rest) = header.split_first_chunk()?;
    let (height, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*height)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_picture_and_it_has_its_size() {
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        assert!(readme.contains(&format!("]({PICTURE})")), "README.md lost {PICTURE}");
        assert_eq!(size(&fs::read(root().join(PICTURE)).unwrap()), Some(SIZE));
    }

    #[test]
    fn what_is_no_png_has_no_size() {
        assert_eq!(size(b"<html>"), None);
        assert_eq!(size(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"), None);
    }
}
