//! Events of what threads and processes do to each other: claims, hand-overs, sleeps and wakes, leases,
//! retries, restarts. Who has a program that hangs reads which of them came last.
//!
//! They are `tracing`'s, at level TRACE, with the module as target, and there with the feature `tracing` only:
//! without it an event is nothing, not even its arguments. A program chooses who hears them, by any
//! subscriber; with the feature `trace-file`, [`to_file`] is one that writes lines.

#[cfg(feature = "tracing")]
#[doc(hidden)]
pub use tracing;

/// Tells of an event: a message, and before it `name = value` for what it is about.
#[cfg(feature = "tracing")]
#[macro_export]
macro_rules! event {
    ($($what:tt)*) => { $crate::event::tracing::trace!($($what)*) };
}

/// Tells of an event, where the feature `tracing` is on: here it is off.
#[cfg(not(feature = "tracing"))]
#[macro_export]
macro_rules! event {
    ($($what:tt)*) => {};
}

/// Variable with the name of the file that a program writes its events to.
pub const VARIABLE: &str = "KUMIKI_TRACE";

/// Has this process write its events to the file that `KUMIKI_TRACE` names, a line each, at its end: time,
/// thread, module, message, values. Without the variable it does nothing.
///
/// # Errors
/// The file cannot be opened, or something else hears the events already.
#[cfg(feature = "trace-file")]
pub fn to_file() -> std::io::Result<()> {
    use std::fs::File;
    use std::io::{Error, ErrorKind};
    use std::sync::Arc;

    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let file = File::options().create(true).append(true).open(&name);
    let file = file.map_err(|error| {
        Error::new(error.kind(), format!("{VARIABLE}={}: {error}", name.to_string_lossy()))
    })?;
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(Arc::new(file))
        .with_thread_names(true)
        .with_ansi(false)
        .try_init()
        .map_err(|error| Error::new(ErrorKind::AlreadyExists, format!("{VARIABLE}: {error}")))
}

/// Refuses to be silent where events are asked for and this program has none.
///
/// # Errors
/// `KUMIKI_TRACE` is set.
#[cfg(not(feature = "trace-file"))]
pub fn to_file() -> std::io::Result<()> {
    match std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        None => Ok(()),
        Some(_) => Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            format!(
                "{VARIABLE} is set, and this program was built without events: build it with the \
                 feature `trace`"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "tracing"))]
    #[test]
    fn without_the_feature_an_event_is_nothing() {
        // What it is about is not even looked at.
        crate::event!(at = unreachable!("it would be"), "an event");
    }

    #[cfg(feature = "tracing")]
    #[test]
    fn with_the_feature_an_event_is_told_to_who_listens() {
        use std::sync::atomic::{AtomicBool, Ordering};

        struct Listener;
        static HEARD: AtomicBool = AtomicBool::new(false);
        impl tracing::Subscriber for Listener {
            fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
                about.target() == module_path!()
            }
            fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
                tracing::span::Id::from_u64(1)
            }
            fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
            fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
            fn event(&self, event: &tracing::Event<'_>) {
                HEARD.store(*event.metadata().level() == tracing::Level::TRACE, Ordering::Relaxed);
            }
            fn enter(&self, _: &tracing::span::Id) {}
            fn exit(&self, _: &tracing::span::Id) {}
        }
        tracing::subscriber::with_default(Listener, || crate::event!(at = 7, "an event"));
        assert!(HEARD.load(Ordering::Relaxed));
    }
}
