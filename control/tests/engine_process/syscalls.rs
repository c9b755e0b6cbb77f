//! A worker that polls makes no system call and waits for no page, on the devices that need none.

use std::fs;
use std::process::Command;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

/// Page faults of a thread so far, those that were served from memory.
fn faults(gateway: &Gateway, thread: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/task/{thread}/stat", gateway.pid())).unwrap();
    let after_name = text.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(7).unwrap().parse().unwrap()
}

fn check(device: &str) {
    let folder = folder();
    let node = format!("{NO_HUGE}\n  idle: poll");
    let mut gateway = Gateway::start(&config(folder.path(), &node, &port(device)));
    // The announcements of the start are over, and every path of an idle worker has been taken.
    gateway.until("a worker that turns", |gateway| {
        let workers = gateway.show("workers").to_string();
        !workers.contains("\"turns\":0,")
    });
    let worker = gateway.worker();
    let before = faults(&gateway, worker);
    let output = Command::new("timeout")
        .args(["-s", "INT", "2", "strace", "-p", &worker.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("attached"), "{text}");
    let calls: Vec<&str> = text
        .lines()
        .filter(|line| line.contains('(') && !line.starts_with("strace:"))
        .collect();
    assert!(calls.is_empty(), "{device}: {calls:?}");
    let new = faults(&gateway, worker) - before;
    assert!(new < 16, "{device}: {new} page faults");
    gateway.end();
}

#[test]
fn a_polling_worker_makes_no_system_call() {
    root_only!();
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: there is no strace");
        return;
    }
    check("net_null0");
    check("net_ring0");
    check("net_memif0,role=server,socket=tg-test");
}
