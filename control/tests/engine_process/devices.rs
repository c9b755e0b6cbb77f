//! Each software device that needs nothing but the process itself, and one of the operator's own.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::gateway::{Gateway, NO_HUGE, config, folder, port, root_only};

#[test]
fn net_null_floods_and_telemetry_answers() {
    let folder = folder();
    let mut gateway = Gateway::start(&config(folder.path(), NO_HUGE, &port("net_null0")));
    assert_eq!(
        gateway.telemetry("/ethdev/list"),
        serde_json::json!({ "/ethdev/list": [0] })
    );
    gateway.until("a flood of empty frames", |gateway| gateway.packets(0).0 > 10_000);
    gateway.end();
}

/// Four workers on one CPU: a port with queues for all is told whose packets are whose, one with a single queue is shared.
#[test]
fn several_workers_have_queues_of_their_own_or_share_one() {
    let folder = folder();
    let node = format!("{NO_HUGE}\n  mbufs: 8191\n  workers_per_cpu: 4");
    let more = "\n  - { name: b, device: net_ring0, queues: 1, addresses: [198.51.100.1/24] }";
    let ports = port("net_null0,size=100,no-rx=1") + more;
    let mut gateway = Gateway::start(&config(folder.path(), &node, &ports));
    // What a port sends on `net_ring` comes back to it: the announcements of the first worker, which another one sees.
    gateway.until("ARP that comes back", |gateway| gateway.packets(1).0 > 0);
    let ports = gateway.show("ports");
    let of = |port: usize| (ports[port]["queues"].clone(), ports[port]["spread"].clone());
    assert_eq!(of(0), (4.into(), "by_destination".into()), "{ports}");
    assert_eq!(of(1), (1.into(), "one_queue".into()), "{ports}");
    let workers = gateway.show("workers");
    let workers = workers.as_array().unwrap();
    assert_eq!(workers.len(), 4);
    let cpus = workers.iter().map(|worker| &worker["cpu"]);
    assert!(cpus.clone().all(|cpu| *cpu == workers[0]["cpu"]));
    gateway.end();
}

/// What a port sends on `net_ring` comes back to it: gratuitous ARP of its own.
#[test]
fn net_ring_loops() {
    let folder = folder();
    let mut gateway = Gateway::start(&config(folder.path(), NO_HUGE, &port("net_ring0")));
    gateway.until("ARP that comes back", |gateway| gateway.packets(0).0 > 0);
    gateway.end();
}

#[test]
fn two_memif_ports_talk_to_each_other() {
    let folder = folder();
    let socket = folder.path().join("memif.sock");
    let device = |number: u32, role: &str| {
        format!(
            "net_memif{number},role={role},socket-abstract=no,socket={}",
            socket.display()
        )
    };
    let ports = format!(
        "{}\n  - {{ name: b, device: \"{}\", addresses: [198.51.100.1/24] }}",
        port(&device(0, "server")),
        device(1, "client")
    );
    let mut gateway = Gateway::start(&config(folder.path(), NO_HUGE, &ports));
    gateway.until("ARP in both directions", |gateway| {
        gateway.packets(0).0 > 0 && gateway.packets(1).0 > 0
    });
    gateway.end();
    assert!(!socket.exists());
}

/// JUMBO-01: the members of a bond have its MTU.
#[test]
fn a_bond_gives_its_mtu_to_its_members() {
    let folder = folder();
    let port = "ports:\n  - { name: a, bond: { mode: active-backup, members: [\"net_null0,size=60\", \"net_null1,size=60\"] }, \
                mtu: 9000, mac: 02:00:00:00:00:aa, addresses: [192.0.2.1/24] }";
    let gateway = Gateway::start(&config(folder.path(), &format!("{NO_HUGE}\n  mbufs: 4095"), port));
    for device in 0..3 {
        let info = gateway.telemetry(&format!("/ethdev/info,{device}"));
        assert_eq!(info["/ethdev/info"]["mtu"], 9000, "{info}");
    }
    let ports = gateway.show("ports");
    assert_eq!(ports[0]["mac"], "02:00:00:00:00:aa");
    gateway.end();
}

