//! The golden tests as a program: `cargo test -p tidegate-tests --test golden`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_tests::golden::main()
}
