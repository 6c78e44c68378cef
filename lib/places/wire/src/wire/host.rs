//! A machine's name, as it stands in the names of its places.

use kumiki_resource::Name;

use crate::error::{Error, Result};

/// A machine's name stands before a dot in a place's name, and in a subject.
pub fn check_host(host: &str) -> Result<()> {
    let refused = |why| Error::Host { host: host.to_owned(), why };
    if host.split('.').any(str::is_empty) {
        return Err(refused("a part of it is empty"));
    }
    Name::new(host, "lease", "a")
        .map_err(|_| refused("it has other characters than letters, digits, -_., or too many"))?;
    Ok(())
}

/// Name for a machine that has no other to give.
pub fn host_name() -> String {
    let whole = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let first = whole.split('.').next().unwrap_or_default().to_owned();
    if check_host(&first).is_ok() { first } else { "host".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_can_stand_in_a_name_and_a_subject() {
        for good in ["hostb", "db-1.rack_7"] {
            check_host(good).unwrap();
        }
        for bad in ["", "a..b", ".a", "a b", "a*", "a>", "a/b", &"a".repeat(201)] {
            assert!(check_host(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn this_machine_has_a_name() {
        check_host(&host_name()).unwrap();
    }
}
