//! `kumiki doctor`: what this machine has and lacks, part by part.

use anyhow::Result;
use kumiki_parasc::backend::{Availability, Backend, availability};
use kumiki_sys::doctor::{Finding, State, examine};

use crate::args::Doctor;
use crate::{Verdict, output};

pub(crate) fn run(args: Doctor) -> Result<Verdict> {
    let mut findings = examine();
    findings.extend(availability().into_iter().map(backend));
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

/// How a backend of parallel system calls stands.
fn backend(one: Availability) -> Finding {
    let (thing, consequence) = match one.backend {
        Backend::User => ("backend user", "no parallel system calls"),
        Backend::IoUring => {
            ("backend io_uring", "processing threads make all calls; no call is left out")
        }
        Backend::Kernel => {
            ("backend kernel", "processing threads serve from user space; no call is left out")
        }
        _ => ("another backend", "it is not used"),
    };
    let choice =
        if one.auto { "automatic choice uses it" } else { "automatic choice does not use it" };
    Finding {
        part: "parasc",
        thing,
        state: if one.available { State::Present } else { State::Absent },
        detail: format!("{}; {choice}: {}", one.detail, one.reason),
        consequence: consequence.to_owned(),
        remedy: one.remedy,
    }
}
