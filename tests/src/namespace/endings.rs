//! Both ends of a TCP connection, real sockets, hear at once that it has ended: when it was idle for too long, and when
//! its server was removed.

use crate::lab::{DR, FULLNAT, Gateway, Lab, PATIENCE, number, until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Both ends of a connection through the gateway.
pub(crate) struct Pair {
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    /// Connects to port 80 of `vip`, which leads to `listener`, and has data go both ways.
    fn open(lab: &Lab, vip: &str, listener: &TcpListener) -> Pair {
        Pair::open_at(lab, &format!("{vip}:80"), listener)
    }

    /// Connects to a VIP's port, which leads to `listener`, and has data go both ways, as far as the client sees answers.
    pub(crate) fn open_at(lab: &Lab, at: &str, listener: &TcpListener) -> Pair {
        let at: SocketAddr = at.parse().unwrap();
        let client = lab
            .client()
            .inside(move || TcpStream::connect_timeout(&at, PATIENCE).unwrap());
        let (server, _) = listener.accept().unwrap();
        let mut pair = Pair { client, server };
        for end in [&pair.client, &pair.server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        pair.talk();
        pair
    }

    /// A word there and another back.
    pub(crate) fn talk(&mut self) {
        let mut word = [0; 4];
        self.client.write_all(b"ping").unwrap();
        self.server.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"ping");
        self.server.write_all(b"pong").unwrap();
        self.client.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"pong");
    }

    /// Asserts that both ends, which say nothing, are reset.
    fn expect_resets(mut self) {
        for (name, end) in [("client", &mut self.client), ("server", &mut self.server)] {
            let error = end.read(&mut [0; 4]).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{name}");
        }
    }
}

/// A socket of server 1 that listens.
pub(crate) fn listen(lab: &Lab, address: &str) -> TcpListener {
    let address: SocketAddr = address.parse().unwrap();
    lab.server(1).inside(move || TcpListener::bind(address).unwrap())
}

/// The usual services with server 1 alone, each with these keys more.
fn with(keys: &str) -> String {
    let usual = Gateway::usual();
    usual
        .replace("scheduler: wrr", &format!("scheduler: wrr, {keys}"))
        .replace("      - { address: 10.0.0.12, port: 8080 }\n", "")
        .replace("      - { address: 10.0.0.12 }\n", "")
}

#[test]
fn an_idle_connection_that_ends_is_reset_at_both_ends() {
    let lab = Lab::new();
    let gateway = Gateway::start(
        &lab,
        &with("on_idle: reset, timeouts: { tcp: { established: 3 } }"),
    );
    let fullnat = listen(&lab, "10.0.0.11:8080");
    let direct = listen(&lab, &format!("{DR}:80"));
    let pairs = [Pair::open(&lab, FULLNAT, &fullnat), Pair::open(&lab, DR, &direct)];
    for pair in pairs {
        pair.expect_resets();
    }
    assert!(gateway.states().is_empty());
    gateway.finish();
}

#[test]
fn tcp_05_connections_of_a_removed_server_are_reset_at_both_ends() {
    let lab = Lab::new();
    let yaml = with("on_remove: reset");
    let gateway = Gateway::start(&lab, &yaml);
    let fullnat = listen(&lab, "10.0.0.11:8080");
    let direct = listen(&lab, &format!("{DR}:80"));
    let pairs = [Pair::open(&lab, FULLNAT, &fullnat), Pair::open(&lab, DR, &direct)];
    gateway.write(&yaml.replace("address: 10.0.0.11", "address: 10.0.0.12"));
    assert!(gateway.reload().status.success());
    for pair in pairs {
        pair.expect_resets();
    }
    gateway.finish();
}

#[test]
fn a_removed_server_drains_to_the_end_of_its_connections() {
    let lab = Lab::new();
    let yaml =
        with("on_remove: drain, timeouts: { tcp: { fin_wait: 2, close_wait: 2, time_wait: 2, close: 2 } }");
    let gateway = Gateway::start(&lab, &yaml);
    let fullnat = listen(&lab, "10.0.0.11:8080");
    let mut pair = Pair::open(&lab, FULLNAT, &fullnat);
    gateway.write(&yaml.replace("address: 10.0.0.11", "address: 10.0.0.12"));
    assert!(gateway.reload().status.success());
    let departing = || number(&gateway.named("services", "web"), "departing");
    assert_eq!(departing(), 1);
    pair.talk();
    drop(pair);
    until("the last connection to end", PATIENCE, || {
        (departing() == 0).then_some(())
    });
    gateway.finish();
}
