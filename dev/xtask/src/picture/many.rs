//! `cargo xtask picture --many`: teams of 2 to 256 as the machine of lines predicts them, and as they were measured.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::run::root;

/// Picture that the README shows.
const PICTURE: &str = "docs/many-cpus.svg";
/// Written by `cargo xtask sim --predict`.
const PREDICTED: &str = "measure/many/src/predictions.txt";
/// In the same form, of real machines; `#` begins a line that says which.
const SEEN: &str = "docs/many-cpus-seen.txt";

/// Protocols that are drawn, with their words and colours.
const DRAWN: [(&str, &str, &str); 2] =
    [("broadcast", "fork and join", "#0072b2"), ("barrier", "with a barrier", "#d55e00")];

/// Pixels of the picture, and of the place for the curves: left, top, right, bottom.
const SIZE: (f64, f64) = (760.0, 420.0);
const PLOT: [f64; 4] = [70.0, 20.0, 560.0, 370.0];
/// Ends of the axes: cpus and nanoseconds.
const CPUS: [f64; 2] = [2.0, 256.0];
const NS: [f64; 2] = [100.0, 200_000.0];

/// A time that a protocol takes on so many cpus, whose farthest line has this round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    cpus: f64,
    trip: f64,
    ns: f64,
}

/// Points of each protocol.
type Points = BTreeMap<String, Vec<Point>>;

/// Draws the picture.
pub(super) fn picture() -> Result<ExitCode> {
    let svg = drawn()?;
    fs::write(root().join(PICTURE), &svg).with_context(|| format!("writing {PICTURE}"))?;
    println!("{PICTURE}: {} KiB, of {PREDICTED} and {SEEN}", svg.len() >> 10);
    Ok(ExitCode::SUCCESS)
}

fn drawn() -> Result<String> {
    let read = |file: &str| {
        let text = fs::read_to_string(root().join(file));
        points(&text.with_context(|| format!("reading {file}"))?).with_context(|| file.to_owned())
    };
    let (predicted, seen) = (read(PREDICTED)?, read(SEEN)?);
    svg(&predicted, &seen)
}

fn points(text: &str) -> Result<Points> {
    let mut points = Points::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        ensure!(words.len() == 4, "{line:?}: protocol, cpus, round trip and time");
        let number = |at: usize| {
            words[at]
                .parse::<f64>()
                .with_context(|| format!("{line:?}: {} is no number", words[at]))
        };
        let point = Point { cpus: number(1)?, trip: number(2)?, ns: number(3)? };
        points.entry(words[0].to_owned()).or_default().push(point);
    }
    Ok(points)
}

fn part(value: f64, [from, to]: [f64; 2]) -> f64 {
    (value / from).ln() / (to / from).ln()
}

fn x(cpus: f64) -> f64 {
    PLOT[0] + (PLOT[2] - PLOT[0]) * part(cpus, CPUS)
}

fn y(ns: f64) -> f64 {
    PLOT[3] - (PLOT[3] - PLOT[1]) * part(ns, NS)
}

