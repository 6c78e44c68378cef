//! Gives the shared library the name under which programs look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo says the version");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libkumiki-places.so.{major}");
}
