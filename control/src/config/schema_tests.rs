//! Holds together what is accepted, what is read and what is documented.

use std::collections::BTreeSet;

use super::schema::ALL;

/// A document in which `key` of the section at `path` (such as `pools[].servers[]`) is `value`.
fn document(path: &str, key: &str, value: &str) -> String {
    let mut text = format!("{{ {key}: {value} }}");
    for part in path.split('.').filter(|part| !part.is_empty()).rev() {
        text = match part.strip_suffix("[]") {
            Some(list) => format!("{{ {list}: [ {text} ] }}"),
            None => format!("{{ {part}: {text} }}"),
        };
    }
    text
}

#[test]
fn every_key_is_read() {
    for section in ALL {
        for key in section.keys {
            let errors =
                super::parse("t", &document(section.path, key, "[[[]]]")).expect_err("a list of lists");
            let dot = if section.path.is_empty() { "" } else { "." };
            let path = format!("{}{dot}{key}", section.path.replace("[]", "[0]"));
            let about_it = |path_of: &str| {
                path_of
                    .strip_prefix(&*path)
                    .is_some_and(|rest| !rest.starts_with('_'))
            };
            let found = errors.errors.iter().find(|error| about_it(&error.path));
            assert!(
                found.is_some_and(|error| error.problem.starts_with("found")),
                "{path} is not read:\n{errors}"
            );
        }
    }
}

#[test]
fn every_key_is_documented_and_nothing_else() {
    let docs = include_str!("../../../docs/configuration.md");
    let mut documented = BTreeSet::new();
    let mut section = "";
    for line in docs.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.trim_matches('`');
        }
        let Some(row) = line.strip_prefix("| `") else {
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
        assert!(
            cells.len() == 4 && cells.iter().all(|cell| !cell.is_empty()),
            "not four cells: {line}"
        );
        assert!(
            documented.insert((section, cells[0].trim_end_matches('`'))),
            "twice: {line}"
        );
    }
    let title = |path: &'static str| if path.is_empty() { "The document" } else { path };
    let known: BTreeSet<_> = ALL
        .iter()
        .flat_map(|section| section.keys.iter().map(|key| (title(section.path), *key)))
        .collect();
    assert_eq!(
        documented.difference(&known).collect::<Vec<_>>(),
        [] as [&(&str, &str); 0],
        "documented only"
    );
    assert_eq!(
        known.difference(&documented).collect::<Vec<_>>(),
        [] as [&(&str, &str); 0],
        "not documented"
    );
}
