//! A worker with `idle: poll` makes no system call, on the devices whose drivers make none.

use crate::lab::{Gateway, Lab, PATIENCE, number, until};
use std::fs;

/// Turns of the worker that strace watches.
const TURNS: u64 = 200_000;

fn yaml(wan: &str, lan: &str) -> String {
    Gateway::usual()
        .replace("net_af_packet0,iface=wan0", wan)
        .replace("net_af_packet1,iface=lan0", lan)
        .replace("idle: sleep", "idle: poll")
}

/// The thread of the first worker.
fn worker_thread(process: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let thread = tasks.map(|task| task.unwrap()).find(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim().starts_with("worker"))
    });
    thread
        .expect("a thread named worker")
        .file_name()
        .into_string()
        .unwrap()
}

fn assert_quiet(wan: &str, lan: &str) {
    let lab = Lab::bare();
    let gateway = Gateway::start(&lab, &yaml(wan, lan));
    let turns = || number(&gateway.rows("workers")[0], "turns");
    until("the worker to turn", PATIENCE, || (turns() > 0).then_some(()));
    let (calls, log) = (lab.file("strace.calls"), lab.file("strace.log"));
    let line = format!("strace -p {} -o {}", worker_thread(gateway.id()), calls.display());
    let mut strace = lab.host("gateway").start(&line, &log);
    until("strace to attach", PATIENCE, || {
        strace.output().contains("attached").then_some(())
    });
    let start = turns();
    until("the worker to turn under strace", PATIENCE, || {
        (turns() > start + TURNS).then_some(())
    });
    strace.signal("INT");
    strace.end("strace", PATIENCE);
    let calls = fs::read_to_string(&calls).unwrap();
    // What strace itself does at its end is no call of the worker's.
    let calls: Vec<&str> = calls.lines().filter(|line| line.contains('(')).collect();
    assert!(
        calls.is_empty(),
        "{} system calls in {TURNS} turns on {wan}, such as {}",
        calls.len(),
        calls[0]
    );
    gateway.finish();
}

#[test]
fn no_system_call_on_net_null() {
    assert_quiet("net_null0", "net_null1");
}

#[test]
fn no_system_call_on_net_ring() {
    assert_quiet("net_ring0", "net_ring1");
}

#[test]
fn no_system_call_on_net_memif() {
    let socket = std::env::temp_dir().join(format!("tgt{}.memif", std::process::id()));
    let device = |number: u8, role: &str| {
        format!(
            "net_memif{number},role={role},id=0,socket-abstract=no,socket={}",
            socket.display()
        )
    };
    assert_quiet(&device(0, "server"), &device(1, "client"));
}
