//! Compiles what puts the peers in C and C++ behind a plain function.

fn main() {
    println!("cargo:rerun-if-changed=shim");
    #[cfg(feature = "peers")]
    shims();
}

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
    println!("cargo:rustc-link-lib=gomp");
    println!("cargo:rustc-link-lib=tbb");
}
