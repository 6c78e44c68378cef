//! What is installed on other machines: one layout, of which a tarball, Debian's packages and
//! the package for Python are made.

pub(crate) mod deb;
pub(crate) mod deb_test;
pub(crate) mod dist;
pub(crate) mod install;
pub(crate) mod musl;
#[cfg(test)]
mod named;
mod pages3;
mod sbom;
mod size;
mod source;
pub(crate) mod source_test;
mod wheel;
