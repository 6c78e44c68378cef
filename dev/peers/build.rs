//! Compiles what puts the peers in C and C++ behind a plain function.

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed={HIGHWAY}");
    println!("cargo:rustc-check-cfg=cfg(highway)");
    #[cfg(feature = "peers")]
    shims();
}

/// Debian 13's libhwy-dev has it, Debian 12's does not.
const HIGHWAY: &str = "/usr/include/hwy/contrib/thread_pool/thread_pool.h";

#[cfg(feature = "peers")]
fn shims() {
    let shim = || {
        let mut build = cc::Build::new();
        // As fast as their users would build them, whatever our profile.
        build.opt_level(3).warnings(true).extra_warnings(true).warnings_into_errors(true);
        build
    };
    shim().file("shim/openmp.c").flag("-fopenmp").compile("bench_openmp");
    // The peer's headers are not ours to warn about.
    shim().cpp(true).std("c++17").file("shim/onetbb.cpp").compile("bench_onetbb");
    if std::path::Path::new(HIGHWAY).exists() {
        shim().cpp(true).std("c++17").file("shim/highway.cpp").compile("bench_highway");
        println!("cargo:rustc-cfg=highway");
        println!("cargo:rustc-link-lib=hwy_contrib");
        println!("cargo:rustc-link-lib=hwy");
    }
    println!("cargo:rustc-link-lib=gomp");
    println!("cargo:rustc-link-lib=tbb");
}
