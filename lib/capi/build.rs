//! Gives the shared library the name under which programs look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A major version is one binary interface: programs that were linked with
    // it run with every later one of the same number.
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo says the version");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkumiki.so.{major}");
}
