//! The client's address for servers of FULLNAT, on the wire: what a `toa` module would read, and what a server without
//! one makes of it. The PROXY protocol with programs that read it: one file per server.

mod datagrams;
mod greeter;
mod haproxy;
mod loss;
mod nginx;
mod site;

use crate::balance::curl;
use crate::lab::{CLIENT, Capture, Captured, FULLNAT, Gateway, Lab, Nginx};
use crate::modes::{assert_same, pattern};

/// Bytes of the upload: thousands of full segments before the server says a word.
const UPLOAD: usize = 3_000_000;
/// The client's port in it.
const PORT: u16 = 45_678;

/// The first option of a segment is of TOA's kind.
const ANY: &str = "tcp.options[0:1] == fe";
/// It is 203.0.113.1 at that port.
const UPLOADER: &str = "tcp.options[0:8] == fe:08:b2:6e:cb:00:71:01";
/// Segments that may complete a handshake. tshark counts from the initial sequence numbers.
const DUE: &str = "tcp.dstport == 8080 && tcp.ack == 1 && tcp.flags.syn == 0 && tcp.flags.reset == 0";

fn none(seen: &Captured, filter: &str, what: &str) {
    assert_eq!(seen.frames(filter), Vec::<String>::new(), "{what}");
}

/// An upload, which servers take in silence, carries the option to its end: no segment is longer than the link takes,
/// none goes without, and the file arrives. nginx, which has no module for it, serves as ever.
#[test]
fn servers_are_told_of_their_client_by_toa() {
    let lab = Lab::new();
    let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let without = "scheduler: wrr, local_addresses: dip }";
    let usual = Gateway::usual();
    assert_eq!(usual.matches(without).count(), 1);
    let yaml = usual.replace(
        without,
        "scheduler: wrr, local_addresses: dip, client_address: toa }",
    );
    let gateway = Gateway::start(&lab, &yaml);
    assert_eq!(gateway.named("services", "web")["client_address"], "toa");
    let captures = [
        Capture::start(&lab, &lab.client(), "wan0"),
        Capture::start(&lab, &lab.server(1), "lan0"),
        Capture::start(&lab, &lab.server(2), "lan0"),
    ];

    let file = pattern(&lab, "pattern", UPLOAD);
    // Without `Expect`, which a server would answer before the data come.
    lab.client().run(&format!(
        "curl -sS --fail --max-time 120 -o /dev/null -H Expect: --local-port {PORT} -T {} http://{FULLNAT}/upload",
        file.display()
    ));
    let uploads: Vec<_> = servers.iter().flat_map(Nginx::uploads).collect();
    assert_eq!(uploads.len(), 1);
    assert_same(&uploads[0], &file);
    let answers = curl(&lab.client(), FULLNAT, 60);
    assert_eq!(answers.len(), 60);
    assert!(answers.iter().all(|answer| answer.starts_with("server ")));

    let [wan, one, two] = captures.map(Capture::end);
    none(&wan, ANY, "on the client's link");
    let lowered = wan.frames("tcp.srcport == 80 && tcp.flags.syn == 1 && tcp.options.mss_val == 1452");
    assert!(lowered.len() > 60, "{} SYN-ACKs with room", lowered.len());
    let full = "tcp.srcport == 80 && tcp.flags.syn == 1 && !(tcp.options.mss_val == 1452)";
    none(&wan, full, "an MSS without room");
    let mut told = 0;
    for seen in [&one, &two] {
        seen.assert_good_checksums("tcp");
        none(seen, "frame.len > 1514", "longer than the link takes");
        none(seen, &format!("{DUE} && !({ANY})"), "without the option");
        none(
            seen,
            &format!("{ANY} && !({DUE})"),
            "with an option that is not due",
        );
        let client = format!("{ANY} && !(tcp.options[4:4] == cb:00:71:01)");
        none(seen, &client, &format!("another client than {CLIENT}"));
        told += seen.frames(UPLOADER).len();
    }
    assert!(
        told > UPLOAD / 1500,
        "{told} segments of the upload had the option"
    );
    assert_eq!(metric(&gateway, "tidegate_worker_toa_no_room_total"), 0);
    let added = metric(&gateway, "tidegate_worker_toa_added_total");
    assert!(added >= told as u64 + 60, "{added} counted");
    gateway.finish();
}

/// What a metric of the only worker is now.
fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics();
    let line = metrics
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{")));
    let value = line.and_then(|line| line.split_whitespace().last());
    value.and_then(|value| value.parse().ok()).expect(name)
}
