//! `kumiki doctor`: what this machine has and lacks, part by part.

use anyhow::Result;
use kumiki_sys::doctor::{State, examine};

use crate::args::Doctor;
use crate::{Verdict, output};

pub(crate) fn run(args: Doctor) -> Result<Verdict> {
    let mut findings = examine();
    // What concerns one part stands together, in the order of first mention.
    let mut parts: Vec<&str> = Vec::new();
    for finding in &findings {
        if !parts.contains(&finding.part) {
            parts.push(finding.part);
        }
    }
    findings.sort_by_key(|finding| parts.iter().position(|&part| part == finding.part));
    if args.json {
        output::json(&findings)?;
        return Ok(Verdict::Fine);
    }
    let mut part = "";
    for finding in &findings {
        if finding.part != part {
            part = finding.part;
            output::line(format_args!("\n{part}"))?;
        }
        let mark = match finding.state {
            State::Present => "has ",
            State::Limited => "part",
            State::Absent => "no  ",
            State::Unknown => "?   ",
        };
        output::line(format_args!("  {mark}  {}: {}", finding.thing, finding.detail))?;
        if finding.state != State::Present {
            output::line(format_args!("          {}", finding.consequence))?;
            if let Some(remedy) = &finding.remedy {
                output::line(format_args!("          → {remedy}"))?;
            }
        }
    }
    Ok(Verdict::Fine)
}
