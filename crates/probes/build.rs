//! Compiles the eBPF programs and writes a typed skeleton for each. Without the feature there is nothing to
//! do.

fn main() {
    #[cfg(feature = "bpf")]
    programs::build();
}

#[cfg(feature = "bpf")]
mod programs {
    use std::env;
    use std::path::{Path, PathBuf};

    use libbpf_cargo::SkeletonBuilder;

    /// One folder per probe: `src/NAME/NAME.bpf.c` with its `NAME.h`.
    const PROGRAMS: [&str; 7] =
        ["block_io", "cpu_time", "locks", "process_ids", "profile", "ticks", "user_locks"];

    pub(crate) fn build() {
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it for build scripts"));
        let shared = Path::new("bpf");
        let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for build scripts");
        println!("cargo::rerun-if-changed={}", shared.display());
        for name in PROGRAMS {
            let folder = Path::new("src").join(name);
            println!("cargo::rerun-if-changed={}", folder.display());
            let built = SkeletonBuilder::new()
                .source(folder.join(format!("{name}.bpf.c")))
                .obj(out.join(format!("{name}.bpf.o")))
                // v3: with compare-and-swap, which Linux 5.12 has.
                .clang_args([
                    "-Wall",
                    "-Werror",
                    "-mcpu=v3",
                    &format!("-I{}", shared.display()),
                    // Line numbers name their file: without the folder, two builds have the same bytes.
                    &format!("-ffile-prefix-map={here}=."),
                ])
                .build_and_generate(out.join(format!("{name}.skel.rs")));
            if let Err(error) = built {
                panic!(
                    "{name}.bpf.c: {error:#}\nthe eBPF programs need clang (Debian: clang libelf-dev zlib1g-dev \
                     pkg-config); without them, build with --no-default-features"
                );
            }
        }
    }
}
