//! Kumiki's own subjects, in turns with those of a program of another commit.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::case::Case;
use crate::pair::Pair;
use crate::run::{Phase, Plan};
use crate::subject::Subject;

/// Mark in the name of each subject of ours.
const OURS: &str = "kumiki";
/// Marks the other program's subjects. In the result it stands after marks of the plan.
const OTHER: &str = "other:";

/// A plan of which each of our subjects takes part twice.
#[derive(Debug)]
pub struct Against<P> {
    plan: P,
    other: PathBuf,
    /// Each name, the other one's in the result, and its name in the other program.
    names: Vec<[&'static str; 3]>,
    /// Cases that the other program has not.
    unknown: Vec<&'static str>,
}

impl<P: Plan> Against<P> {
    /// Holds a variant that the other program has not against its plain form there, and
    /// leaves out what has none either.
    ///
    /// # Errors
    /// It has nothing of ours.
    pub fn new(plan: P, other: &Path, pair: Pair) -> Result<Self> {
        let ours = plan.subjects().into_iter().filter(|name| name.contains(OURS));
        let (names, unknown) = (Vec::new(), Vec::new());
        let mut against = Against { plan, other: other.to_owned(), names, unknown };
        let argument = against.argument();
        let has = |name: &'static str, theirs: &'static str| {
            let program = (against.other.clone(), theirs);
            let environment = against.environment(name, pair);
            let subject = Subject::start(program, P::NAME, name, pair, &argument, environment);
            subject.and_then(|mut subject| subject.ready()).is_ok()
        };
        let names: Vec<_> = ours
            .filter_map(|name| {
                let form = name.rsplit_once('/').map(|(form, _)| form);
                let theirs = [Some(name), form].into_iter().flatten().find(|it| has(name, it));
                if theirs.is_none() {
                    eprintln!("left out: {name}, which the other program has not");
                }
                Some([name, &*format!("{OTHER}{name}").leak(), theirs?])
            })
            .collect();
        ensure!(!names.is_empty(), "{} has no subject of ours", other.display());
        against.names = names;
        against.unknown = against.find_unknown(pair)?;
        Ok(against)
    }
}

impl<P: Plan> Against<P> {
    /// Asks the other program for a turn of each case of which there has been a new one since
    /// some commit.
    fn find_unknown(&self, pair: Pair) -> Result<Vec<&'static str>> {
        let mut unknown = Vec::new();
        let phases = self.plan.phases();
        for name in P::RECENT {
            let mut phases = phases.iter().filter(|phase| phase.case.name() == *name);
            let Some(phase) = phases.next() else { continue };
            let asked = self.names.iter().find(|[ours, ..]| self.plan.asks(phase.case, ours));
            let Some([ours, _, theirs]) = asked else { continue };
            let program = (self.other.clone(), *theirs);
            let environment = self.environment(ours, pair);
            let argument = self.argument();
            let mut subject = Subject::start(program, P::NAME, ours, pair, &argument, environment)?;
            subject.ready()?;
            if subject.turn(&phase.case).is_err() {
                eprintln!("left out: {name}, which the other program has not");
                unknown.push(*name);
            }
        }
        Ok(unknown)
    }
}

/// The name without the mark.
fn plain(subject: &str) -> &str {
    subject.strip_prefix(OTHER).unwrap_or(subject)
}

impl<P: Plan> Plan for Against<P> {
    type Case = P::Case;

    const NAME: &'static str = P::NAME;

    fn subjects(&self) -> Vec<&'static str> {
        self.names.iter().flat_map(|[ours, other, _]| [*ours, *other]).collect()
    }

    fn argument(&self) -> String {
        self.plan.argument()
    }

    fn program(&self, subject: &'static str) -> Result<(PathBuf, &'static str)> {
        match self.names.iter().find(|[_, other, _]| *other == subject) {
            Some([.., theirs]) => Ok((self.other.clone(), theirs)),
            None => self.plan.program(subject),
        }
    }

    fn environment(&self, subject: &str, pair: Pair) -> Vec<(&'static str, String)> {
        self.plan.environment(plain(subject), pair)
    }

    fn phases(&self) -> Vec<Phase<P::Case>> {
        let mut phases = self.plan.phases();
        phases.retain(|phase| !self.unknown.contains(&phase.case.name()));
        phases
    }

    fn asks(&self, case: P::Case, subject: &str) -> bool {
        self.plan.asks(case, plain(subject))
    }

    fn beside(&self, case: P::Case, subject: &str) -> Option<P::Case> {
        self.plan.beside(case, plain(subject))
    }

    fn next(&mut self, phase: &Phase<P::Case>, round: usize) -> P::Case {
        self.plan.next(phase, round)
    }

    fn shown(subject: &'static str) -> &'static str {
        match subject.strip_prefix(OTHER) {
            Some(name) => format!("{OTHER}{}", P::shown(name)).leak(),
            None => P::shown(subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shadow::request::Request;

    /// One subject of ours, which copies, and one of somebody else.
    struct Two;

    impl Plan for Two {
        type Case = Request;
        const NAME: &'static str = "shadow";

        fn subjects(&self) -> Vec<&'static str> {
            vec!["copy:kumiki/split", "copy:libc"]
        }

        fn argument(&self) -> String {
            String::new()
        }

        fn phases(&self) -> Vec<Phase<Request>> {
            Vec::new()
        }

        fn asks(&self, _: Request, subject: &str) -> bool {
            subject.starts_with("copy:")
        }

        fn next(&mut self, phase: &Phase<Request>, _: usize) -> Request {
            phase.case
        }

        fn shown(subject: &'static str) -> &'static str {
            subject.trim_start_matches("copy:")
        }
    }

    const PAIR: Pair = Pair { main: 0, helper: 1 };

    #[test]
    fn the_other_program_s_subjects_are_marked_and_asked_the_same() {
        type Both = Against<Two>;
        assert_eq!(Both::shown("copy:kumiki/split"), "kumiki/split");
        assert_eq!(Both::shown("other:copy:kumiki/split"), "other:kumiki/split");
        let names = vec![["copy:kumiki/split", "other:copy:kumiki/split", "copy:kumiki"]];
        let (other, unknown) = (PathBuf::from("elsewhere"), Vec::new());
        let both = Against { plan: Two, other, names, unknown };
        assert_eq!(both.subjects(), ["copy:kumiki/split", "other:copy:kumiki/split"]);
        assert!(both.asks(Request::ForkJoinNull, "other:copy:kumiki/split"));
        let (program, name) = both.program("other:copy:kumiki/split").unwrap();
        assert_eq!((program.to_str(), name), (Some("elsewhere"), "copy:kumiki"));
        assert_ne!(both.program("copy:kumiki/split").unwrap().0.to_str(), Some("elsewhere"));
    }

    #[test]
    fn a_program_without_anything_of_ours_is_an_error() {
        let error = Against::new(Two, Path::new("/bin/false"), PAIR).err();
        let text = error.expect("it says nothing").to_string();
        assert!(text.contains("/bin/false"), "{text}");
    }
}
