//! Two gateways and two servers on one network, and a router to the client:
//!
//! ```text
//!                                       +-- gateway   203.0.113.2
//!     client 192.0.2.2 --- .1 switch ---+-- gateway2  203.0.113.3
//!                          203.0.113.1  +-- server1   203.0.113.11
//!                                       +-- server2   203.0.113.12
//! ```

use crate::lab::Lab;

pub(super) const GATEWAYS: [(&str, &str); 2] = [("gateway", "203.0.113.2"), ("gateway2", "203.0.113.3")];
pub(super) const ROUTER: &str = "203.0.113.1";

/// The cabled network. Servers have these VIPs, and answer ARP for none.
pub(super) fn cabled(vips: &[&str]) -> Lab {
    let lab = Lab::bare();
    let router = lab.host("switch");
    router.run("ip link add net type bridge mcast_snooping 0");
    router.run("ip address add 203.0.113.1/24 dev net");
    router.run("ip link set net up");
    router.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1");
    lab.link("client", "wan0", "switch", "outside");
    router.run("ip address add 192.0.2.1/24 dev outside");
    let client = lab.client();
    client.run("ip address add 192.0.2.2/24 dev wan0");
    client.run("ip route add default via 192.0.2.1");
    for (name, _) in GATEWAYS {
        lab.link(name, "wan0", "switch", name);
        router.run(&format!("ip link set {name} master net"));
    }
    for number in [1, 2] {
        let name = format!("server{number}");
        lab.link(&name, "lan0", "switch", &name);
        router.run(&format!("ip link set {name} master net"));
        let server = lab.server(number);
        server.run("sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2");
        server.run(&format!("ip address add 203.0.113.1{number}/24 dev lan0"));
        server.run("ip route add default via 203.0.113.1");
        for vip in vips {
            server.run(&format!("ip address add {vip}/32 dev lo"));
        }
    }
    lab
}

/// A gateway at `own` with one port, and what else is in its file.
pub(super) fn yaml(own: &str, rest: &str) -> String {
    format!(
        "
node:
  name: test
  hugepages: off
  memory: 256
  idle: sleep
  seed: 7
  limits: {{ connections: 10_000, services: 64, servers: 256, neighbours: 256 }}
ports:
  - {{ name: wan, device: \"net_af_packet0,iface=wan0\", addresses: [{own}/24], exception: tg0 }}
routes: [{{ to: default, via: {ROUTER} }}]
{rest}"
    )
}
