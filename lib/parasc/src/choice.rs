//! Which backend an engine uses.

use std::fmt;

/// Backend of an [`Engine`](crate::Engine) ([`Config::backend`](crate::Config)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Default, for almost everybody: [`User`](Self::User).
    #[default]
    Auto,
    /// Processing threads only. Each call goes through the seccomp filter that the
    /// caller had when these were started, and is seen by strace. A filter that one
    /// thread sets for itself later does not see its requests: see the
    /// [crate](crate#another-thread-makes-the-call).
    User,
    /// Processing threads that serve from inside the kernel module
    /// `kumiki-parasc`.
    Kernel,
}

impl Backend {
    /// Its name: `auto`, `user`, `kernel`.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            Backend::User => "user",
            Backend::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
