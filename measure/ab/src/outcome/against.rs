//! Whether a comparison may stand beside one that was kept.

use std::path::Path;

use crate::against::Against;
use crate::error::{Error, Result};
use crate::outcome::Outcome;

impl Against {
    /// Checks that `now` may be compared with the outcome kept in `path`.
    ///
    /// # Errors
    /// It was made on another machine, or of another A.
    pub fn check(kept: &Outcome, now: &Outcome, path: &Path) -> Result<()> {
        let failed = |why: String| Error::File { path: path.to_owned(), why };
        let (there, here) = (&kept.machine, &now.machine);
        if (&there.cpu_model, there.cpus) != (&here.cpu_model, here.cpus) {
            return Err(failed(format!(
                "of another machine ({}, {} cpus; here {}, {} cpus): how B compares to A there \
                 says nothing of here; compare both on one",
                there.cpu_model, there.cpus, here.cpu_model, here.cpus
            )));
        }
        if kept.a != now.a {
            return Err(failed(format!(
                "its A was {}, here it is {}: they have no command in common",
                kept.a.command(),
                now.a.command()
            )));
        }
        if kept.kept().iter().all(|finding| finding.interval.is_none()) {
            return Err(failed(
                "it has no interval: too few of its pairs count; keep one with more".to_owned(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::Side;

    fn outcome(ratio: f64, interval: Option<[f64; 2]>) -> Outcome {
        Outcome {
            ratio: Some(ratio),
            interval,
            a: Side::new(["true"]),
            detect: 0.02,
            ..Outcome::none()
        }
    }

    #[test]
    fn another_machine_or_another_a_is_refused() {
        let (kept, path) = (outcome(1.1, Some([1.0, 1.2])), Path::new("kept.json"));
        let mut now = kept.clone();
        assert!(Against::check(&kept, &now, path).is_ok());
        now.machine.cpu_model = "Other".to_owned();
        let error = Against::check(&kept, &now, path).unwrap_err().to_string();
        assert!(error.contains("another machine") && error.contains("Other"), "{error}");
        now = Outcome { a: Side::new(["false"]), ..kept.clone() };
        let error = Against::check(&kept, &now, path).unwrap_err().to_string();
        assert!(error.contains("false") && error.contains("kept.json"), "{error}");
        let error = Against::check(&outcome(1.1, None), &kept, path).unwrap_err().to_string();
        assert!(error.contains("no interval"), "{error}");
    }
}
