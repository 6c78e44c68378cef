//! The processor that something is made for.

/// Processor of what is shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Arch {
    /// Intel's and AMD's, 64 bits
    #[default]
    #[value(name = "x86_64")]
    X86,
    /// Arm's, 64 bits
    #[value(name = "aarch64")]
    Arm,
}

impl Arch {
    /// Its name, as Rust, Python and C's compilers have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::X86 => "x86_64",
            Arch::Arm => "aarch64",
        }
    }

    /// Rust's name of it with musl.
    pub(crate) fn with_musl(self) -> String {
        format!("{}-unknown-linux-musl", self.name())
    }

    /// A program of the binutils for it, which an x86-64 machine has.
    pub(crate) fn binutil(self, name: &str) -> String {
        match self {
            Arch::X86 => name.to_owned(),
            Arch::Arm => format!("aarch64-linux-gnu-{name}"),
        }
    }
}
