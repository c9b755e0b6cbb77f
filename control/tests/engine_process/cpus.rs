//! Threads stay on the CPUs that the configuration names.

use std::fs;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

/// The CPUs that each thread of this name may use, as the kernel lists them.
fn cpus_of(gateway: &Gateway, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap();
    let status = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let field = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim().to_owned()
    };
    let named = status.filter(|text| field(text, "Name:").starts_with(name));
    named.map(|text| field(&text, "Cpus_allowed_list:")).collect()
}

#[test]
fn workers_and_control_stay_on_their_cpus() {
    root_only!();
    let folder = folder();
    let node = format!("{NO_HUGE}\n  workers: [0]\n  control_cpu: 0");
    let gateway = Gateway::start(&config(folder.path(), &node, &port("net_ring0")));
    let control = cpus_of(&gateway, "control");
    assert!(
        !control.is_empty() && control.iter().all(|cpus| cpus == "0"),
        "{control:?}"
    );
    assert_eq!(cpus_of(&gateway, "worker0"), ["0"]);
    gateway.end();
}
