//! Compiles the peers that have no crate.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "peers")]
    {
        const SOURCE: &str = "src/vectors/hnswlib.cpp";
        println!("cargo::rerun-if-changed={SOURCE}");
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .opt_level(3)
            .define("NDEBUG", None)
            .flag("-march=native")
            .warnings(false)
            .file(SOURCE)
            .compile("bench_hnswlib");
    }
}
