//! `kumiki doctor`: what this machine lacks, in the order of what would gain most
//! here, and what it has.

mod gain;

use anyhow::Result;
use kumiki_doctor::{Finding, State, examine};
use serde::Serialize;

use crate::args::Doctor;
use crate::{Verdict, output};

pub(crate) fn run(args: Doctor) -> Result<Verdict> {
    let known = ordered(examine());
    if args.json {
        output::json(&known)?;
    } else {
        output::text(report(&known))?;
    }
    Ok(Verdict::Fine)
}

/// A finding, and what its lack was seen to cost.
#[derive(Debug, Serialize)]
struct Known {
    #[serde(flatten)]
    finding: Finding,
    costs: Option<&'static str>,
}

/// Under which heading a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heading {
    /// Lacking, and something can be done about it.
    Gains,
    /// Lacking, and nothing can.
    Lacks,
    Unknown,
    Has,
}

impl Known {
    fn heading(&self) -> Heading {
        match (self.finding.state, &self.finding.remedy) {
            (State::Present, _) => Heading::Has,
            (State::Unknown, _) => Heading::Unknown,
            (_, Some(_)) => Heading::Gains,
            (_, None) => Heading::Lacks,
        }
    }
}

/// Known findings, in the order in which they are shown.
fn ordered(findings: Vec<Finding>) -> Vec<Known> {
    let mut ranked: Vec<_> = findings
        .into_iter()
        .filter_map(|finding| {
            let rank = gain::rank(finding.thing)?;
            let costs = Some(gain::GAINS[rank].costs).filter(|costs| !costs.is_empty());
            Some((rank, Known { finding, costs }))
        })
        .collect();
    ranked.sort_by_key(|(rank, known)| (known.heading(), *rank));
    ranked.into_iter().map(|(_, known)| known).collect()
}

/// Prints the findings in words.
fn report(known: &[Known]) -> String {
    let mut text = String::new();
    for (at, one) in known.iter().enumerate() {
        let heading = one.heading();
        if at == 0 || known[at - 1].heading() != heading {
            text += if at == 0 { "" } else { "\n" };
            text += match heading {
                Heading::Gains => "What would gain here, the most first\n",
                Heading::Lacks => "Lacking, and not available on this machine\n",
                Heading::Unknown => "Not to be found out here\n",
                Heading::Has => "What this machine has\n\n",
            };
        }
        let Finding { part, thing, detail, consequence, remedy, .. } = &one.finding;
        if heading == Heading::Has {
            let line = output::wrapped(&format!("{thing} [{part}]: {detail}"), "      ");
            text += &format!("  {}", line.trim_start());
            continue;
        }
        let number =
            if heading == Heading::Gains { format!("{}. ", at + 1) } else { String::new() };
        text += &format!("\n  {number}{thing} [{part}]\n");
        let costs = one.costs.map(|costs| format!("costs: {costs}"));
        let remedy = remedy.as_ref().map(|remedy| format!("→ {remedy}"));
        for sentence in [Some(detail.clone()), Some(consequence.clone()), costs, remedy] {
            text += &sentence.map_or(String::new(), |text| output::wrapped(&text, "      "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(thing: &'static str, state: State, remedy: Option<&str>) -> Finding {
        Finding {
            part: "shadow",
            thing,
            state,
            detail: "seen".to_owned(),
            consequence: "so it is".to_owned(),
            remedy: remedy.map(str::to_owned),
        }
    }

    fn things(known: &[Known]) -> Vec<&str> {
        known.iter().map(|known| known.finding.thing).collect()
    }

    #[test]
    fn the_order_is_that_of_what_can_be_gained() {
        let [absent, limited] = [State::Absent, State::Limited];
        let known = ordered(vec![
            finding("trusted TSC", absent, None),
            finding("open file limit", limited, Some("raise it")),
            finding("two allowed cpus", State::Present, None),
            finding("UMWAIT or MWAITX", absent, None),
            finding("performance governor", State::Unknown, None),
            finding("transparent huge pages", absent, Some("allow them")),
            finding("cpu time without quota", limited, Some("lift it")),
        ]);
        let expected = [
            "cpu time without quota",
            "transparent huge pages",
            "open file limit",
            "UMWAIT or MWAITX",
            "trusted TSC",
            "performance governor",
            "two allowed cpus",
        ];
        assert_eq!(things(&known), expected);
        let text = report(&known);
        let headings = ["What would gain", "Lacking", "Not to be found", "What this machine has"];
        let places = headings.map(|heading| text.find(heading).expect(heading));
        assert!(places.is_sorted(), "{text}");
        for part in ["1. cpu time", "3. open file", "→ lift it", "costs: a pause of up to 100 ms"]
        {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        assert!(!text.contains("4. "), "only what can be gained is counted\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= output::WIDTH), "{text}");
    }

    /// A thing without a place would never be shown, and a place without a thing
    /// would be a figure about nothing.
    #[test]
    fn whatever_is_examined_has_its_place() {
        let examined = examine();
        for finding in &examined {
            assert!(gain::rank(finding.thing).is_some(), "{}", finding.thing);
        }
        for (place, gain) in gain::GAINS.iter().enumerate() {
            assert!(examined.iter().any(|finding| finding.thing == gain.thing), "{}", gain.thing);
            assert_eq!(gain::rank(gain.thing), Some(place), "twice: {}", gain.thing);
        }
    }
}
