//! A hundred ports are a hundred connections to each server, and not one more. What the operator is told is right at
//! each step, and all ports are free again after the last connection.

use super::server::{ANSWER, Server, WAIT};
use super::wire::{Client, Wire};
use super::wrap::connect_from;
use super::{FIRST, Family, PORT, V4, V6, of_address, until_used};
use crate::lab::{Gateway, Host, PATIENCE, number, until};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// Local ports of an address towards each server.
const PORTS: u16 = 100;

/// Connections that have ended are forgotten soon.
const MORE: &str = "timeouts: { tcp: { time_wait: 2, close: 2 } }\nsettings: { no_local_port: reset }\n";

/// The scene at one moment: what the operator has written, and who is connected.
struct Scene {
    family: Family,
    gateway: Gateway,
    client: Host,
    open: Vec<TcpStream>,
}

impl Scene {
    /// A connection that has been answered, and stays.
    fn connect(&self) -> io::Result<TcpStream> {
        let source: IpAddr = self.family.own[0].split('/').next().unwrap().parse().unwrap();
        let vip = self.family.vip();
        self.client.inside(|| {
            let mut stream = connect_from(source, vip)?;
            stream.write_all(&[WAIT])?;
            let mut answer = [0; ANSWER.len()];
            stream.read_exact(&mut answer)?;
            assert_eq!(answer, ANSWER);
            Ok(stream)
        })
    }

    fn open(&mut self, count: usize) {
        for n in 0..count {
            let stream = self.connect();
            self.open
                .push(stream.unwrap_or_else(|error| panic!("connection {n} of {count}: {error}")));
        }
    }

    /// One more is refused at once, and counted once.
    fn assert_full(&self) {
        let before = self.gateway.dropped("local_ports_exhausted");
        let refused = self.connect().expect_err("one connection too many");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
        assert_eq!(self.gateway.dropped("local_ports_exhausted"), before + 1);
    }

    /// What `show` and Prometheus are told: in use of all, and in use and free towards each server that was reached.
    fn assert_told(&self, addresses: &[&str], towards: &[(SocketAddr, u64)]) {
        let (metrics, rows) = (self.gateway.metrics(), self.gateway.local_servers("dip"));
        let total: u64 = towards.iter().map(|(_, used)| used).sum();
        assert_eq!(of_address(&self.gateway, "used"), total);
        let all = addresses.len() as u64 * u64::from(PORTS);
        for (end, used) in towards {
            let of_end = |row: &&serde_json::Value| {
                row["address"] == end.ip().to_string() && number(row, "port") == u64::from(end.port())
            };
            let mine: Vec<_> = rows.iter().filter(of_end).collect();
            let sum = |key| mine.iter().map(|row| number(row, key)).sum::<u64>();
            assert_eq!(sum("used"), *used, "towards {end}: {rows:?}");
            let unused = (addresses.len() - mine.len()) as u64 * u64::from(PORTS);
            assert_eq!(sum("free") + unused, all - used, "towards {end}: {rows:?}");
            for row in mine {
                let labels = format!(
                    "pool=\"dip\",address=\"{}\",server=\"{}\",server_port=\"{PORT}\",protocol=\"tcp\"",
                    row["local"].as_str().unwrap(),
                    end.ip()
                );
                for key in ["used", "free"] {
                    let series = format!(
                        "tidegate_local_server_ports_{key}{{{labels}}} {}\n",
                        number(row, key)
                    );
                    assert!(metrics.contains(&series), "no {series} in\n{metrics}");
                }
                for key in ["borrowed", "recycled", "exhausted"] {
                    let series = format!(
                        "tidegate_local_server_ports_{key}_total{{{labels}}} {}\n",
                        number(row, key)
                    );
                    assert!(metrics.contains(&series), "no {series} in\n{metrics}");
                }
            }
        }
    }

    fn change(&self, yaml: &str) {
        self.gateway.write(yaml);
        let output = self.gateway.reload();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
    }
}

fn a_hundred_ports(family: Family) {
    let lab = family.lab();
    let [first, second] = [1, 2].map(|number| family.server(number));
    let _servers = [
        Server::start(&lab.server(1), first),
        Server::start(&lab.server(2), second),
    ];
    // The server with the fewest connections is the one that has ports left.
    let yaml = |servers, more| {
        family
            .yaml(servers, PORTS, more)
            .replace("scheduler: rr", "scheduler: lc")
    };
    let gateway = Gateway::start(&lab, &yaml(1, MORE));
    let mut scene = Scene {
        family,
        gateway,
        client: lab.client(),
        open: vec![],
    };
    let one = [family.local];
    scene.open(usize::from(PORTS));
    scene.assert_told(&one, &[(first, 100)]);
    scene.assert_full();
    let said = format!(
        "no local port is left from {} to server {first}: those of local address {} are all in use",
        family.vip(),
        family.local
    );
    until("the warning", PATIENCE, || {
        scene.gateway.log().contains(&said).then_some(())
    });
    // Those that are there go on: one more byte is taken, and its end gives its port to the next one.
    scene.open[7].write_all(b"more").unwrap();
    drop(scene.open.swap_remove(42));
    until("the end of one connection", PATIENCE, || {
        let states = scene.gateway.states();
        states.iter().any(|state| state == "TIME_WAIT").then_some(())
    });
    scene.open(1);
    scene.assert_full();

    // A server more is a hundred connections more, and so is an address more, at once.
    scene.change(&yaml(2, MORE));
    scene.open(usize::from(PORTS));
    scene.assert_told(&one, &[(first, 100), (second, 100)]);
    scene.assert_full();
    let another = family.local.replace("200", "201");
    let wider = yaml(2, MORE).replace(
        &format!("\"{}\"]", family.local),
        &format!("\"{}\", \"{another}\"]", family.local),
    );
    scene.change(&wider);
    scene.open(40);
    scene.assert_told(&[family.local, &another], &[(first, 120), (second, 120)]);

    scene.open.clear();
    until_used(&scene.gateway, 0);
    scene.assert_told(&[family.local, &another], &[(first, 0), (second, 0)]);
    scene.gateway.finish();
}

#[test]
fn a_hundred_ports_are_a_hundred_connections_to_each_server() {
    a_hundred_ports(V4);
}

#[test]
fn a_hundred_ports_are_a_hundred_connections_to_each_server_in_ipv6() {
    a_hundred_ports(V6);
}

/// Unless told otherwise the gateway says nothing to a client without a port, which tries again by itself.
#[test]
fn a_client_without_a_port_hears_nothing_and_is_served_when_it_tries_again() {
    let lab = V4.lab();
    let server = Server::start(&lab.server(1), V4.server(1));
    let gateway = Gateway::start(&lab, &V4.yaml(1, 1, ""));
    let wire = Wire::open(&lab.client(), &gateway, V4.vip());
    let mut only = Client::call(&wire, V4.client(1, 40_000), 1000, None);
    only.connect();
    let waiting = V4.client(2, 40_000);
    Client::call(&wire, waiting, 2000, None);
    until("the refusal", PATIENCE, || {
        (gateway.dropped("local_ports_exhausted") == 1).then_some(())
    });
    only.send(super::wire::RST, b"");
    // The first thing that it hears is the answer to its second SYN.
    Client::call(&wire, waiting, 2000, None).connect();
    let seen: Vec<u16> = server.clients().iter().map(SocketAddr::port).collect();
    assert_eq!(seen, [FIRST]);
    gateway.finish();
}