fn svg(predicted: &Points, seen: &Points) -> Result<String> {
    let (width, height) = SIZE;
    let [left, top, right, bottom] = PLOT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" \
         height=\"{height}\" fill=\"white\"/>\n"
    );
    for cpus in (1..=8).map(|at| f64::from(1 << at)) {
        let at = x(cpus);
        writeln!(svg, "<path d=\"M{at:.0} {top}V{bottom}\" stroke=\"#ddd\"/>")?;
        let below = bottom + 18.0;
        writeln!(svg, "<text x=\"{at:.0}\" y=\"{below}\" text-anchor=\"middle\">{cpus}</text>")?;
    }
    for (ns, words) in [(100.0, "0.1 µs"), (1e3, "1 µs"), (1e4, "10 µs"), (1e5, "100 µs")] {
        let (at, to) = (y(ns), left - 8.0);
        writeln!(svg, "<path d=\"M{left} {at:.0}H{right}\" stroke=\"#ddd\"/>")?;
        let at = at + 4.0;
        writeln!(svg, "<text x=\"{to}\" y=\"{at:.0}\" text-anchor=\"end\">{words}</text>")?;
    }
    let (middle, below) = (f64::midpoint(left, right), bottom + 40.0);
    writeln!(svg, "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">cpus</text>")?;
    let mut legend = top + 10.0;
    let mut say = |svg: &mut String, mark: &str, words: &str| {
        let (from, to) = (right + 14.0, right + 44.0);
        let mark = mark.replace("AT", &format!("{:.0}", legend - 4.0));
        legend += 20.0;
        writeln!(svg, "{mark}<text x=\"{to}\" y=\"{:.0}\">{words}</text>", legend - 20.0)
            .map(|()| from)
    };
    for (protocol, words, colour) in DRAWN {
        let rows = predicted.get(protocol).with_context(|| format!("no rows of {protocol}"))?;
        let [near, middle, far] = curves(rows, protocol)?;
        let line = |points: &[Point]| {
            let at = |point: &Point| format!("{:.1} {:.1}", x(point.cpus), y(point.ns));
            points.iter().map(at).collect::<Vec<_>>().join("L")
        };
        let back: Vec<Point> = near.iter().rev().copied().collect();
        writeln!(
            svg,
            "<path d=\"M{}L{}Z\" fill=\"{colour}\" fill-opacity=\"0.15\"/>",
            line(&far),
            line(&back)
        )?;
        writeln!(
            svg,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.6\" \
             stroke-dasharray=\"5 4\"/>",
            line(&middle)
        )?;
        let at = right + 14.0;
        let mark = format!(
            "<rect x=\"{at}\" y=\"AT\" width=\"24\" height=\"8\" fill=\"{colour}\" \
             fill-opacity=\"0.15\"/>"
        );
        say(&mut svg, &mark, &format!("{words}, model"))?;
        let dots = seen.get(protocol).map_or(&[][..], Vec::as_slice);
        for point in dots {
            let (x, y) = (x(point.cpus), y(point.ns));
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")?;
        }
        let mark = format!("<circle cx=\"{}\" cy=\"AT\" r=\"4\" fill=\"{colour}\"/>", at + 12.0);
        say(&mut svg, &mark, &format!("{words}, measured"))?;
    }
    for words in [
        "model: lines between the",
        "farthest cpus there and",
        "back in 165 to 1680 ns,",
        "dashed 630 ns",
    ] {
        say(&mut svg, "", words)?;
    }
    svg += "</svg>\n";
    Ok(svg)
}

/// Curves of the nearest, the middle and the farthest lines.
fn curves(rows: &[Point], protocol: &str) -> Result<[Vec<Point>; 3]> {
    let mut trips: Vec<f64> = rows.iter().map(|row| row.trip).collect();
    trips.sort_by(f64::total_cmp);
    trips.dedup();
    ensure!(trips.len() == 3, "{protocol}: {} round trips, not three", trips.len());
    Ok([0, 1, 2].map(|at| rows.iter().filter(|row| row.trip == trips[at]).copied().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_it_as_it_would_be_drawn() {
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        assert!(readme.contains(&format!("]({PICTURE})")), "README.md lost {PICTURE}");
        let kept = fs::read_to_string(root().join(PICTURE)).unwrap();
        assert!(kept == drawn().unwrap(), "run `cargo xtask picture --many`");
    }

    #[test]
    fn what_is_measured_is_a_dot_and_what_is_predicted_a_shade() {
        let row = |protocol: &str, trip: u32| {
            format!("{protocol} 2 {trip} {}\n{protocol} 256 {trip} {}\n", trip, 90 * trip)
        };
        let rows = |protocol: &str| [165, 630, 1680].map(|trip| row(protocol, trip)).concat();
        let predicted = points(&(rows("broadcast") + &rows("barrier"))).unwrap();
        let seen = points("# a machine\nbroadcast 2 209 205\n").unwrap();
        let svg = svg(&predicted, &seen).unwrap();
        // Beside those that explain the marks.
        assert_eq!(svg.matches("<circle").count(), 1 + 2, "{svg}");
        assert_eq!(svg.matches("Z\" fill=").count(), 2, "{svg}");
        assert!(points("broadcast 2 209\n").is_err() && points("broadcast 2 209 x\n").is_err());
    }
}
