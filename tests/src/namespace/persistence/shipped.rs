//! `configs/persistence.yaml` as it is, on the network that it describes: everybody on one link, servers in DR.

use super::{address, ends, server_of, templates};
use crate::lab::{Gateway, Host, Lab, Nginx, PATIENCE, until};
use std::net::{SocketAddr, UdpSocket};

const SHIPPED: &str = include_str!("../../../../configs/persistence.yaml");

/// The router with clients behind it, the gateway, and the machines of servers .11 and .13, .12 and .14.
fn lab() -> Lab {
    let lab = Lab::bare();
    let switch = lab.host("switch");
    switch.run("ip link add lan type bridge mcast_snooping 0");
    switch.run("ip link set lan up");
    for name in ["client", "gateway", "server1", "server2"] {
        lab.link(name, "net0", "switch", name);
        switch.run(&format!("ip link set {name} master lan"));
    }
    let router = lab.client();
    router.run("ip address add 203.0.113.1/24 dev net0");
    router.run("sysctl -qw net.ipv4.conf.all.arp_announce=2");
    for (network, host) in [
        (1, 10),
        (1, 99),
        (2, 10),
        (3, 10),
        (4, 10),
        (5, 10),
        (6, 10),
        (7, 10),
    ] {
        router.run(&format!("ip address add {} dev lo", address(network, host)));
    }
    for number in [1, 2] {
        let server = lab.server(number);
        server.run("sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2");
        for own in [number, number + 2] {
            server.run(&format!("ip address add 203.0.113.1{own}/24 dev net0"));
        }
        for vip in 100..=102 {
            server.run(&format!("ip address add 203.0.113.{vip}/32 dev lo"));
        }
        server.run("ip route add default via 203.0.113.1");
    }
    lab
}

/// A socket of SIP's on a machine of servers.
fn sip(host: &Host) -> UdpSocket {
    let vip: SocketAddr = "203.0.113.102:5060".parse().unwrap();
    let socket = host.inside(move || UdpSocket::bind(vip).unwrap());
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Which server gets a message of that call from an address of the client.
fn call(client: &Host, servers: &[UdpSocket; 2], from: &str, id: &str) -> usize {
    let (from, message) = (
        format!("{from}:5060"),
        format!("INVITE sip:a@example.net SIP/2.0\r\nCall-ID: {id}\r\n\r\n"),
    );
    client.inside(|| {
        let socket = UdpSocket::bind(from).unwrap();
        socket.send_to(message.as_bytes(), "203.0.113.102:5060").unwrap();
    });
    until("a message of the call", PATIENCE, || {
        let mut room = [0; 256];
        (1..)
            .zip(servers)
            .find(|(_, server)| {
                server
                    .recv(&mut room)
                    .is_ok_and(|len| room[..len] == *message.as_bytes())
            })
            .map(|(number, _)| number)
    })
}

#[test]
fn the_shipped_configuration_keeps_clients() {
    keeps_clients(str::to_owned);
}

/// As the configuration is after `changed`.
pub(super) fn keeps_clients(changed: impl Fn(&str) -> String) {
    let lab = lab();
    let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    // A machine may have no CPU 1 and little memory: that is all that is changed.
    let yaml = SHIPPED.replace(
        "node: { name: gw1, workers: [1], hugepages: auto, idle: sleep }\n",
        "node:\n  name: gw1\n  workers: auto\n  memory: 256\n  hugepages: off\n  idle: sleep\n",
    );
    assert_ne!(yaml, SHIPPED);
    let yaml = changed(&yaml);
    let gateway = Gateway::start(&lab, &yaml);
    let client = lab.client();

    // A client has one server on both ports of the shop, and so have its neighbours.
    let shop = |from: &str, port| server_of(&client, from, &format!("http://203.0.113.100:{port}/"), 3);
    let known = shop(&address(1, 10), 80);
    assert_eq!(shop(&address(1, 10), 443), known);
    assert_eq!(shop(&address(1, 99), 443), known);
    assert!(
        (2..=7).any(|network| shop(&address(network, 10), 80) != known),
        "one server has all"
    );
    let rows = templates(&gateway);
    let row = rows.iter().find(|row| ends(row)[0] == "198.51.1.0:0");
    let row = row.unwrap_or_else(|| panic!("no network in {rows:?}"));
    assert_eq!((&row["protocol"], ends(row)[1]), (&"ip".into(), "0.0.26.10:0"));

    // All ports of the cluster.
    let cluster = |port| {
        server_of(
            &client,
            &address(2, 10),
            &format!("http://203.0.113.101:{port}/"),
            3,
        )
    };
    assert_eq!(cluster(80), cluster(8080));
    assert_eq!(cluster(80), cluster(443));

    // A call stays where it began, from wherever its messages come; calls spread.
    let sockets = [1, 2].map(|number| sip(&lab.server(number)));
    let calls: Vec<usize> = (0..16)
        .map(|n| {
            let id = format!("call-{n}@example.net");
            let number = call(&client, &sockets, &address(1, 10), &id);
            assert_eq!(call(&client, &sockets, &address(2, 10), &id), number, "{id}");
            number
        })
        .collect();
    assert!(calls.contains(&1) && calls.contains(&2), "{calls:?}");

    // Known clients leave a server that is quiesced.
    let number = known.strip_prefix("server ").unwrap();
    let line = format!("address: 203.0.113.1{number} }}");
    gateway.load(&yaml.replace(&line, &line.replace(" }", ", weight: 0 }")));
    assert_ne!(shop(&address(1, 10), 80), known);
    assert_eq!(shop(&address(1, 10), 443), shop(&address(1, 99), 80));

    // Replies pass the gateway by, and none was lost.
    assert!(
        servers
            .iter()
            .all(|server| server.requests().iter().all(|request| request.status == 200))
    );
    gateway.finish();
}
