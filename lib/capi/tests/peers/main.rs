//! Suites that packages bring, with Kumiki in place of what they test: by `cargo xtask test
//! peers`. Each runs with the C library itself first, as far as that can be asked: what does not
//! hold there is no difference of ours.
//!
//! What cannot hold is named with its reason in `tests/capi/peers/expected.txt`, or beside the
//! tests for Python. One of those that holds is a failure, as any other that does not.
#![allow(missing_docs)]

mod build;
mod cpython;
mod expected;
mod glibc;
mod gnulib;
mod way;
