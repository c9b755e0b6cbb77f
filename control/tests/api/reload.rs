//! Reload through the API.

use crate::support::{BASE, Fake, with_socket};
use std::fs;
use std::process::Command;
use std::time::Duration;
use tidegate::view::{Reload, Server, Service, Status};

#[test]
fn a_good_file_is_applied_and_what_it_leaves_alone_keeps_its_counters() {
    let fake = Fake::new(BASE);
    (1..=3).for_each(|port| fake.open(port));
    fake.write(&BASE.replace(
        "servers: [{ address: 10.0.0.11, port: 8080 }] }",
        "servers: [{ address: 10.0.0.11, port: 8080 }, { address: 10.0.0.13, port: 8080 }] }",
    ));
    let (status, body) = fake.ask("POST", "/v1/reload");
    assert_eq!(status, 200, "{body}");
    let reload: Reload = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (
            reload.epoch,
            reload.changes.servers_added,
            reload.changes.servers_removed
        ),
        (2, 2, 0)
    );
    assert!(reload.summary.contains("servers: 2 added"), "{}", reload.summary);
    let services: Vec<Service> = fake.get("/v1/services");
    assert_eq!((services[0].totals.connections, services[1].servers), (3, 2));
    let status: Status = fake.get("/v1/status");
    assert_eq!(
        (status.epoch, status.reloads.succeeded, status.reloads.failed),
        (2, 1, 0)
    );
}

#[test]
fn a_bad_file_changes_nothing_and_every_error_is_told() {
    let fake = Fake::new(BASE);
    fake.write(
        &BASE
            .replace("pool: web", "pool: wbe")
            .replace("scheduler: rr", "schedulr: rr"),
    );
    let (status, body) = fake.ask("POST", "/v1/reload");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    let errors: Vec<&str> = answer["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error.as_str().unwrap())
        .collect();
    assert_eq!((status, errors.len()), (422, 3), "{body}");
    assert!(
        errors.iter().all(|error| error.contains("gateway.yaml:")),
        "{body}"
    );
    assert_eq!(
        answer["error"].as_str().unwrap().lines().collect::<Vec<_>>(),
        errors
    );
    let status: Status = fake.get("/v1/status");
    assert_eq!((status.epoch, status.services), (1, 3));
    assert_eq!((status.reloads.failed, status.reloads.last_succeeded), (1, false));
}

#[test]
fn what_takes_a_restart_is_refused() {
    let fake = Fake::new(BASE);
    fake.write(
        &BASE
            .replace("name: gw1", "name: gw2")
            .replace("net_null1", "net_null7"),
    );
    let (status, body) = fake.ask("POST", "/v1/reload");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, answer["errors"].as_array().unwrap().len()),
        (422, 2),
        "{body}"
    );
}

/// VLAN-01: nothing may be left that points to a port that is gone.
#[test]
fn a_vlan_comes_and_goes_with_a_restart_only() {
    let fake = Fake::new(BASE);
    let with_vlan = BASE.replace(
        "neighbours:\n",
        "  - { name: dmz, parent: lan, vlan: 20, addresses: [10.20.0.1/24] }\nneighbours:\n",
    );
    fake.write(&with_vlan);
    let (status, body) = fake.ask("POST", "/v1/reload");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, answer["error"].as_str().unwrap()),
        (
            422,
            "ports (name, device, bond, parent, vlan, mtu, mac, queues, kernel_device, exception) cannot change while the gateway runs; restart it, or \
             undo the change"
        )
    );
    let fake = Fake::new(&with_vlan);
    fake.write(&with_vlan.replace("vlan: 20", "vlan: 21"));
    assert_eq!(fake.ask("POST", "/v1/reload").0, 422);
    fake.write(BASE);
    assert_eq!(fake.ask("POST", "/v1/reload").0, 422);
    // Its addresses may change.
    fake.write(&with_vlan.replace("10.20.0.1/24", "10.20.0.1/24, 2001:db8:20::1/64"));
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
}

#[test]
fn a_service_keeps_what_a_deleted_server_has_counted() {
    let fake = Fake::new(BASE);
    (1..=3).for_each(|port| fake.open(port));
    let total = || fake.get::<Vec<Service>>("/v1/services")[0].totals;
    let before = total();
    let removed = BASE.replace(", { address: 10.0.0.12, port: 8080, weight: 2 }", "");
    fake.write(&removed);
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    let after = total();
    assert_eq!(
        (after.connections, after.inbound_bytes),
        (before.connections, before.inbound_bytes)
    );
    // What exists now is that of the servers that exist now.
    assert_eq!(after.active + after.inactive, 1);
    assert_eq!(fake.get::<Vec<Server>>("/v1/servers").len(), 3);
    // It comes back as the one that it was.
    fake.write(BASE);
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    assert_eq!(total(), before);
}

/// RLD-07: of reloads that come at once, the one that began last decides, however slowly another one's file is read.
#[test]
fn rld_07_the_last_of_many_reloads_decides() {
    let fake = Fake::new(BASE);
    let file = fake.directory.path().join("gateway.yaml");
    let with = |weight: u32| {
        let text = BASE.replace("port: 8080, weight: 2", &format!("port: 8080, weight: {weight}"));
        with_socket(&text, &fake.socket())
    };
    let weight = || {
        let servers: Vec<Server> = fake.get("/v1/servers");
        servers.iter().map(|server| server.weight).max()
    };
    // The first one reads a pipe, which has nothing for it yet.
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    std::thread::scope(|scope| {
        let reload = || {
            let (status, body) = fake.ask("POST", "/v1/reload");
            assert_eq!(status, 200, "{body}");
        };
        let first = scope.spawn(reload);
        // Opens when it is being read.
        let mut pipe = fs::OpenOptions::new().write(true).open(&file).unwrap();
        let next = fake.directory.path().join("next.yaml");
        fs::write(&next, with(9)).unwrap();
        fs::rename(&next, &file).unwrap();
        let others: Vec<_> = (0..4).map(|_| scope.spawn(reload)).collect();
        // Were they not to wait, they would be done by then.
        for _ in 0..200 {
            if others.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        std::io::Write::write_all(&mut pipe, with(5).as_bytes()).unwrap();
        drop(pipe);
        first.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
    assert_eq!(weight(), Some(9));
    let status: Status = fake.get("/v1/status");
    assert_eq!((status.epoch, status.reloads.succeeded), (6, 5));
}
