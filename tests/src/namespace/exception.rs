//! The exception path: what is the host's reaches the kernel by a TAP device, and comes back. Announcing VIPs by BIRD
//! and taking addresses over by keepalived, which both work by it, are in files of their own.

mod announce;
mod bird;
mod ecmp;
mod failover;
mod pair;

use crate::balance::curl;
use crate::lab::{Capture, FULLNAT, Gateway, Host, Lab, Nginx, PATIENCE, RawSocket, on_taps, until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OWN: &str = "203.0.113.2";

/// The usual services, with a way to the kernel for the port `wan`.
fn yaml(exception: &str) -> String {
    let wan = "addresses: [203.0.113.2/24]";
    let yaml = Gateway::usual();
    assert!(yaml.contains(wan));
    yaml.replace(wan, &format!("{wan}, exception: {exception}"))
}

/// A host that repeats what it is told over TCP, one connection at a time. It ends with this value.
struct Repeater {
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    host: Host,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Repeater {
    fn start(host: &Host, address: &str) -> Repeater {
        let address: SocketAddr = address.parse().unwrap();
        let listener = host.inside(|| TcpListener::bind(address).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let mut stream = stream.unwrap();
                let mut word = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut word) {
                    if stream.write_all(&word[..count]).is_err() {
                        break;
                    }
                }
            }
        });
        Repeater {
            stop,
            address,
            host: host.clone(),
            thread: Some(thread),
        }
    }
}

