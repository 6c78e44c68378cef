//! Errors whose `{:?}` is the sentence that `{}` is.

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
