//! Which backends this machine has, for this thread.

use super::{Backend, Inside, Lack};

/// Availability of a backend here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Availability {
    /// The backend: [`User`](Backend::User) or [`Kernel`](Backend::Kernel).
    pub backend: Backend,
    /// True if an engine can have it.
    pub available: bool,
    /// Finding: what there is, or why there is none.
    pub detail: String,
    /// Remedy for the lack.
    pub remedy: Option<String>,
    /// True if [`Backend::Auto`] uses it.
    pub auto: bool,
    /// Reason for that.
    pub reason: &'static str,
}

/// Availability of each backend, from the point of view of the calling thread. Each is tried;
/// nothing is changed.
///
/// ```
/// for backend in kumiki_parasc::backend::availability() {
///     println!("{}: {} ({})", backend.backend, backend.detail, backend.reason);
/// }
/// ```
pub fn availability() -> Vec<Availability> {
    vec![user(), kernel(Inside::open().map(drop))]
}

fn user() -> Availability {
    Availability {
        backend: Backend::User,
        available: true,
        detail: "processing threads of the program itself".to_owned(),
        remedy: None,
        auto: true,
        reason: "needs nothing, and makes every call",
    }
}

fn kernel(tried: Result<(), Lack>) -> Availability {
    let available = tried.is_ok();
    let reason = match available {
        true => "only when chosen: a fault in the module is a fault of the kernel",
        false => "is not there",
    };
    let (detail, remedy) = match tried {
        Ok(()) => ("module kumiki-parasc is loaded".to_owned(), None),
        Err(lack) => (lack.reason, Some(lack.remedy)),
    };
    Availability { backend: Backend::Kernel, available, detail, remedy, auto: false, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine() {
        let all = availability();
        let backends: Vec<_> = all.iter().map(|one| one.backend).collect();
        assert_eq!(backends, [Backend::User, Backend::Kernel]);
        assert!(all[0].available && all[0].auto);
        for one in all {
            eprintln!("{}: {} ({})", one.backend, one.detail, one.reason);
            assert!(one.available || !one.auto, "{one:?}");
            assert_eq!(one.available, one.remedy.is_none(), "{one:?}");
        }
    }

    #[test]
    fn auto_leaves_a_loaded_module_alone() {
        let loaded = kernel(Ok(()));
        assert!(loaded.available && !loaded.auto);
        let none = kernel(Err(Lack::new("EPERM", "allow it")));
        assert!(!none.available && none.remedy.as_deref() == Some("allow it"));
    }
}
