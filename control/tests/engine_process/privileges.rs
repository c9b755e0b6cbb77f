//! Becoming another user: who is who afterwards, and whether a reload still works.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

/// The user of every thread.
fn users(gateway: &Gateway) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap();
    let mut users: Vec<String> = tasks
        .map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            status
                .lines()
                .find(|line| line.starts_with("Uid:"))
                .unwrap()
                .to_owned()
        })
        .collect();
    users.dedup();
    users
}

#[test]
fn every_thread_becomes_nobody_and_a_reload_works() {
    root_only!();
    let folder = folder();
    let path = config(folder.path(), NO_HUGE, &port("net_null0"));
    let mut gateway = Gateway::start(&path);
    assert_eq!(users(&gateway), ["Uid:\t65534\t65534\t65534\t65534"]);
    assert!(!gateway.log.contains("a reload will fail"), "{}", gateway.log);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("addresses: [192.0.2.1/24]", "addresses: [192.0.2.3/24]"),
    )
    .unwrap();
    gateway.signal("HUP");
    gateway.wait_for("reloaded: ");
    assert!(gateway.show("ports").to_string().contains("192.0.2.3"));
    gateway.end();
}

#[test]
fn a_file_that_nobody_may_read_is_told_at_start_and_at_reload() {
    root_only!();
    let folder = folder();
    let path = config(folder.path(), NO_HUGE, &port("net_null0"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut gateway = Gateway::start(&path);
    let expected = format!(
        "a reload will fail: user nobody may not read {}; ",
        path.display()
    );
    assert!(gateway.log.contains(&expected), "{}", gateway.log);
    gateway.signal("HUP");
    let line = gateway.wait_for("reload refused: ");
    assert!(line.contains("Permission denied"), "{line}");
    // Closed at a folder above it instead.
    gateway.end();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let gateway = Gateway::start(&path);
    let expected = format!("user nobody may not enter {}; ", folder.path().display());
    assert!(gateway.log.contains(&expected), "{}", gateway.log);
    gateway.end();
}

#[test]
fn root_and_another_user_by_name() {
    root_only!();
    for (user, id) in [("root", 0), ("daemon", 1)] {
        let folder = folder();
        let node = format!("{NO_HUGE}\n  user: {user}");
        let gateway = Gateway::start(&config(folder.path(), &node, &port("net_null0")));
        assert_eq!(users(&gateway), [format!("Uid:\t{id}\t{id}\t{id}\t{id}")]);
        gateway.end();
    }
}