impl Drop for Repeater {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Its own host can reach it whatever has become of the gateway.
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.address.port());
        let _ = self
            .host
            .inside(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a word that `from` says to `address` is repeated.
fn is_repeated(from: &Host, address: &str) -> bool {
    let address: SocketAddr = address.parse().unwrap();
    let Ok(mut stream) = from.inside(|| TcpStream::connect_timeout(&address, Duration::from_secs(5))) else {
        return false;
    };
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // Longer than a segment, so that more than one has to come.
    let said = [b'x'; 4000];
    let mut heard = [0; 4000];
    stream.write_all(&said).is_ok() && stream.read_exact(&mut heard).is_ok() && said == heard
}

/// `ip -json` about a device of the gateway's host; none when it is not there.
fn device(lab: &Lab, name: &str) -> Option<serde_json::Value> {
    let output = lab
        .host("gateway")
        .attempt(&format!("ip -json address show dev {name}"));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    rows.get(0).filter(|row| !row["ifname"].is_null()).cloned()
}

#[test]
fn the_host_is_reached_through_the_gateway_and_reaches_others() {
    let lab = Lab::new();
    let _server = Nginx::start(&lab, 1);
    let gateway = Gateway::start(
        &lab,
        &yaml("tg0").replace("      - { address: 10.0.0.12, port: 8080 }\n", ""),
    );
    let (host, client) = (lab.host("gateway"), lab.client());

    // For the kernel the device is the port.
    let tap = device(&lab, "tg0").unwrap();
    let port = device(&lab, "wan0").unwrap();
    assert_eq!(tap["address"], port["address"]);
    assert_eq!(
        (&tap["mtu"], &tap["addr_info"][0]["local"]),
        (&1500.into(), &OWN.into())
    );
    assert_eq!(tap["addr_info"][0]["prefixlen"], 24);
    assert!(
        tap["flags"].as_array().unwrap().contains(&"LOWER_UP".into()),
        "{tap}"
    );

    let heard = Capture::start(&lab, &client, "wan0");
    let _ssh = Repeater::start(&host, "0.0.0.0:22");
    assert!(is_repeated(&client, "203.0.113.2:22"));
    let _theirs = Repeater::start(&client, "0.0.0.0:179");
    assert!(is_repeated(&host, "203.0.113.1:179"));
    // The kernel's own ping: requests go out, answers come back.
    let ping = host.run("ping -c 3 -i 0.1 -W 5 203.0.113.1");
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    // The gateway answers pings to the port's address itself, and the kernel hears of none.
    let before = host.run("nstat -asz IcmpInEchos");
    let ping = client.run(&format!("ping -c 3 -i 0.1 -W 5 {OWN}"));
    assert!(
        ping.contains(" 0% packet loss") && !ping.contains("DUP"),
        "{ping}"
    );
    assert_eq!(host.run("nstat -asz IcmpInEchos"), before);
    // Services go on beside it.
    assert_eq!(curl(&client, FULLNAT, 10), vec!["server 1"; 10]);
    assert!(is_repeated(&client, "203.0.113.2:22"));

    // One question, one answer: the kernel sees the interface too, and keeps silent there.
    client.run("ip neighbour flush dev wan0");
    client.run(&format!("ping -c 1 -W 5 {OWN}"));
    let heard = heard.end();
    let questions = heard
        .frames(&format!(
            "arp.opcode == 1 && arp.dst.proto_ipv4 == {OWN} && !arp.isgratuitous"
        ))
        .len();
    let answers = heard.frames(&format!(
        "arp.opcode == 2 && arp.src.proto_ipv4 == {OWN} && !arp.isgratuitous"
    ));
    assert!(questions > 0);
    assert_eq!(answers.len(), questions, "{answers:?}");
    // Nor does it open a connection twice.
    let handshakes = |end: &str, ack: u8| {
        let filter =
            format!("ip.{end} == {OWN} && tcp.flags.syn == 1 && tcp.flags.ack == {ack} && tcp.port == 22");
        heard.frames(&filter).len()
    };
    assert!(handshakes("dst", 0) >= 2);
    assert_eq!(handshakes("src", 1), handshakes("dst", 0));
    assert!(number_of(&gateway, "tidegate_worker_to_kernel_packets_total") > 10);
    assert!(number_of(&gateway, "tidegate_worker_from_kernel_packets_total") > 10);

    // A reload gives the kernel the port's new addresses, and takes the old ones, though root is given up.
    gateway.load(&yaml("tg0").replace("203.0.113.2/24", "203.0.113.9/24"));
    until("the new address", PATIENCE, || {
        let tap = device(&lab, "tg0").unwrap();
        let addresses = tap["addr_info"].as_array().unwrap();
        (addresses.len() == 1 && addresses[0]["local"] == "203.0.113.9").then_some(())
    });
    assert!(is_repeated(&client, "203.0.113.9:22"));
    assert!(gateway.log().contains("root is given up"));
    gateway.finish();
    assert_eq!(device(&lab, "tg0"), None);
    assert_eq!(processes(&host, "kernel-addresses"), 0);
}

/// A counter as Prometheus reads it, of all workers.
fn number_of(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics();
    let rows = metrics
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")));
    rows.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
        .sum()
}

/// Processes of a host that were started with this word.
fn processes(host: &Host, word: &str) -> usize {
    let namespace = host.namespace();
    let pids = std::process::Command::new("ip")
        .args(["netns", "pids", namespace])
        .output();
    let pids = String::from_utf8(pids.unwrap().stdout).unwrap();
    let of = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let named = |pid: &&str| {
        of(pid)
            .split(|byte| *byte == 0)
            .any(|part| part == word.as_bytes())
    };
    pids.split_whitespace().filter(named).count()
}

// Field case FRAG-03, on a wire: both pieces of an OSPF packet to 224.0.0.5, and a VRRP advertisement.
#[test]
fn groups_reach_the_kernel_byte_by_byte_fragments_too() {
    let lab = Lab::bare();
    // `net_af_packet` would put the fragments together.
    let gateway = Gateway::start(&lab, &on_taps(&yaml("tg0")));
    let (host, client) = (lab.host("gateway"), lab.client());
    lab.plug("tgwan", &client, &["203.0.113.1/24"]);
    let kernel = RawSocket::of_protocol(&host, "tg0", 0x0800);
    let wire = RawSocket::open(&client, "tgwan");
    let frames = [
        to_group([224, 0, 0, 5], 89, 0x2000, &[7; 1480]),
        to_group([224, 0, 0, 5], 89, 185, &[8; 520]),
        to_group(
            [224, 0, 0, 18],
            112,
            0,
            &[0x21, 51, 100, 1, 0, 1, 0, 0, 203, 0, 113, 100],
        ),
    ];
    for frame in &frames {
        wire.send(frame);
    }
    let mut heard = Vec::new();
    until("all frames on the device", PATIENCE, || {
        let mut room = [0; 2048];
        while let Some(frame) = kernel.receive(&mut room) {
            // Of the kernel's own there may be more, as of IGMP.
            if frame[26..30] == [203, 0, 113, 1] {
                heard.push(frame.to_vec());
            }
        }
        (heard.len() >= frames.len()).then_some(())
    });
    for (sent, heard) in frames.iter().zip(&heard) {
        // A short frame may have got padding on the way.
        assert_eq!(&heard[..sent.len()], &sent[..]);
    }
    assert_eq!(heard.len(), frames.len());
    gateway.finish();
}

/// An IPv4 frame to a group, with flags and offset of a fragment.
fn to_group(group: [u8; 4], protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0xc0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([1, protocol, 0, 0, 203, 0, 113, 1]);
    header.extend(group);
    let sum: u32 = header
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let [_, b, c, d] = group;
    let link = [1, 0, 0x5e, b & 0x7f, c, d, 2, 0, 0, 0, 0, 9, 8, 0];
    [&link[..], &header, payload].concat()
}

#[test]
fn a_flood_to_the_hosts_address_slows_neither_services_nor_routing() {
    let lab = Lab::new();
    let _server = Nginx::start(&lab, 1);
    let limited =
        yaml("{ device: tg0, rate: 200 }").replace("      - { address: 10.0.0.12, port: 8080 }\n", "");
    let gateway = Gateway::start(&lab, &limited);
    let (host, client) = (lab.host("gateway"), lab.client());
    let _bgp = Repeater::start(&host, "0.0.0.0:179");
    let stop = Arc::new(AtomicBool::new(false));
    let flood = {
        let stop = Arc::clone(&stop);
        let socket = client.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
        std::thread::spawn(move || {
            let mut sent = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                // The kernel of the host tells that nobody listens, now and then.
                sent += u64::from(socket.send_to(&[0; 64], "203.0.113.2:9").is_ok());
            }
            sent
        })
    };
    until("the flood to be cut", PATIENCE, || {
        (gateway.dropped("exception_rate") > 10_000).then_some(())
    });
    for _ in 0..5 {
        assert_eq!(curl(&client, FULLNAT, 20), vec!["server 1"; 20]);
        assert!(
            is_repeated(&client, "203.0.113.2:179"),
            "BGP has a share of its own"
        );
    }
    let (cut, passed) = (
        gateway.dropped("exception_rate"),
        number_of(&gateway, "tidegate_worker_to_kernel_packets_total"),
    );
    stop.store(true, Ordering::Relaxed);
    let sent = flood.join().unwrap();
    println!("{sent} datagrams sent, {cut} cut, {passed} packets to the kernel");
    assert!(passed < cut / 10, "{passed} of {sent} passed");
    gateway.finish();
}

#[test]
fn the_device_follows_its_ports_link() {
    let lab = Lab::bare();
    let gateway = Gateway::start(&lab, &on_taps(&yaml("tg0")));
    let host = lab.host("gateway");
    let carrier = |there: bool| {
        until(&format!("a carrier: {there}"), PATIENCE, || {
            let tap = device(&lab, "tg0").unwrap();
            let has = tap["flags"].as_array().unwrap().contains(&"LOWER_UP".into());
            (has == there).then_some(())
        });
    };
    carrier(true);
    host.run("ip link set tgwan down");
    carrier(false);
    host.run("ip link set tgwan up");
    carrier(true);
    gateway.finish();
}

#[test]
fn a_device_that_is_there_already_is_not_taken() {
    let lab = Lab::new();
    let host = lab.host("gateway");
    host.run("ip tuntap add tg0 mode tap");
    let mut gateway = Gateway::failing(&lab, &yaml("tg0"));
    let log = gateway.ended();
    assert!(
        log.contains("port wan: exception") && log.contains("there is a device `tg0` already"),
        "{log}"
    );
}
