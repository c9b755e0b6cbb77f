//! What a client's kernel makes of the gateway's own answers, in both families: refused at once, and never a timeout.

use crate::lab::{CLIENT, CLIENT6, Gateway, Lab, PATIENCE, authority};
use crate::modes::NETWORK;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};

const VIPS: [&str; 2] = ["203.0.113.110", "2001:db8:1::110"];

/// Services on port 80 and 53, of which none has a server.
fn yaml() -> String {
    let mut yaml = NETWORK.to_owned() + "pools: [{ name: none, servers: [] }]\nservices:\n";
    for (family, vip) in ["", "6"].into_iter().zip(VIPS.map(authority)) {
        yaml += &format!(
            "  - {{ name: web{family}, listen: \"{vip}:80/tcp\", pool: none, mode: nat, scheduler: rr }}\n  - {{ name: dns{family}, listen: \"{vip}:53/udp\", pool: none, mode: nat, scheduler: rr }}\n"
        );
    }
    yaml
}

fn end(address: &str, port: u16) -> SocketAddr {
    (address.parse::<IpAddr>().unwrap(), port).into()
}

/// What a client hears that connects, and one that sends a datagram.
fn heard(lab: &Lab, client: &str, vip: &str, tcp: u16, udp: u16) -> [ErrorKind; 2] {
    lab.client().inside(|| {
        let connected = TcpStream::connect_timeout(&end(vip, tcp), PATIENCE);
        let socket = UdpSocket::bind(end(client, 0)).unwrap();
        socket.connect(end(vip, udp)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(b"hello").unwrap();
        let received = socket.recv(&mut [0; 16]);
        [connected.unwrap_err().kind(), received.unwrap_err().kind()]
    })
}

#[test]
fn rst_01_and_02_clients_are_refused_at_once() {
    let lab = Lab::dual();
    let gateway = Gateway::start(&lab, &yaml());
    for (client, vip) in [CLIENT, CLIENT6].into_iter().zip(VIPS) {
        let ping = lab.client().run(&format!("ping -c 3 -i 0.1 -W 5 {vip}"));
        assert!(ping.contains(" 0% packet loss"), "{ping}");
        let before = ["no_service", "no_server"].map(|reason| gateway.dropped(reason));
        assert_eq!(
            heard(&lab, client, vip, 81, 54),
            [ErrorKind::ConnectionRefused; 2],
            "no service at {vip}"
        );
        assert_eq!(
            heard(&lab, client, vip, 80, 53),
            [ErrorKind::ConnectionRefused; 2],
            "no server at {vip}"
        );
        let after = ["no_service", "no_server"].map(|reason| gateway.dropped(reason));
        assert!(
            after
                .iter()
                .zip(before)
                .all(|(after, before)| *after >= before + 2),
            "{before:?} {after:?}"
        );
    }
    for (counter, value) in lab.client().checksum_errors() {
        assert_eq!(value, 0, "{counter}");
    }
    gateway.finish();
}
