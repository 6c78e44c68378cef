//! Whatever a part returns as an error, a program matches by the façade's path, without a
//! dependency of its own on the crate that it comes from.

#![cfg(all(
    feature = "copy",
    feature = "measure",
    feature = "parasc",
    feature = "resource",
    feature = "shadow",
    feature = "spawn",
    feature = "wait"
))]

use std::time::{Duration, Instant};

use kumiki::{copy, measure, parasc, resource, shadow, spawn, sys, wait};

/// What a program does about an error of a call to another core.
fn of_call(error: &resource::Error) -> &'static str {
    use resource::{CallError, Error};
    match error {
        Error::Manager { source: CallError::Full, .. } => "take an answer first",
        Error::Manager { source: CallError::TimedOut { begun: true }, .. } => "look before",
        Error::Manager { source: CallError::TimedOut { begun: false }, .. } => "ask again",
        Error::Manager { source: CallError::Panicked(panic), .. } => {
            let _: &resource::Panic = panic;
            "mend it"
        }
        Error::Manager { source: CallError::Gone | CallError::Died, .. } => "ask another one",
        Error::Crew(resource::ThreadError::Thread { .. } | resource::ThreadError::Late { .. }) => {
            "allow more threads"
        }
        Error::Wait(resource::WaitError::Unsupported { .. }) => "sleep otherwise",
        Error::Sys(sys::Error::Invalid(_)) => "another cpu",
        Error::KindTaken { .. } | Error::TooManyKinds { .. } => "fewer kinds",
        _ => "nothing",
    }
}

fn of_shadow(error: &shadow::Error) -> &'static str {
    use shadow::{Error, ThreadError, WaitError};
    match error {
        Error::Sys(sys::Error::Invalid(_)) => "another cpu",
        Error::Wait(WaitError::Unsupported { .. } | WaitError::UnknownSleep { .. }) => "futex",
        Error::Thread(ThreadError::Thread { .. } | ThreadError::Sys(_)) => "more threads",
        Error::NoFreeCpu { .. } | Error::TeamTooLarge { .. } => "share",
        _ => "nothing",
    }
}

fn of_parasc(error: &parasc::Error) -> &'static str {
    use parasc::{Error, RefusalKind, WaitError};
    match error {
        Error::Wait(WaitError::Unsupported { .. }) => "futex",
        Error::Refused { refusal, .. } => {
            let _: (&parasc::Refusal, RefusalKind) = (refusal, refusal.kind);
            "call it yourself"
        }
        Error::NotAllowed { .. } => "allow it",
        _ => "nothing",
    }
}

#[test]
fn errors_are_matched_by_their_paths() {
    let late = resource::CallError::TimedOut { begun: false };
    let late = resource::Error::Manager { place: "core0".to_owned(), source: late };
    assert_eq!(of_call(&late), "ask again");
    let wait = wait::Error::UnknownSleep { text: "nap".to_owned() };
    assert_eq!(of_shadow(&shadow::Error::from(wait)), "futex");
    assert_eq!(of_parasc(&parasc::Error::ShutDown), "nothing");
    assert!(matches!(copy::Error::EmptyBlock, copy::Error::EmptyBlock));
    let missing = spawn::Command::new("/nowhere/at/all").spawn().unwrap_err();
    assert_eq!(spawn::Refusal::number(&missing), Some(2));
    let unsupported = measure::Error::unsupported("a second cpu", "allow two");
    assert!(unsupported.to_string().contains("allow two"), "{unsupported}");
    assert!(wait::Deadline::after(Duration::ZERO).at() <= Some(Instant::now()));
}

/// A place whose manager has ended answers so, which a program can tell from other errors.
#[test]
fn a_manager_that_has_gone_is_known_by_its_kind() {
    use resource::{Error, Interface, Policy, Sleep, UserSpace, UserSpaceSpec};
    let policy = Policy { sleep: Sleep::Futex, ..Policy::default() };
    let cpu = sys::affinity::current().unwrap().iter().next().unwrap();
    let adopted = Interface::builder().standard().policy(policy).cores([]).adopted([cpu]);
    let interface = adopted.per_core().unwrap();
    let place = interface.places()[0];
    drop(interface.manage(place).unwrap());
    let asked = interface.create::<UserSpace>(place, None, UserSpaceSpec::memory(1));
    assert!(matches!(asked, Err(Error::Manager { .. })), "{asked:?}");
    assert_eq!(of_call(&asked.unwrap_err()), "ask another one");
}

/// What is printed where `main` returns an error: its `{:?}`.
#[test]
fn an_error_that_main_returns_is_a_sentence() {
    use std::error::Error;
    let late = resource::CallError::TimedOut { begun: true };
    let errors: [Box<dyn Error>; 9] = [
        sys::Error::Invalid("cpu 9 is not online".to_owned()).into(),
        wait::Error::UnknownSleep { text: "nap".to_owned() }.into(),
        shadow::Error::Busy.into(),
        copy::Error::EmptyBlock.into(),
        parasc::Error::ShutDown.into(),
        resource::Error::Manager { place: "core0".to_owned(), source: late }.into(),
        resource::CallError::Full.into(),
        measure::Error::unsupported("a second cpu", "allow two").into(),
        parasc::AllowList::none().allow("no_such").unwrap_err().into(),
    ];
    for error in errors {
        assert_eq!(format!("{error:?}"), error.to_string());
    }
    let missing = spawn::Command::new("no-such").spawn().unwrap_err();
    let printed = format!("{missing:?}");
    assert!(printed.contains("executing the program no-such: No such file"), "{printed}");
}
