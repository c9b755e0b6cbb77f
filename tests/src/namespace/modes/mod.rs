//! Real pages of real web servers through each mode, in both families: a large download and thousands of short
//! requests, of which none fails.

mod dr;
mod fullnat;
mod nat;
mod several;
mod tun;
mod tunnels;

use crate::balance::curl;
use crate::lab::{
    CLIENT, CLIENT6, Capture, Captured, Gateway, Host, Lab, Nginx, PATIENCE, authority, number, until,
};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of the download.
const DOWNLOAD: usize = 100_000_000;

/// How unfair DR and TUN may be, in tenths: the gateway never sees the server's FIN, so a connection is in FIN_WAIT for
/// two minutes, and a client that takes its port again meanwhile gets the server that it had, as in LVS.
const OLD_SERVERS: usize = 1;

/// The client itself, as servers see it.
fn client_itself(vip: &str) -> &'static str {
    if vip.contains(':') { CLIENT6 } else { CLIENT }
}

/// A VIP of each family, by mode.
const NAT: [&str; 2] = ["203.0.113.110", "2001:db8:1::110"];
const DR: [&str; 2] = ["203.0.113.111", "2001:db8:1::111"];
const TUN: [&str; 2] = ["203.0.113.112", "2001:db8:1::112"];
const FULLNAT: [&str; 2] = ["203.0.113.113", "2001:db8:1::113"];

