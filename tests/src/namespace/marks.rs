//! Firewall marks on the wire: ports of one mark are one service with one server for a client, and where a client comes
//! from may decide which mark it is. In both families.

use crate::lab::{Gateway, Lab, Nginx, PATIENCE, authority, until};
use crate::modes::NETWORK;
use crate::persistence::{ends, server_of, templates};

/// A family's VIP, and its addresses of clients: some of them are `inner`, the prefix of that name.
#[derive(Clone, Copy)]
struct Family {
    vip: &'static str,
    server: &'static str,
    inner: &'static str,
    client: fn(u8, u8) -> String,
    length: u8,
}

const V4: Family = Family {
    vip: "203.0.113.120",
    server: "10.0.0.1",
    inner: "198.51.0.0/24",
    client: |network, host| format!("198.51.{network}.{host}"),
    length: 32,
};

const V6: Family = Family {
    vip: "2001:db8:1::120",
    server: "fd00::1",
    inner: "2001:db8:9:0::/64",
    client: |network, host| format!("2001:db8:9:{network}::{host}"),
    length: 128,
};

/// Networks of clients: enough that both servers are certain to have some.
const NETWORKS: u8 = 12;

impl Family {
    /// The lab, whose client has addresses 10 and 99 of each network, with a web server on both servers.
    fn lab(self) -> (Lab, [Nginx; 2]) {
        let lab = Lab::dual();
        let client = lab.client();
        client.run("sysctl -qw net.ipv4.conf.all.arp_announce=2");
        for network in 0..NETWORKS {
            for host in [10, 99] {
                let address = (self.client)(network, host);
                client.run(&format!("ip address add {address}/{} dev lo", self.length));
            }
        }
        let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
        (lab, servers)
    }

    fn url(self, port: u16) -> String {
        format!("http://{}:{port}/", authority(self.vip))
    }

    /// A gateway with these marks and services. Its pools are `web`, and `first` and `second` with one server each, which
    /// have no ports of their own.
    fn start(self, lab: &Lab, marks: &str, services: &str) -> Gateway {
        let server = |number| format!("{{ address: \"{}{number}\" }}", self.server);
        let yaml = format!(
            "{NETWORK}local_addresses: [{{ name: dip, port: lan, addresses: [10.0.0.200, \"fd00::200\"] }}]\n\
             pools:\n\
             \x20 - {{ name: web, servers: [{0}, {1}] }}\n\
             \x20 - {{ name: first, servers: [{0}] }}\n\
             \x20 - {{ name: second, servers: [{1}] }}\n\
             marks:\n{marks}services:\n{services}",
            server(1),
            server(2),
        );
        Gateway::start(lab, &yaml)
    }

    /// A service for a mark in FULLNAT.
    fn service(mark: u32, pool: &str, more: &str) -> String {
        format!(
            "  - {{ name: mark{mark}, mark: {mark}, pool: {pool}, mode: fullnat, scheduler: rr, local_addresses: dip{more} }}\n"
        )
    }
}

fn ports_of_one_mark(family: Family) {
    let (lab, servers) = family.lab();
    let marks = format!(
        "  - {{ mark: 6666, destination: \"{}\", protocol: tcp, ports: [80, 8000-8100] }}\n",
        family.vip
    );
    let mask = if family.length == 128 {
        "prefix: 64"
    } else {
        "netmask: 255.255.255.0"
    };
    let kept = format!(", persistence: {{ timeout: 300, {mask} }}");
    let gateway = family.start(&lab, &marks, &Family::service(6666, "web", &kept));
    let client = lab.client();
    let mut used = vec![];
    for network in 0..NETWORKS {
        let from = (family.client)(network, 10);
        let server = server_of(&client, &from, &family.url(80), 3);
        assert_eq!(server_of(&client, &from, &family.url(8080), 3), server, "{from}");
        let beside = (family.client)(network, 99);
        assert_eq!(
            server_of(&client, &beside, &family.url(8080), 2),
            server,
            "{beside}"
        );
        used.push(server);
    }
    used.sort();
    used.dedup();
    assert_eq!(used, ["server 1", "server 2"]);
    // Servers were asked on the port that the client has asked.
    until("the servers' logs", PATIENCE, || {
        let requests = servers.iter().flat_map(Nginx::requests);
        let ports: Vec<u16> = requests.map(|request| request.port).collect();
        let of = |port| ports.iter().filter(|one| **one == port).count();
        let networks = usize::from(NETWORKS);
        (of(80) == 3 * networks && of(8080) == 5 * networks).then_some(())
    });
    let rows = templates(&gateway);
    assert_eq!(rows.len(), usize::from(NETWORKS), "one for both ports: {rows:?}");
    let shown = if family.length == 128 {
        "[0:1a0a::]:0"
    } else {
        "0.0.26.10:0"
    };
    for row in &rows {
        assert_eq!((&row["protocol"], ends(row)[1]), (&"ip".into(), shown), "{row}");
    }
    // A port that no rule has is refused.
    let closed = client.attempt(&format!("curl -gsS --max-time 20 {}", family.url(443)));
    assert_eq!(closed.status.code(), Some(7), "refused, not lost");
    assert_eq!(gateway.dropped("no_service"), 1);
    gateway.finish();
}

fn sources_split_marks(family: Family) {
    let (lab, _servers) = family.lab();
    let rule = |mark, more: &str| {
        format!(
            "  - {{ mark: {mark}, destination: \"{}\", ports: 80{more} }}\n",
            family.vip
        )
    };
    let inner = format!(", source: \"{}\"", family.inner);
    let services = Family::service(1, "first", "") + &Family::service(2, "second", "");
    let gateway = family.start(&lab, &(rule(1, &inner) + &rule(2, "")), &services);
    let client = lab.client();
    for network in 0..4 {
        let expected = if network == 0 { "server 1" } else { "server 2" };
        for host in [10, 99] {
            let from = (family.client)(network, host);
            assert_eq!(server_of(&client, &from, &family.url(80), 3), expected, "{from}");
        }
    }
    for (name, connections) in [("mark1", 6), ("mark2", 18)] {
        let row = gateway.named("services", name);
        assert_eq!(row["connections"], connections, "{row}");
    }
    gateway.finish();
}

#[test]
fn ports_of_one_mark_lead_a_client_to_one_server_in_ipv4() {
    ports_of_one_mark(V4);
}

#[test]
fn ports_of_one_mark_lead_a_client_to_one_server_in_ipv6() {
    ports_of_one_mark(V6);
}

#[test]
fn sources_split_marks_in_ipv4() {
    sources_split_marks(V4);
}

#[test]
fn sources_split_marks_in_ipv6() {
    sources_split_marks(V6);
}
