//! Captures in and out: frames of a file through FULLNAT and DR into another file.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use super::gateway::{Gateway, NO_HUGE, config, folder};

const CLIENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 100);
/// What `net_pcap` gives its first port.
const WAN_MAC: [u8; 6] = [0x02, 0x70, 0x63, 0x61, 0x70, 0x00];
const SERVER_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0x11], [2, 0, 0, 0, 0, 0x12]];

fn sum(parts: &[&[u8]]) -> u16 {
    let mut total = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

fn pseudo(ip: &[u8]) -> Vec<u8> {
    let len = (ip.len() - 20) as u16;
    [&ip[12..20], &[0, ip[9]], &len.to_be_bytes()].concat()
}

/// A SYN of the client to this port of the VIP.
fn syn(port: u16) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0];
    ip.extend(CLIENT.octets());
    ip.extend(VIP.octets());
    ip.extend(40_000_u16.to_be_bytes());
    ip.extend(port.to_be_bytes());
    ip.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    let header = !sum(&[&ip[..20]]);
    ip[10..12].copy_from_slice(&header.to_be_bytes());
    let tcp = !sum(&[&pseudo(&ip), &ip[20..]]);
    ip[36..38].copy_from_slice(&tcp.to_be_bytes());
    [&WAN_MAC[..], &[2, 0, 0, 0, 0, 7, 8, 0], &ip].concat()
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for frame in frames {
        bytes.extend([0; 8]);
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend(frame);
    }
    fs::write(path, bytes).unwrap();
}

/// The IPv4 frames of a capture.
fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap();
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push(bytes[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames.retain(|frame| frame[12..14] == [8, 0]);
    frames
}

#[test]
fn net_pcap_carries_captures_in_and_out() {
    let folder = folder();
    let file = |name: &str| folder.path().join(name);
    write_capture(&file("in.pcap"), &[syn(80), syn(8080)]);
    let path = |name: &str| file(name).display().to_string();
    let rest = format!(
        "ports:
  - {{ name: wan, device: \"net_pcap0,rx_pcap={},tx_pcap={}\", addresses: [203.0.113.2/24] }}
  - {{ name: lan, device: \"net_pcap1,tx_pcap={}\", addresses: [10.0.0.1/24] }}
neighbours:
  - {{ address: 10.0.0.11, mac: \"02:00:00:00:00:11\" }}
  - {{ address: 10.0.0.12, mac: \"02:00:00:00:00:12\" }}
local_addresses: [{{ name: dip, port: lan, addresses: [10.0.0.200] }}]
pools:
  - {{ name: one, servers: [{{ address: 10.0.0.11, port: 8000 }}] }}
  - {{ name: two, servers: [{{ address: 10.0.0.12 }}] }}
services:
  - {{ name: full, listen: \"203.0.113.100:80/tcp\", pool: one, mode: fullnat, scheduler: rr, local_addresses: dip }}
  - {{ name: direct, listen: \"203.0.113.100:8080/tcp\", pool: two, mode: dr, scheduler: rr }}
",
        path("in.pcap"),
        path("wan.pcap"),
        path("lan.pcap")
    );
    let mut gateway = Gateway::start(&config(folder.path(), NO_HUGE, &rest));
    gateway.until("two connections", |gateway| {
        let workers = gateway.show("workers");
        workers.to_string().contains("\"connections\":2")
    });
    gateway.end();

    let frames = read_capture(&file("lan.pcap"));
    assert_eq!(frames.len(), 2);
    for frame in &frames {
        assert_eq!(sum(&[&frame[14..34]]), 0xffff, "IP checksum");
        assert_eq!(
            sum(&[&pseudo(&frame[14..]), &frame[34..]]),
            0xffff,
            "TCP checksum"
        );
        assert_eq!(frame[22], 63, "one hop");
    }
    let (full, direct) = (&frames[0], &frames[1]);
    assert_eq!(
        (&full[..6], &direct[..6]),
        (&SERVER_MACS[0][..], &SERVER_MACS[1][..])
    );
    assert_eq!(
        (&full[26..30], &full[30..34]),
        (&[10, 0, 0, 200][..], &[10, 0, 0, 11][..])
    );
    assert_eq!(full[36..38], 8000_u16.to_be_bytes());
    // DR changes nothing above Ethernet but the hop count and its checksum.
    assert_eq!(
        (&direct[26..30], &direct[30..54]),
        (&CLIENT.octets()[..], &syn(8080)[30..54])
    );
    assert_eq!(read_capture(&file("wan.pcap")).len(), 0);
}
