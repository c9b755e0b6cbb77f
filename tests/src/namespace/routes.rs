//! Routes that the gateway takes from the kernel's table, with real routers:
//!
//! ```text
//!                          +-- router 1  203.0.113.11 --+
//!     gateway --- switch --+                            +-- client  198.51.100.1
//!        |                 +-- router 2  203.0.113.12 --+
//!        +--- backend 10.0.0.11
//! ```
//!
//! The routers are `server1` and `server2` of the lab, and the backend is in the switch. In the gateway's namespace the
//! kernel's device `kw0` stands for its port; its other end is in the switch too.

mod daemon;

use crate::lab::{Echo, Gateway, Host, Lab, PATIENCE, until};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const VIP: &str = "203.0.113.100:7";
const CLIENTS: &str = "198.51.100.0/24";
const FLOWS: u64 = 100;

const YAML: &str = r#"
node:
  name: test
  hugepages: off
  memory: 256
  idle: sleep
  limits: { connections: 10_000, services: 64, servers: 256, neighbours: 256 }
metrics: { listen: "127.0.0.1:9101" }
ports:
  - { name: wan, device: "net_af_packet0,iface=wan0", addresses: [203.0.113.2/24], kernel_device: kw0 }
  - { name: lan, device: "net_af_packet1,iface=lan0", addresses: [10.0.0.1/24] }
kernel_routes: main
local_addresses: [{ name: dip, port: lan, addresses: [10.0.0.200] }]
pools: [{ name: echo, servers: [{ address: 10.0.0.11 }] }]
services: [{ name: echo, listen: "203.0.113.100:7/udp", pool: echo, mode: fullnat, local_addresses: dip }]
"#;

fn cabled() -> Lab {
    let lab = Lab::bare();
    let switch = lab.host("switch");
    switch.run("ip link add wan type bridge mcast_snooping 0");
    switch.run("ip link set wan up");
    lab.link("gateway", "wan0", "switch", "gateway");
    switch.run("ip link set gateway master wan");
    lab.link("gateway", "lan0", "switch", "back0");
    switch.run("ip address add 10.0.0.11/24 dev back0");
    let client = lab.client();
    client.run("ip address add 198.51.100.1/32 dev lo");
    for number in [1, 2] {
        let (name, direct) = (format!("server{number}"), format!("direct{number}"));
        lab.link(&name, "wan0", "switch", &name);
        switch.run(&format!("ip link set {name} master wan"));
        lab.link(&name, "out0", "client", &direct);
        let (ours, theirs) = (4 * number + 1, 4 * number + 2);
        let router = lab.server(number);
        router.run("sysctl -qw net.ipv4.ip_forward=1");
        router.run(&format!("ip address add 203.0.113.1{number}/24 dev wan0"));
        router.run(&format!("ip address add 192.0.2.{ours}/30 dev out0"));
        router.run(&format!("ip route add {CLIENTS} via 192.0.2.{theirs}"));
        client.run(&format!("ip address add 192.0.2.{theirs}/30 dev {direct}"));
    }
    // Requests come by router 2, whatever way replies take.
    client.run("ip route add default via 192.0.2.9");
    let gateway = lab.host("gateway");
    gateway.run("sysctl -qw net.ipv4.conf.all.arp_ignore=1");
    lab.link("gateway", "kw0", "switch", "kw1");
    switch.run("ip link set kw1 master wan");
    gateway.run("ip address add 203.0.113.3/24 dev kw0");
    lab
}

/// Clients that ask once each.
struct Flows(Vec<UdpSocket>);

