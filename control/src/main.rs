//! The `tidegate` program: everything is in the library, so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::cli::main()
}
