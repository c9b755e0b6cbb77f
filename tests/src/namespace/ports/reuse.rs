//! One local port, taken again at once by a client that knows nothing of the one before: its sequence numbers begin
//! below, and its clock is behind. The server's kernel must answer its only SYN with a SYN-ACK, whatever it remembers.

use super::server::{ANSWER, CLOSE, Server, WAIT};
use super::wire::{ACK, Client, FIN, PSH, RST, Wire};
use super::{Family, V4, V6, until_used};
use crate::lab::{Gateway, Lab, number};
use std::net::SocketAddr;

/// The scene: a server, a gateway with so many ports, and the client's link.
struct Scene {
    family: Family,
    server: Server,
    gateway: Gateway,
    wire: Wire,
    lab: Lab,
}

/// Where the first client's sequence numbers begin, and what its clock shows. Near the wrap, so that some are beyond it.
const ISN: u32 = u32::MAX - 3_000_000;
const CLOCK: u32 = 2_000_000_000;

impl Scene {
    fn new(family: Family, ports: u16, more: &str) -> Scene {
        let lab = family.lab();
        let server = Server::start(&lab.server(1), family.server(1));
        let gateway = Gateway::start(&lab, &family.yaml(1, ports, more));
        let wire = Wire::open(&lab.client(), &gateway, family.vip());
        // The gateway learns its neighbours' addresses before anything is counted.
        let scene = Scene {
            family,
            server,
            gateway,
            wire,
            lab,
        };
        let mut first = scene.client(1);
        first.connect();
        scene.server_first(&mut first);
        scene
    }

    /// Client `n` has sent its SYN: each begins a million below the one before, with a clock that is an hour behind.
    fn client(&self, n: u8) -> Client<'_> {
        self.client_at(self.family.client(n, 40_000), n)
    }

    fn client_at(&self, source: SocketAddr, n: u8) -> Client<'_> {
        let back = u32::from(n);
        let isn = ISN.wrapping_sub(1_000_000 * back);
        Client::call(&self.wire, source, isn, Some(CLOCK - 3_600_000 * back))
    }

    /// The server closes first, so that TIME_WAIT is its own.
    fn server_first(&self, client: &mut Client<'_>) {
        client.send(PSH | ACK, &[CLOSE]);
        assert_eq!(client.hear_out(), ANSWER);
        client.send(FIN | ACK, b"");
        client.heard_by_server();
    }

    /// Asserts that the server's kernel has never refused a segment, and ends.
    fn finish(self, connections: usize) {
        for (name, value) in super::wrap::refusals(&self.lab.server(1)) {
            assert_eq!(value, 0, "{name} of the server");
        }
        let row = self.gateway.named("services", "web");
        assert_eq!(number(&row, "connections"), connections as u64, "{row}");
        self.gateway.finish();
    }
}

fn after_time_wait(family: Family) {
    let scene = Scene::new(family, 1, "");
    for n in 2..20 {
        let mut client = scene.client(n);
        client.connect();
        scene.server_first(&mut client);
    }
    assert_eq!(scene.server.clients().len(), 1, "one local port");
    assert_eq!(super::of_address(&scene.gateway, "recycled"), 18);
    scene.finish(19);
}

#[test]
fn a_port_in_the_servers_time_wait_serves_any_client_at_once() {
    after_time_wait(V4);
}

#[test]
fn a_port_in_the_servers_time_wait_serves_any_client_at_once_in_ipv6() {
    after_time_wait(V6);
}

/// The answer to the old client's last FIN is still on its way when the new client calls: it is not the new client's.
#[test]
fn what_the_server_tells_the_old_client_does_not_reach_the_new_one() {
    let scene = Scene::new(V4, 1, "");
    let mut old = scene.client(2);
    old.connect();
    for n in 3..20 {
        old.send(PSH | ACK, &[CLOSE]);
        old.hear_out();
        old.send(FIN | ACK, b"");
        let mut new = scene.client(n);
        new.connect();
        old = new;
    }
    scene.server_first(&mut old);
    assert_eq!(scene.gateway.states(), ["TIME_WAIT"], "the last one");
    scene.finish(19);
}

/// A client that resets leaves nothing behind at the server, and its port is the next one's.
#[test]
fn a_port_that_was_reset_serves_the_next_client_at_once() {
    let scene = Scene::new(V4, 1, "");
    for n in 2..10 {
        let mut client = scene.client(n);
        client.connect();
        client.send(PSH | ACK, &[WAIT]);
        while client.receive("the answer").data != ANSWER {}
        client.send(RST, b"");
    }
    scene.finish(9);
}

/// A client takes its own port again: the gateway begins anew with another local port, and the old one is free before
/// the server has forgotten it.
#[test]
fn a_port_that_its_client_has_left_is_remembered() {
    let scene = Scene::new(V4, 2, "");
    let source = scene.family.client(99, 41_000);
    for n in 2..12 {
        let mut client = scene.client_at(source, n);
        client.connect();
        scene.server_first(&mut client);
    }
    assert_eq!(scene.server.clients().len(), 2, "both local ports");
    scene.finish(11);
}

/// With timeouts shorter than the server's a port is free long before the server has forgotten it.
#[test]
fn a_port_that_was_freed_early_is_remembered() {
    let early = "timeouts: { tcp: { time_wait: 1, close: 1 } }\n";
    for family in [V4, V6] {
        let scene = Scene::new(family, 1, early);
        for n in 2..5 {
            until_used(&scene.gateway, 0);
            let mut client = scene.client(n);
            client.connect();
            scene.server_first(&mut client);
        }
        assert_eq!(super::of_address(&scene.gateway, "recycled"), 0);
        scene.finish(4);
    }
}

/// A client that has closed first owes the server its last acknowledgement: until then its port is its own.
#[test]
fn a_port_is_not_taken_from_a_client_that_has_still_to_acknowledge() {
    let scene = Scene::new(V4, 1, "");
    let mut connections = 1;
    for n in (2..20).step_by(2) {
        let mut old = scene.client(n);
        old.connect();
        old.send(PSH | ACK, &[WAIT]);
        while old.receive("the answer").data != ANSWER {}
        old.acknowledgement = old.acknowledgement.wrapping_add(ANSWER.len() as u32);
        old.send(FIN | ACK, b"");
        old.hear_out();
        // The server is in LAST_ACK.
        let before = scene.gateway.dropped("local_ports_exhausted");
        {
            let _early = scene.client(n + 1);
            crate::lab::until("the refusal", crate::lab::PATIENCE, || {
                (scene.gateway.dropped("local_ports_exhausted") > before).then_some(())
            });
        }
        old.send(ACK, b"");
        let mut new = scene.client(n + 1);
        new.connect();
        scene.server_first(&mut new);
        connections += 2;
    }
    scene.finish(connections);
}