/// How many short requests: what the tests of record make, or a developer's own patience.
fn short_requests() -> u32 {
    std::env::var("TIDEGATE_SHORT_REQUESTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10_000)
}

/// What all gateways of these tests have: ports and routes of both families.
pub(crate) const NETWORK: &str = r#"
node:
  name: test
  workers: auto
  hugepages: off
  memory: 256
  idle: sleep
  limits: { connections: 100_000, services: 64, servers: 256, neighbours: 256 }
metrics: { listen: "127.0.0.1:9101" }
ports:
  - { name: wan, device: "net_af_packet0,iface=wan0", addresses: [203.0.113.2/24, "2001:db8:1::2/64"] }
  - { name: lan, device: "net_af_packet1,iface=lan0", addresses: [10.0.0.1/24, "fd00::1/64"] }
routes:
  - { to: default, via: 203.0.113.1 }
  - { to: "::/0", via: "2001:db8:1::1" }
"#;

/// A service of each mode and family, each with both servers in turn. NAT and FULLNAT change the port to 8080.
fn yaml() -> String {
    let mut yaml = NETWORK.to_owned()
        + "local_addresses: [{ name: dip, port: lan, addresses: [10.0.0.200, \"fd00::200\"] }]\n\
           pools:\n";
    for (family, prefix) in [("", "10.0.0.1"), ("6", "fd00::1")] {
        for (pool, port) in [("web", ", port: 8080"), ("own-port", "")] {
            yaml += &format!(
                "  - {{ name: {pool}{family}, servers: [{{ address: \"{prefix}1\"{port} }}, {{ address: \"{prefix}2\"{port} }}] }}\n"
            );
        }
    }
    yaml += "services:\n";
    for (mode, vips, pool, more) in [
        ("fullnat", FULLNAT, "web", ", local_addresses: dip"),
        ("nat", NAT, "web", ""),
        ("dr", DR, "own-port", ""),
        ("tun", TUN, "own-port", ""),
    ] {
        for (family, vip) in ["", "6"].into_iter().zip(vips) {
            yaml += &format!(
                "  - {{ name: {mode}{family}, listen: \"{}:80/tcp\", pool: {pool}{family}, mode: {mode}, scheduler: rr{more} }}\n",
                authority(vip)
            );
        }
    }
    yaml
}

/// The network of both families, with web servers and a gateway.
struct Sites {
    lab: Lab,
    servers: [Nginx; 2],
    gateway: Gateway,
}

impl Sites {
    /// Starts it, with the large page on both servers.
    fn start(yaml: &str) -> Sites {
        let lab = Lab::dual();
        let servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
        let huge = pattern(&lab, "huge", DOWNLOAD);
        for server in &servers {
            server.publish(&huge, "huge");
        }
        let gateway = Gateway::start(&lab, yaml);
        Sites {
            lab,
            servers,
            gateway,
        }
    }

    /// Runs what `tidegate server-setup` prints on both servers of a service.
    fn set_up(&self, service: &str, undo: bool) {
        let prefix = if service.ends_with('6') {
            "fd00::1"
        } else {
            "10.0.0.1"
        };
        for number in [1, 2] {
            let script = self
                .gateway
                .server_setup(service, &format!("{prefix}{number}"), undo);
            self.lab.server(number).shell(&script);
        }
    }

    /// The whole promise for a service: the download arrives whole, every short request is answered, by each server
    /// half of them but for `unfair` of ten, and servers see `client`. What passes the client's and the
    /// servers' links on the gateway's side is captured meanwhile.
    fn serve(&self, vip: &str, client: &str, unfair: usize) -> [Captured; 3] {
        download(&self.lab, &self.lab.client(), vip);
        let captures = self.capture();
        let count = short_requests() as usize;
        let before = self.requests();
        let answers = curl(&self.lab.client(), &authority(vip), short_requests());
        assert_eq!(answers.len(), count);
        for ((number, server), before) in (1..).zip(&self.servers).zip(before) {
            let page = format!("server {number}");
            let answered = answers.iter().filter(|answer| **answer == page).count();
            assert!(
                answered.abs_diff(count / 2) <= count * unfair / 10,
                "round robin gave server {number} {answered} of {count}"
            );
            // nginx logs a request when it has answered.
            let requests = until("the server's log", PATIENCE, || {
                Some(server.requests()).filter(|requests| requests.len() >= before + answered)
            });
            assert_eq!(requests.len(), before + answered);
            for request in &requests[before..] {
                assert_eq!((&*request.client, request.status), (client, 200), "{request:?}");
            }
        }
        captures.map(Capture::end)
    }

    /// Starts to capture on the client's and the servers' links on the gateway's side.
    fn capture(&self) -> [Capture; 3] {
        [
            Capture::start(&self.lab, &self.lab.client(), "wan0"),
            Capture::start(&self.lab, &self.lab.server(1), "lan0"),
            Capture::start(&self.lab, &self.lab.server(2), "lan0"),
        ]
    }

    /// How many requests each server has logged.
    fn requests(&self) -> [usize; 2] {
        self.servers.each_ref().map(|server| server.requests().len())
    }

    /// Bytes that the gateway has sent by all of its ports.
    fn sent(&self) -> u64 {
        let rows = self.gateway.rows("ports");
        rows.iter()
            .map(|row| number(&row["counters"], "sent_bytes"))
            .sum()
    }

    /// Asserts that no reply from `vip` was on the gateway's links, and that the gateway has counted none.
    fn assert_replies_passed_by(&self, service: &str, vip: &str, captured: &[Captured; 3]) {
        let field = if vip.contains(':') { "ipv6.src" } else { "ip.src" };
        for seen in captured {
            let replies = seen.frames(&format!("tcp && {field} == {vip}"));
            assert_eq!(replies, Vec::<String>::new(), "replies on the gateway's way");
        }
        let row = self.gateway.named("services", service);
        assert_eq!(number(&row, "outbound_packets"), 0, "{row}");
        let sent = self.sent();
        assert!(
            sent < DOWNLOAD as u64 / 2,
            "the gateway sent {sent} bytes of a download of {DOWNLOAD}"
        );
    }

    /// Asserts that no kernel saw a bad checksum, in any packet of the whole test, and ends the gateway.
    fn finish(self) {
        for host in [self.lab.client(), self.lab.server(1), self.lab.server(2)] {
            for (counter, value) in host.checksum_errors() {
                assert_eq!(value, 0, "{counter} in {}", host.namespace());
            }
        }
        self.gateway.finish();
    }
}

/// A file of so many bytes in which no two stretches of a packet's length are the same.
pub(crate) fn pattern(lab: &Lab, name: &str, len: usize) -> PathBuf {
    let file = lab.file(name);
    let mut writer = BufWriter::new(File::create(&file).unwrap());
    let mut left = len;
    for line in 0_u64.. {
        let line = format!("{line:015}\n");
        let part = left.min(line.len());
        writer.write_all(&line.as_bytes()[..part]).unwrap();
        left -= part;
        if left == 0 {
            break;
        }
    }
    writer.flush().unwrap();
    file
}

/// Fetches the large page, and compares each byte.
fn download(lab: &Lab, client: &Host, vip: &str) {
    fetch(lab, client, vip, "huge", "huge");
}

/// Fetches a page, and compares it with the file that it was made of.
pub(crate) fn fetch(lab: &Lab, client: &Host, vip: &str, page: &str, original: &str) {
    let body = lab.file("body");
    client.run(&format!(
        "curl -gsS --fail --max-time 300 -o {} http://{}/{page}",
        body.display(),
        authority(vip)
    ));
    assert_same(&body, &lab.file(original));
    fs::remove_file(body).unwrap();
}

/// Asserts that two files have the same content.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    assert!(
        fs::read(one).unwrap() == fs::read(other).unwrap(),
        "{one:?} and {other:?} differ"
    );
}
