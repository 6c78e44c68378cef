//! Where an image is, as a person writes it.

use std::fmt;
use std::path::{Path, PathBuf};

/// A container image, or an archive of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One archive of all files, as `docker export` and debootstrap's users make it.
    Tar(PathBuf),
    /// A folder of the OCI image layout, as `skopeo copy … oci:DIR` makes it.
    Oci(PathBuf),
    /// An archive as `docker save` makes it.
    Docker(PathBuf),
}

impl Source {
    /// `FILE`, `oci:DIR` or `docker-archive:FILE`: the names that skopeo has for them.
    pub fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some(("oci", path)) => Source::Oci(path.into()),
            Some(("docker-archive", path)) => Source::Docker(path.into()),
            _ => Source::Tar(text.into()),
        }
    }

    /// Takes its path to be below a folder, if that has no root of its own.
    pub fn below(self, folder: &Path) -> Self {
        match self {
            Source::Tar(path) => Source::Tar(folder.join(path)),
            Source::Oci(path) => Source::Oci(folder.join(path)),
            Source::Docker(path) => Source::Docker(folder.join(path)),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Tar(path) => write!(f, "{}", path.display()),
            Source::Oci(path) => write!(f, "oci:{}", path.display()),
            Source::Docker(path) => write!(f, "docker-archive:{}", path.display()),
        }
    }
}