/// The link of memif is whether the other side is there.
#[test]
fn a_link_that_comes_up_late_is_told_of() {
    let folder = folder();
    let port = port("net_memif0,role=server,socket-abstract=no,socket=").replace(
        "socket=\"",
        &format!("socket={}\"", folder.path().join("late.sock").display()),
    );
    let mut gateway = Gateway::start(&config(folder.path(), NO_HUGE, &port));
    let ports = gateway.show("ports");
    assert_eq!(
        (&ports[0]["link_up"], &ports[0]["link_changes"]),
        (&false.into(), &0.into())
    );
    gateway.until("announcements dropped", |gateway| {
        let drops = gateway.show("drops");
        let drops = drops.as_array().unwrap().iter();
        drops
            .clone()
            .any(|row| row["reason"] == "link_down" && row["total"].as_u64() > Some(0))
    });
    gateway.end();
}

#[test]
fn a_small_mtu_and_a_large_one() {
    for mtu in [576, 9000] {
        let folder = folder();
        let port = port("net_null0,size=60").replace("addresses", &format!("mtu: {mtu}, addresses"));
        let gateway = Gateway::start(&config(folder.path(), NO_HUGE, &port));
        assert_eq!(gateway.telemetry("/ethdev/info,0")["/ethdev/info"]["mtu"], mtu);
        gateway.end();
    }
}

/// A driver that DPDK does not come with: its `net_null` under another name.
#[test]
fn a_driver_of_the_operators_own_is_loaded() {
    root_only!();
    let Some(source) = installed("librte_net_null.so") else {
        eprintln!("skipped: DPDK's drivers are not in a folder of their own");
        return;
    };
    // DPDK takes no driver from a folder that anybody may write to, nor from one below such a folder.
    let folder = tempfile::tempdir_in("/var/lib").unwrap();
    let driver = folder.path().join("librte_net_mock.so");
    let mut bytes = fs::read(source).unwrap();
    for at in 0..bytes.len() - 8 {
        if bytes[at..].starts_with(b"net_null") || bytes[at..].starts_with(b"eth_null") {
            bytes[at + 4..at + 8].copy_from_slice(b"mock");
        }
    }
    fs::write(&driver, bytes).unwrap();
    let node = format!("{NO_HUGE}\n  drivers: [{}]", driver.display());
    let mut gateway = Gateway::start(&config(folder.path(), &node, &port("net_mock0")));
    assert!(gateway.log.contains("net_mock"), "{}", gateway.log);
    // Nothing is known of such a driver, so the gateway stays root.
    assert!(
        gateway.log.contains("no other user is taken on"),
        "{}",
        gateway.log
    );
    gateway.until("packets", |gateway| gateway.packets(0).0 > 0);
    gateway.end();
}

fn installed(name: &str) -> Option<std::path::PathBuf> {
    let folder = Command::new("pkg-config")
        .args(["--variable=libdir", "libdpdk"])
        .output()
        .ok()?;
    let folder = String::from_utf8(folder.stdout).ok()?;
    let path = Path::new(folder.trim()).join(name);
    path.exists().then_some(path)
}

/// Returns the machine's hugepages as they were.
struct Reserved(String);

const PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl Drop for Reserved {
    fn drop(&mut self) {
        let _ = fs::write(PAGES, &self.0);
    }
}

#[test]
fn packets_lie_in_hugepages_where_there_are_any() {
    root_only!();
    let _reserved = Reserved(fs::read_to_string(PAGES).unwrap());
    fs::write(PAGES, "96").unwrap();
    if fs::read_to_string(PAGES).unwrap().trim() != "96" {
        eprintln!("skipped: the kernel has no 96 hugepages to give");
        return;
    }
    for node in ["  hugepages: 128", "  hugepages: auto"] {
        let folder = folder();
        let mut gateway = Gateway::start(&config(folder.path(), node, &port("net_null0")));
        assert!(gateway.log.contains("hugepages=true"), "{}", gateway.log);
        gateway.until("packets", |gateway| gateway.packets(0).0 > 0);
        gateway.end();
    }
}
