//! Each setting that a kernel of LVS has is one here, or the documents say why not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;

const KERNEL: &str = include_str!("../../tests/golden/sysctl_defaults.txt");
const DOCS: &str = include_str!("../../docs/lvs-compatibility.md");
const CONFIGURATION: &str = include_str!("../../docs/configuration.md");

/// The table in the document: by setting, what it is here.
fn table() -> BTreeMap<&'static str, &'static str> {
    let (_, section) = DOCS.split_once("## Settings of the kernel").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, here) = row.trim_end_matches(" |").split_once("` | ").unwrap();
        (name, here)
    })
    .collect()
}

#[test]
fn every_setting_of_the_kernel_is_there_or_explained() {
    let table = table();
    let names: Vec<&str> = KERNEL
        .lines()
        .filter_map(|line| Some(line.split_once(" = ")?.0))
        .collect();
    assert!(names.len() > 20);
    let listed: Vec<&str> = table.keys().copied().collect();
    assert_eq!(names, listed, "in the order of the alphabet, as the kernel's");
}

#[test]
fn what_is_called_a_key_is_one() {
    let (_, settings) = CONFIGURATION.split_once("\n## `settings`").unwrap();
    for (name, here) in table() {
        if here.starts_with("not there") {
            continue;
        }
        let key = here
            .strip_prefix("`settings.")
            .and_then(|rest| rest.split('`').next());
        let key = key.unwrap_or_else(|| panic!("{name}: neither a key nor a reason: {here}"));
        assert!(
            settings.contains(&format!("\n| `{key}` |")),
            "{key} is documented"
        );
        assert_eq!(key, name, "called as in LVS");
    }
}