impl Flows {
    fn new(client: &Host) -> Flows {
        let socket = |_| {
            let socket = UdpSocket::bind("198.51.100.1:0").unwrap();
            socket.connect(VIP).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Flows(client.inside(|| (0..FLOWS).map(socket).collect()))
    }

    /// Asks once by each flow; how many are answered within a short while.
    fn ask(&self) -> u64 {
        let mut datagram = [0; 16];
        for socket in &self.0 {
            while socket.recv(&mut datagram).is_ok() {}
            // The kernel tells here of an error that an earlier request has met.
            let _ = socket.send(b"?");
        }
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut waiting: Vec<&UdpSocket> = self.0.iter().collect();
        while !waiting.is_empty() && Instant::now() < deadline {
            waiting.retain(|socket| socket.recv(&mut datagram).is_err());
            std::thread::park_timeout(Duration::from_millis(5));
        }
        FLOWS - waiting.len() as u64
    }

    /// Asks until all are answered at once; how many replies each router has carried then.
    fn all(&self, lab: &Lab) -> [u64; 2] {
        until("all flows to be answered", PATIENCE, || {
            let before = carried(lab);
            let answered = self.ask();
            let after = carried(lab);
            (answered == FLOWS).then_some([after[0] - before[0], after[1] - before[1]])
        })
    }
}

/// Packets that each router has sent to the client.
fn carried(lab: &Lab) -> [u64; 2] {
    [1, 2].map(|number| {
        let text = lab
            .server(number)
            .run("cat /sys/class/net/out0/statistics/tx_packets");
        text.trim().parse().unwrap()
    })
}

/// `via state` of the kernel's routes to a prefix.
fn hops(gateway: &Gateway, to: &str) -> Vec<String> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let rows = gateway.rows("routes");
    let rows = rows
        .iter()
        .filter(|row| row["source"] == "kernel" && row["to"] == to);
    rows.map(|row| format!("{} {}", text(row, "via"), text(row, "state")))
        .collect()
}

fn await_hops(gateway: &Gateway, to: &str, expected: &[&str]) {
    let mut last = Vec::new();
    let seen = || {
        last = hops(gateway, to);
        (last == expected).then_some(())
    };
    let what = format!("{to} by {expected:?}");
    until(&what, 2 * PATIENCE, seen);
}

fn of_kernel(gateway: &Gateway) -> usize {
    gateway
        .rows("routes")
        .iter()
        .filter(|row| row["source"] == "kernel")
        .count()
}

#[test]
fn the_kernels_routes_steer_replies_over_both_routers_and_away_from_a_dead_one() {
    let lab = cabled();
    let _echo = Echo::start(&lab.host("switch"), "10.0.0.11:7".parse().unwrap());
    let gateway = Gateway::start(&lab, YAML);
    let kernel = lab.host("gateway");
    let flows = Flows::new(&lab.client());
    let both = format!(
        "ip route replace {CLIENTS} nexthop via 203.0.113.11 dev kw0 nexthop via 203.0.113.12 dev kw0"
    );
    let alive = ["203.0.113.11 reachable", "203.0.113.12 reachable"];

    // No route back yet.
    assert_eq!(flows.ask(), 0);
    assert!(gateway.dropped("no_route") > 0);
    kernel.run(&both);
    await_hops(&gateway, CLIENTS, &alive);
    let shares = flows.all(&lab);
    assert!(shares.iter().all(|share| *share >= FLOWS / 4), "{shares:?}");

    kernel.run(&format!("ip route replace {CLIENTS} via 203.0.113.12 dev kw0"));
    await_hops(&gateway, CLIENTS, &alive[1..]);
    let shares = flows.all(&lab);
    assert!(shares[0] < 10 && shares[1] >= FLOWS, "{shares:?}");

    kernel.run(&format!("ip route del {CLIENTS}"));
    await_hops(&gateway, CLIENTS, &[]);
    until("replies to have no way", PATIENCE, || {
        (flows.ask() == 0).then_some(())
    });

    kernel.run(&both);
    await_hops(&gateway, CLIENTS, &alive);
    let before = flows.all(&lab);
    // Router 1 falls silent: a cable is cut that the gateway does not see.
    lab.server(1).run("ip link set wan0 down");
    let cut = Instant::now();
    await_hops(&gateway, CLIENTS, &["203.0.113.11 failed", alive[1]]);
    println!("the dead router was left after {:?}", cut.elapsed());
    let shares = flows.all(&lab);
    assert!(shares[0] < 10 && shares[1] >= FLOWS, "{shares:?}");
    // Back, with the flows that it had before.
    lab.server(1).run("ip link set wan0 up");
    await_hops(&gateway, CLIENTS, &alive);
    until("the flows to be back", PATIENCE, || {
        let shares = flows.all(&lab);
        (shares[0].abs_diff(before[0]) < 10).then_some(())
    });
    gateway.finish();
}

