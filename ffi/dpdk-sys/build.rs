//! Builds the C shim against the installed DPDK and generates its bindings.
//!
//! pkg-config is the only source of truth: its cflags reach the C compiler and bindgen alike (they carry
//! `-include rte_config.h` and the instruction set that DPDK was built for; without them `rte_mbuf` may be laid
//! out differently), and its libraries are linked dynamically, so that EAL loads the distribution's drivers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OLDEST: &str = "22.11";
const SOURCES: [&str; 4] = ["shim/eal.c", "shim/port.c", "shim/bond.c", "shim/data.c"];
/// Drivers with functions of their own that the shim calls: libdpdk.pc names none.
const DRIVERS: [&str; 1] = ["rte_net_bond"];
const HEADER: &str = "shim/shim.h";

fn main() {
    for file in SOURCES
        .iter()
        .copied()
        .chain([HEADER, "shim/common.h", "build.rs"])
    {
        println!("cargo::rerun-if-changed={file}");
    }
    if let Err(reason) = build() {
        println!("cargo::error={reason}");
    }
}

fn build() -> Result<(), String> {
    let library = pkg_config::Config::new()
        .atleast_version(OLDEST)
        .cargo_metadata(false)
        .probe("libdpdk")
        .map_err(|_| format!("libdpdk >= {OLDEST} not found by pkg-config: install libdpdk-dev and pkg-config (Debian), or set PKG_CONFIG_PATH to where libdpdk.pc is"))?;
    let cflags = cflags()?;
    compile(&cflags)?;
    // After the shim: a static library's symbols are looked up in what follows it.
    link(&library);
    bind(&cflags)
}

/// The compiler flags of libdpdk, all of them: the pkg-config crate keeps only `-I` and `-D`.
fn cflags() -> Result<Vec<String>, String> {
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program)
        .args(["--cflags", "libdpdk"])
        .output()
        .map_err(|e| format!("pkg-config does not run ({e}): install pkg-config"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn compile(cflags: &[String]) -> Result<(), String> {
    let mut cc = cc::Build::new();
    cc.files(SOURCES).std("gnu11").warnings(true).extra_warnings(true);
    // The burst functions are inlined from DPDK's headers: unoptimised they would cost more than what they call.
    if env::var("OPT_LEVEL").is_ok_and(|level| level == "0" || level == "1") {
        cc.opt_level(2);
    }
    // DPDK's headers are not clean under -Wextra; ours are, as `-isystem` keeps the two apart.
    for flag in cflags {
        match flag.strip_prefix("-I") {
            Some(path) => cc.flag("-isystem").flag(path),
            None => cc.flag(flag),
        };
    }
    cc.try_compile("tg_dpdk_shim").map_err(|e| {
        format!(
            "the DPDK shim does not compile: {}",
            e.to_string().replace('\n', " ")
        )
    })
}

fn link(library: &pkg_config::Library) {
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    for name in library.libs.iter().map(String::as_str).chain(DRIVERS) {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
}

fn bind(cflags: &[String]) -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?);
    bindgen::Builder::default()
        .header(HEADER)
        .clang_args(cflags)
        .allowlist_item("(tg|TG)_.*")
        .blocklist_item("rte_.*")
        .allowlist_recursively(false)
        .prepend_enum_name(false)
        .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
        .use_core()
        .layout_tests(true)
        .generate_comments(false)
        .generate()
        .map_err(|e| {
            format!(
                "bindgen fails on {HEADER} (is libclang installed?): {}",
                e.to_string().replace('\n', " ")
            )
        })?
        .write_to_file(Path::new(&out).join("bindings.rs"))
        .map_err(|e| format!("cannot write the bindings: {e}"))
}
