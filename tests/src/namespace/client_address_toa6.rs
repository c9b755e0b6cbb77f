//! The client's IPv6 address for servers of FULLNAT, on the wire: the option of 20 bytes that a `toa` module would read,
//! also where the server's link takes 1280 bytes only, the least that IPv6 allows (RFC 8200 5).

use crate::lab::{CLIENT6, Capture, Captured, Gateway, Lab, Nginx, authority};
use crate::modes::{NETWORK, assert_same, pattern};

const VIP: &str = "2001:db8:1::100";
/// Bytes of each upload: thousands of full segments before the server says a word.
const UPLOAD: usize = 3_000_000;
/// The client's ports, one for each upload.
const PORTS: [u16; 2] = [45_678, 45_679];
/// The MTU of each server's link, in bytes.
const MTUS: [usize; 2] = [1500, 1280];

/// The first option of a segment is of TOA's kind.
const ANY: &str = "tcp.options[0:1] == fe";
/// It has 20 bytes, and names the client.
const CLIENT: &str =
    "tcp.options[0:2] == fe:14 && tcp.options[4:16] == 20:01:0d:b8:00:01:00:00:00:00:00:00:00:00:00:01";
/// Segments that may complete a handshake. tshark counts from the initial sequence numbers.
const DUE: &str = "tcp.dstport == 8080 && tcp.ack == 1 && tcp.flags.syn == 0 && tcp.flags.reset == 0";

fn none(seen: &Captured, filter: &str, what: &str) {
    assert_eq!(seen.frames(filter), Vec::<String>::new(), "{what}");
}

/// What a server has seen of the uploads: how many segments named one of their ports.
fn judge(seen: &Captured, mtu: usize) -> [usize; 2] {
    seen.assert_good_checksums("tcp");
    none(
        seen,
        &format!("frame.len > {}", mtu + 14),
        "longer than the link takes",
    );
    none(seen, &format!("{DUE} && !({ANY})"), "without the option");
    none(
        seen,
        &format!("{ANY} && !({DUE})"),
        "with an option that is not due",
    );
    none(
        seen,
        &format!("{ANY} && !({CLIENT})"),
        &format!("another client than {CLIENT6}"),
    );
    PORTS.map(|port| {
        let [high, low] = port.to_be_bytes();
        seen.frames(&format!("{CLIENT} && tcp.options[2:2] == {high:02x}:{low:02x}"))
            .len()
    })
}

#[test]
fn servers_are_told_of_their_ipv6_client_by_toa() {
    let lab = Lab::dual();
    for (number, mtu) in [1, 2].into_iter().zip(MTUS) {
        lab.server(number).run(&format!("ip link set lan0 mtu {mtu}"));
    }
    let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let vip = authority(VIP);
    let yaml = format!(
        "{NETWORK}local_addresses: [{{ name: dip, port: lan, addresses: [\"fd00::200\"] }}]\n\
         pools: [{{ name: web, servers: [{{ address: \"fd00::11\", port: 8080 }}, {{ address: \"fd00::12\", port: 8080 }}] }}]\n\
         services: [{{ name: web, listen: \"{vip}:80/tcp\", pool: web, mode: fullnat, scheduler: rr, local_addresses: dip, client_address: toa }}]\n"
    );
    let gateway = Gateway::start(&lab, &yaml);
    let captures = [
        Capture::start(&lab, &lab.client(), "wan0"),
        Capture::start(&lab, &lab.server(1), "lan0"),
        Capture::start(&lab, &lab.server(2), "lan0"),
    ];
    let file = pattern(&lab, "pattern", UPLOAD);
    for port in PORTS {
        // Without `Expect`, which a server would answer before the data come.
        lab.client().run(&format!(
            "curl -gsS --fail --max-time 120 -o /dev/null -H Expect: --local-port {port} -T {} http://{vip}/upload",
            file.display()
        ));
    }
    for server in &servers {
        let uploads = server.uploads();
        assert_eq!(uploads.len(), 1);
        assert_same(&uploads[0], &file);
    }
    let [wan, one, two] = captures.map(Capture::end);
    none(&wan, ANY, "on the client's link");
    for mtu in MTUS {
        let room = mtu - 60 - 20;
        let announced = format!("tcp.srcport == 80 && tcp.flags.syn == 1 && tcp.options.mss_val == {room}");
        assert_eq!(wan.frames(&announced).len(), 1, "SYN-ACKs with {room}");
    }
    let (wide, narrow) = (judge(&one, MTUS[0]), judge(&two, MTUS[1]));
    let told = wide.iter().chain(&narrow).sum::<usize>();
    for seen in [wide, narrow] {
        // One upload each, whichever was first.
        assert!(seen.contains(&0), "{seen:?}");
        assert!(seen.iter().sum::<usize>() > UPLOAD / 1500, "{seen:?}");
    }
    let metrics = gateway.metrics();
    let of = |name: &str| -> usize {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")));
        let value = line.and_then(|line| line.split_whitespace().last());
        value.and_then(|value| value.parse().ok()).expect("a counter")
    };
    assert_eq!(of("tidegate_worker_toa_no_room_total"), 0);
    assert!(of("tidegate_worker_toa_added_total") >= told, "{told} were seen");
    gateway.finish();
}
