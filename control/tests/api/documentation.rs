//! The documentation of the metrics and drop reasons holds what the code holds, and nothing else.

use dataplane::drops::DropReason;
use std::collections::HashSet;
use tidegate::metrics::{ALL, Kind};

fn text() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    std::fs::read_to_string(path).unwrap()
}

/// The first cells of all table rows.
fn names(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect()
}

#[test]
fn every_metric_and_drop_reason_is_documented_in_the_words_of_the_code() {
    let text = text();
    let rows: HashSet<&str> = text.lines().collect();
    let mut missing = Vec::new();
    for about in ALL {
        let kind = if about.kind == Kind::Counter {
            "counter"
        } else {
            "gauge"
        };
        let row = format!(
            "| `{}` | {kind} | {} | {} |",
            about.name,
            about.labels.join(", "),
            about.help
        );
        missing.extend((!rows.contains(row.as_str())).then_some(row));
    }
    for reason in DropReason::ALL {
        let row = format!("| `{}` | {} |", reason.label(), reason.text());
        missing.extend((!rows.contains(row.as_str())).then_some(row));
    }
    assert!(
        missing.is_empty(),
        "add to docs/metrics.md:\n{}",
        missing.join("\n")
    );
}

#[test]
fn nothing_is_documented_twice_or_that_does_not_exist() {
    let text = text();
    let mut known: HashSet<&str> = ALL.iter().map(|about| about.name).collect();
    known.extend(DropReason::ALL.iter().map(|reason| reason.label()));
    assert_eq!(known.len(), ALL.len() + DropReason::COUNT, "names are unique");
    for name in names(&text) {
        assert!(
            known.remove(name),
            "{name} is documented twice, or does not exist"
        );
    }
}
