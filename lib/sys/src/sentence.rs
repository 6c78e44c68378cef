//! Sentences of errors: `{:?}` of one is the sentence that `{}` is, and a cause is not said twice.

use std::error::Error;

/// The sentence of an error with those of its causes, in one line. Some errors say their cause
/// themselves; it is not said twice.
///
/// ```
/// use kumiki_sys::sentence::with_causes;
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("reading the list: {source}")]
/// struct NoList { source: std::io::Error }
///
/// let error = NoList { source: std::io::Error::other("the disk is gone") };
/// assert_eq!(with_causes(&error), "reading the list: the disk is gone");
/// ```
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut causes = error.source();
    while let Some(cause) = causes {
        let sentence = cause.to_string();
        if !text.contains(&sentence) {
            text += ": ";
            text += &sentence;
        }
        causes = cause.source();
    }
    text
}

/// Makes `{:?}` of an error its sentence. A program whose `main` returns an error has it printed so, and
/// its user reads neither names of fields nor braces.
///
/// ```
/// #[derive(thiserror::Error)]
/// #[error("no cpu {cpu} here: choose one of 0-1")]
/// struct NoCpu { cpu: usize }
/// kumiki_sys::debug_is_display!(NoCpu);
///
/// assert_eq!(format!("{:?}", NoCpu { cpu: 7 }), "no cpu 7 here: choose one of 0-1");
/// ```
#[macro_export]
macro_rules! debug_is_display {
    ($error:ty) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}
