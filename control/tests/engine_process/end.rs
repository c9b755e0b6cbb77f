//! How a gateway ends.

use std::fs;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

#[test]
fn a_killed_gateways_folder_goes_at_the_next_start() {
    root_only!();
    let folder = folder();
    let path = config(folder.path(), NO_HUGE, &port("net_null0"));
    let first = Gateway::start(&path);
    let left = first.runtime_folder();
    // Dropping kills it: nothing is cleaned up.
    drop(first);
    assert!(left.exists());
    let second = Gateway::start(&path);
    assert!(!left.exists());
    let log = second.end();
    assert!(
        log.contains("SIGTERM") && log.contains("the gateway has stopped"),
        "{log}"
    );
}

#[test]
fn a_refused_start_leaves_nothing() {
    let folder = folder();
    let node = format!("{NO_HUGE}\n  file_prefix: tg-refused-{}", std::process::id());
    let path = config(folder.path(), &node, &port("net_null0,nonsense=1"));
    assert_eq!(Gateway::fail(&path).0, 1);
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["gw.yaml"]);
    let prefix = format!("dpdk/tg-refused-{}", std::process::id());
    assert!(
        ["/var/run", "/tmp"]
            .iter()
            .all(|base| !std::path::Path::new(base).join(&prefix).exists())
    );
}
