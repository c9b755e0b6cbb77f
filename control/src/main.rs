//! The `tidegate` program.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [run, option, path] = &arguments[..] else {
        return ExitCode::from(2);
    };
    if (run.as_str(), option.as_str()) != ("run", "--config") {
        return ExitCode::from(2);
    }
    let config = match tidegate::config::load(Path::new(path)) {
        Ok(config) => config,
        Err(errors) => {
            eprintln!("{errors}");
            return ExitCode::from(2);
        }
    };
    match tidegate::engine::run(Path::new(path), config) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(1)
        }
    }
}
