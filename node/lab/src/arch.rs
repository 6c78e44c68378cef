//! The processor of a machine.

/// A processor, by Debian's name of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// aarch64.
    Arm64,
}

impl Default for Arch {
    fn default() -> Self {
        Self::own()
    }
}

impl Arch {
    /// This machine's.
    pub const fn own() -> Self {
        if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 }
    }

    /// Debian's name.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// QEMU for it, and the package that has it.
    pub(crate) const fn qemu(self) -> (&'static str, &'static str) {
        match self {
            Arch::Amd64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }
}
