//! Processes that notes name: a number alone is another process's after a while.

use std::fs;

use serde::{Deserialize, Serialize};

/// A process, by its number and the time at which it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    #[serde(rename = "process")]
    pub id: u32,
    /// Ticks of the kernel's clock from the machine's start to its own.
    pub began: u64,
}

impl Process {
    /// This one.
    pub fn this() -> Self {
        let id = std::process::id();
        Process { id, began: began(id).unwrap_or_default() }
    }

    /// True if it has not ended. Where `/proc` cannot be read, nothing lives.
    pub fn lives(self) -> bool {
        began(self.id) == Some(self.began)
    }
}

fn began(id: u32) -> Option<u64> {
    began_by(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

/// Field 22. The second one is a name in brackets, in which anything may stand.
fn began_by(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_another_process_s_is_not_it() {
        let this = Process::this();
        assert!(this.began > 0 && this.lives());
        assert!(!Process { began: this.began + 1, ..this }.lives());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let other = Process { id: child.id(), began: began(child.id()).unwrap() };
        assert!(other.lives());
        child.wait().unwrap();
        assert!(!other.lives());
    }

    #[test]
    fn a_name_of_brackets_and_blanks_is_passed_over() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 4242 99";
        assert_eq!(began_by(stat), Some(4242));
        for text in ["", "7", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 x"] {
            assert_eq!(began_by(text), None, "{text}");
        }
    }
}