#[test]
fn a_flood_of_changes_costs_few_snapshots_and_what_the_kernel_does_not_tell_is_seen() {
    const ROUTES: usize = 10_000;
    let lab = cabled();
    let gateway = Gateway::start(&lab, YAML);
    let kernel = lab.host("gateway");

    // IPv6: routers by their link-local addresses, added, changed and withdrawn one by one.
    kernel.run("sysctl -qw net.ipv6.conf.kw0.disable_ipv6=0 net.ipv6.conf.kw0.accept_dad=0");
    let six = "2001:db8:c::/48";
    kernel.run(&format!(
        "ip -6 route add {six} nexthop via fe80::11 dev kw0 nexthop via fe80::12 dev kw0 weight 3"
    ));
    let vias = |expected: &[&str]| {
        until(&format!("{six} by {expected:?}"), PATIENCE, || {
            let hops = hops(&gateway, six);
            let vias = hops.iter().map(|hop| hop.split(' ').next().unwrap());
            vias.eq(expected.iter().copied()).then_some(())
        });
    };
    vias(&["fe80::11", "fe80::12"]);
    kernel.run(&format!("ip -6 route del {six} via fe80::11 dev kw0"));
    vias(&["fe80::12"]);
    kernel.run(&format!("ip -6 route append {six} via fe80::13 dev kw0"));
    vias(&["fe80::12", "fe80::13"]);
    kernel.run(&format!("ip -6 route del {six}"));
    kernel.run(&format!("ip -6 route flush {six}"));
    vias(&[]);
    // A worse metric waits for the better one to go.
    kernel.run(&format!(
        "ip route add {CLIENTS} via 203.0.113.12 dev kw0 metric 20"
    ));
    kernel.run(&format!(
        "ip route add {CLIENTS} via 203.0.113.11 dev kw0 metric 10"
    ));
    let via = |expected: &str| {
        until(expected, PATIENCE, || {
            let hops = hops(&gateway, CLIENTS);
            (hops.len() == 1 && hops[0].starts_with(expected)).then_some(())
        });
    };
    via("203.0.113.11 ");
    kernel.run(&format!("ip route del {CLIENTS} metric 10"));
    via("203.0.113.12 ");

    let present = of_kernel(&gateway);
    let batch = |verb: &str| {
        let line = |number: usize| {
            format!(
                "route {verb} 172.{}.{}.0/24 via 203.0.113.11 dev kw0\n",
                16 + number / 256,
                number % 256
            )
        };
        let file = lab.file(verb);
        fs::write(&file, (0..ROUTES).map(line).collect::<String>()).unwrap();
        let (epoch, begun) = (gateway.epoch(), Instant::now());
        kernel.run(&format!("ip -batch {}", file.display()));
        (epoch, begun)
    };
    for (verb, count) in [("add", present + ROUTES), ("del", present)] {
        let (epoch, begun) = batch(verb);
        until("all routes", 2 * PATIENCE, || {
            (of_kernel(&gateway) == count).then_some(())
        });
        let snapshots = gateway.epoch() - epoch;
        println!(
            "{ROUTES} times `ip route {verb}`: {snapshots} snapshots, all there after {:?}",
            begun.elapsed()
        );
        assert!(snapshots <= 20, "{snapshots} snapshots");
    }
    batch("add");
    until("all routes", 2 * PATIENCE, || {
        (of_kernel(&gateway) > ROUTES).then_some(())
    });
    // Of a device that goes down the kernel tells, of its IPv4 routes it does not.
    kernel.run("ip link set kw0 down");
    until("the routes of a dead device to go", 2 * PATIENCE, || {
        (of_kernel(&gateway) == 0).then_some(())
    });
    gateway.finish();
}
