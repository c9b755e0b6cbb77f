//! `tidegate replay` as an operator uses it: each `tests/replay/NAME.jsonl` over `tests/replay/replay.yaml` must
//! print what `NAME.expected` holds. `TIDEGATE_UPDATE=1` writes the files anew, to be read before they are committed.
// A test's helpers are tests as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("replay")
}

fn replay(scenario: &Path) -> Output {
    let program = std::env::var_os("TIDEGATE_BIN").map_or_else(
        || {
            std::env::current_exe()
                .unwrap()
                .ancestors()
                .nth(2)
                .unwrap()
                .join("tidegate")
        },
        PathBuf::from,
    );
    let mut command = Command::new(program);
    command
        .args(["replay", "--connections", "--config"])
        .arg(folder().join("replay.yaml"))
        .arg(scenario);
    command.output().expect("cargo build -p tidegate")
}

#[test]
fn scenarios_give_what_is_expected() {
    let scenarios = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut scenarios: Vec<PathBuf> = scenarios
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    scenarios.sort();
    assert!(!scenarios.is_empty());
    for scenario in scenarios {
        let output = replay(&scenario);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {message}", scenario.display());
        let printed = String::from_utf8(output.stdout).unwrap();
        let expected = scenario.with_extension("expected");
        if std::env::var_os("TIDEGATE_UPDATE").is_some() {
            fs::write(&expected, &printed).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap();
        for (number, (printed, expected)) in printed.lines().zip(expected.lines()).enumerate() {
            assert_eq!(
                printed,
                expected,
                "{}, line {} of its output",
                scenario.display(),
                number + 1
            );
        }
        assert_eq!(
            printed.lines().count(),
            expected.lines().count(),
            "{}",
            scenario.display()
        );
    }
}

#[test]
fn a_wrong_line_is_named() {
    let scenario = std::env::temp_dir().join(format!("tidegate-replay-{}.jsonl", std::process::id()));
    fs::write(&scenario, "{\"at\": 1}\n{\"at\": 2, \"prot\": \"wan\"}\n").unwrap();
    let output = replay(&scenario);
    fs::remove_file(&scenario).unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && message.contains(".jsonl:2:") && message.contains("prot"),
        "{message}"
    );
}
