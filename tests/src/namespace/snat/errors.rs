//! ICMP errors from outside, as hosts inside see them: traceroute, refused ports, narrow hops.

use super::{HOPS, INSIDE, OUTSIDE, address, cabled, inside, no_checksum_errors, ready, routes, yaml};
use crate::lab::{Gateway, Lab, Nginx, PATIENCE, authority};
use crate::modes::{assert_same, pattern};
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};

/// Bytes of an upload: hundreds of full packets.
const BYTES: usize = 1_000_000;

/// The ways to find a route: UDP to ports where nobody listens, echo, TCP to the web server.
const PROBES: [&str; 3] = ["-U -p 33434", "-I", "-T -p 80"];

/// The hops are named by their own addresses: the gateway's inside, the router's, the server's.
#[test]
fn traceroute_finds_every_router_in_each_of_three_ways() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    let _server = Nginx::start(&lab, 1);
    for family in 0..2 {
        let [first, second] = HOPS[family];
        let (from, to) = (inside(family == 1, 0), OUTSIDE[family]);
        for probe in PROBES {
            let line = format!("traceroute -n -q 1 -w 10 -m 6 -s {from} {probe} {to}");
            let found = lab.client().run(&line);
            let hops: Vec<&str> = found
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().nth(1))
                .collect();
            assert_eq!(hops, [first, second, to], "{line}\n{found}");
        }
    }
    no_checksum_errors(&lab);
    gateway.finish();
}

/// A datagram to a port where nobody listens: the kernel inside takes the error for its socket's own.
#[test]
fn a_refused_port_reaches_the_socket_inside() {
    let lab = cabled();
    let gateway = Gateway::start(&lab, &yaml());
    for (ipv6, outside) in [false, true].into_iter().zip(OUTSIDE) {
        let (from, to): (IpAddr, IpAddr) = (
            inside(ipv6, INSIDE - 1).parse().unwrap(),
            outside.parse().unwrap(),
        );
        let error = lab.client().inside(move || {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.connect((to, 9)).unwrap();
            socket.send(b"anybody there").unwrap();
            socket.recv(&mut [0; 64]).map_err(|error| error.kind())
        });
        assert_eq!(error, Err(ErrorKind::ConnectionRefused), "towards {to}");
    }
    no_checksum_errors(&lab);
    gateway.finish();
}

/// Over TAP devices: `net_af_packet` would cut and join packets where a wire does not.
#[test]
fn large_pings_pass_and_an_upload_learns_of_a_narrow_hop_outside() {
    for family in 0..2 {
        let lab = Lab::bare();
        ready(&lab);
        let router = lab.host("switch");
        let taps = yaml()
            .replace("net_af_packet0,iface=wan0", "net_tap0,iface=tgwan")
            .replace("net_af_packet1,iface=lan0", "net_tap1,iface=tglan")
            .replace("net_af_packet2,iface=dmz0", "net_tap2,iface=tgdmz");
        let gateway = Gateway::start(&lab, &taps);
        lab.plug("tgwan", &router, &["203.0.113.1/24", "2001:db8:1::1/64"]);
        lab.plug("tglan", &lab.client(), &[]);
        let (from, to) = (inside(family == 1, 0), OUTSIDE[family]);
        address(&lab.client(), "tglan", &format!("{from}/{}", [24, 64][family]));
        routes(&lab.client(), HOPS[family][0]);
        // Each is put together from fragments, and leaves in fragments.
        lab.client()
            .run(&format!("ping -n -c 3 -i 0.2 -W 20 -s 4000 {to}"));

        router.run("ip link set out0 mtu 1400");
        let server = Nginx::start(&lab, 1);
        let file = pattern(&lab, "pattern", BYTES);
        assert_eq!(lab.client().learnt_mtu(to), None);
        lab.client().run(&format!(
            "curl -gsS --fail --max-time 120 -o /dev/null -T {} http://{}/upload",
            file.display(),
            authority(to)
        ));
        assert_same(&server.uploads()[0], &file);
        assert_eq!(lab.client().learnt_mtu(to), Some(1400));
        no_checksum_errors(&lab);
        gateway.finish();
    }
}
