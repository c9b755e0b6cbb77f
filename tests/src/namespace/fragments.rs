//! Datagrams larger than the MTU through NAT and FULLNAT, with real kernels at both ends: fragments come in, the whole datagram is
//! scheduled and translated, and fragments go out. Over TAP devices, whose frames are those of a wire.

use crate::lab::{Echo, Gateway, Lab, PATIENCE, on_taps, until};
use crate::modes::NETWORK;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The echo service's port.
const ECHO: u16 = 7;

fn yaml() -> String {
    on_taps(NETWORK)
        + &format!(
            r#"
local_addresses:
  - {{ name: dip, port: lan, addresses: [10.0.0.200, "fd00::200"] }}
pools:
  - {{ name: echo, servers: [{{ address: 10.0.0.11 }}] }}
  - {{ name: echo6, servers: [{{ address: "fd00::11" }}] }}
services:
  - {{ name: echo, listen: "203.0.113.110:{ECHO}/udp", pool: echo, mode: nat, scheduler: rr }}
  - {{ name: echo6, listen: "[2001:db8:1::110]:{ECHO}/udp", pool: echo6, mode: nat, scheduler: rr }}
  - {{ name: full, listen: "203.0.113.113:{ECHO}/udp", pool: echo, mode: fullnat, scheduler: rr, local_addresses: dip }}
  - {{ name: full6, listen: "[2001:db8:1::113]:{ECHO}/udp", pool: echo6, mode: fullnat, scheduler: rr,
      local_addresses: dip }}
"#
        )
}

fn address(text: &str, port: u16) -> SocketAddr {
    (text.parse::<IpAddr>().unwrap(), port).into()
}

/// How many datagrams a host's kernel has put together from fragments.
fn reassembled(host: &crate::lab::Host, family: &str) -> u64 {
    let table = host.run(&format!("nstat -asz {family}ReasmOKs"));
    let row = table.lines().find(|line| line.starts_with(family)).unwrap();
    row.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Sends datagrams that need fragments, both ways, and asserts that each comes back whole.
fn echo_comes_back(client: &str, vip: &str, server: &str) {
    let lab = Lab::bare();
    lab.client().enable_ipv6();
    lab.server(1).enable_ipv6();
    let gateway = Gateway::start(&lab, &yaml());
    lab.plug("tgwan", &lab.client(), &["203.0.113.1/24", "2001:db8:1::1/64"]);
    lab.plug("tglan", &lab.server(1), &["10.0.0.11/24", "fd00::11/64"]);
    lab.server(1).run("ip route add default via 10.0.0.1");
    lab.server(1).run("ip -6 route add default via fd00::1");
    let _echo = Echo::start(&lab.server(1), address(server, ECHO));
    let socket = lab.client().inside(|| {
        let socket = UdpSocket::bind(address(client, 0)).unwrap();
        socket.connect(address(vip, ECHO)).unwrap();
        socket
    });
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for len in [100, 1452, 1453, 1472, 1473, 3000, 9000, 60_000] {
        let sent: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
        socket.send(&sent).unwrap();
        let mut received = vec![0; 65_536];
        let count = socket
            .recv(&mut received)
            .unwrap_or_else(|error| panic!("{len} bytes: {error}\n{}", gateway.show("drops")));
        assert!(received[..count] == sent, "{count} bytes of {len}, or others");
    }
    let family = if vip.contains(':') { "Ip6" } else { "Ip" };
    for host in [lab.client(), lab.server(1)] {
        assert!(reassembled(&host, family) >= 4, "{}", host.namespace());
        for (counter, value) in host.checksum_errors() {
            assert_eq!(value, 0, "{counter} in {}", host.namespace());
        }
    }
    until("no fragment to be held", PATIENCE, || {
        let workers = gateway.rows("workers");
        workers.iter().all(|row| row["held"] == 0).then_some(())
    });
    gateway.finish();
}

#[test]
fn frag_01_large_datagrams_pass_nat_both_ways() {
    echo_comes_back("203.0.113.1", "203.0.113.110", "10.0.0.11");
}

#[test]
fn frag_01_large_datagrams_pass_nat_both_ways_in_ipv6() {
    echo_comes_back("2001:db8:1::1", "2001:db8:1::110", "fd00::11");
}

#[test]
fn frag_01_large_datagrams_pass_fullnat_both_ways() {
    echo_comes_back("203.0.113.1", "203.0.113.113", "10.0.0.11");
}

#[test]
fn frag_01_large_datagrams_pass_fullnat_both_ways_in_ipv6() {
    echo_comes_back("2001:db8:1::1", "2001:db8:1::113", "fd00::11");
}
