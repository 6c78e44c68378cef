//! What is shipped, and how it is tried: one layout, of which a tarball, Debian's packages and the
//! package for Python are made; the library for C; packed crates; the site; and the release of all.
//!
//! ```text
//!   install ──▶ dist, musl (tarballs) · wheel · deb ──▶ deb_test, source_test, fresh
//!      │                                                 (Debian as new)
//!   capi · pages3      package (crates) · docs (the site) ──▶ release
//! ```
//!
//! `run` and `debian` are below all of it: other programs, and what has to be installed for them.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod arch;
mod arm;
#[doc(hidden)]
pub mod capi;
#[doc(hidden)]
pub mod deb;
#[doc(hidden)]
pub mod deb_test;
#[doc(hidden)]
pub mod debian;
#[doc(hidden)]
pub mod dist;
#[doc(hidden)]
pub mod docs;
#[doc(hidden)]
pub mod fresh;
#[doc(hidden)]
pub mod install;
#[doc(hidden)]
pub mod msrv;
#[doc(hidden)]
pub mod musl;
#[cfg(test)]
mod named;
#[doc(hidden)]
pub mod package;
mod pages3;
mod readme;
#[doc(hidden)]
pub mod release;
#[doc(hidden)]
pub mod run;
mod sbom;
mod size;
mod source;
#[doc(hidden)]
pub mod source_test;
#[doc(hidden)]
pub mod tool;
mod wheel;
