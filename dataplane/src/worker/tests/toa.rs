//! The client's address for FULLNAT servers, by TOA, through the pipeline.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, FIN, PSH, RST, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::service::{ClientAddress, Protocol};
use std::net::SocketAddr;

mod numbers;
mod room;

/// TOA is the same over both, but for the length of the option.
const FAMILIES: [Family; 2] = Family::BOTH;
/// The server's initial sequence number.
const ISN: u32 = 7000;
/// What is due to carry the option acknowledges this.
const FIRST: u32 = ISN + 1;

/// A gateway with one TOA service over one server, and the packets of one client.
struct Told {
    gateway: Gateway,
    client: SocketAddr,
    vip: SocketAddr,
    server: SocketAddr,
    local: SocketAddr,
}

impl Told {
    fn plan(family: Family) -> Plan {
        let mut plan = Plan::dual();
        let slot = plan.add(
            family.vip(80),
            Protocol::Tcp,
            vec![family.real(1, Mode::Fullnat, 8080)],
        );
        plan.edit(slot, |service| service.client_address = ClientAddress::Toa);
        plan
    }

    /// The client's SYN has arrived, from sequence number 999 on.
    fn asked(plan: Plan, family: Family) -> Told {
        let gateway = Gateway::new(plan);
        let (client, vip) = (family.client(1, 54321), family.vip(80));
        let mut told = Told {
            gateway,
            client,
            vip,
            server: family.server(1, 8080),
            local: client,
        };
        told.local = told.asks().from;
        told
    }

    /// The server has answered that.
    fn answered(family: Family) -> Told {
        let mut told = Told::asked(Told::plan(family), family);
        told.answers();
        told
    }

    fn asks(&mut self) -> Wire {
        let syn = self.client_says(SYN, 999, 0, b"");
        self.gateway.towards_server(&syn)
    }

    fn answers(&mut self) -> Wire {
        let answer = self.server_says(SYN | ACK, ISN, b"");
        self.gateway.towards_client(&answer)
    }

    fn client_says(&self, flags: u8, sequence: u32, acknowledgement: u32, data: &[u8]) -> Wire {
        numbered(
            Wire::tcp(self.client, self.vip, flags, data),
            sequence,
            acknowledgement,
        )
    }

    fn server_says(&self, flags: u8, sequence: u32, data: &[u8]) -> Wire {
        numbered(Wire::tcp(self.server, self.local, flags, data), sequence, 1000)
    }

    fn option(&self) -> Vec<u8> {
        let port = self.client.port().to_be_bytes();
        match self.client.ip() {
            std::net::IpAddr::V4(address) => [&[254, 8], &port[..], &address.octets()].concat(),
            std::net::IpAddr::V6(address) => [&[254, 20], &port[..], &address.octets()].concat(),
        }
    }

    /// What the server is to get of that packet, with the option or without.
    fn expected(&self, sent: &Wire, option: bool) -> Wire {
        let own = options(sent);
        let first = if option { self.option() } else { Vec::new() };
        let moved = sent.between(self.local, self.server).later();
        moved.with_options(&[first, own].concat())
    }

    /// The client says that, and the server gets it, with the option or without.
    #[track_caller]
    fn goes(&mut self, sent: &Wire, option: bool) {
        let counts = |told: &Told| {
            let stats = &told.gateway.stats;
            (stats.toa_added.get(), stats.toa_no_room.get())
        };
        let before = counts(self);
        let seen = self.gateway.towards_server(sent);
        assert_eq!(seen, self.expected(sent, option));
        assert_eq!(counts(self).0 - before.0, u64::from(option));
    }
}

fn numbered(mut wire: Wire, number: u32, acknowledged: u32) -> Wire {
    if let Load::Tcp {
        sequence,
        acknowledgement,
        ..
    } = &mut wire.load
    {
        (*sequence, *acknowledgement) = (number, acknowledged);
    }
    wire
}

fn options(wire: &Wire) -> Vec<u8> {
    match &wire.load {
        Load::Tcp { options, .. } => options.clone(),
        other => panic!("{other:?}"),
    }
}

/// TOA-01: a tiny request in one segment with FIN, and its retransmission; the ACK before it too.
#[test]
fn all_that_may_complete_the_handshake_tells_the_client() {
    for family in FAMILIES {
        let mut told = Told::answered(family);
        let request = told.client_says(PSH | FIN | ACK, 1000, FIRST, b"GET / HTTP");
        for sent in [
            told.client_says(ACK, 1000, FIRST, b""),
            request.clone(),
            request,
            told.client_says(ACK, 1000, FIRST, &[7; 1400]),
        ] {
            let sent = sent.with_options(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
            told.goes(&sent, true);
        }
        assert_eq!(told.gateway.stats.toa_added.get(), 4);
        assert_eq!(told.gateway.stats.toa_no_room.get(), 0);
        // Traffic is counted as it arrives.
        let server = family.real(1, Mode::Fullnat, 8080).slot as usize;
        assert_eq!(told.gateway.server(server).inbound_packets.get(), 5);
    }
}

#[test]
fn nothing_is_told_before_the_servers_answer_or_after_the_clients() {
    for family in FAMILIES {
        let mut told = Told::asked(Told::plan(family), family);
        let early = told.client_says(ACK, 1000, FIRST, b"");
        told.goes(&early, false);
        // A SYN that comes again does not take back what the answer has said.
        told.answers();
        assert!(options(&told.asks()).is_empty());
        let ack = told.client_says(ACK, 1000, FIRST, b"");
        told.goes(&ack, true);
        let reset = told.client_says(RST | ACK, 1000, FIRST, b"");
        let mut other = Told::answered(family);
        other.goes(&reset, false);

        let banner = told.server_says(PSH | ACK, FIRST, b"hello");
        assert_eq!(
            told.gateway.towards_client(&banner),
            banner.between(told.vip, told.client).later()
        );
        told.goes(&ack, true);
        for sent in [
            told.client_says(ACK, 1000, FIRST + 5, b""),
            told.client_says(PSH | ACK, 1000, FIRST + 5, b"data"),
            ack,
        ] {
            told.goes(&sent, false);
        }
        assert_eq!(told.gateway.stats.toa_no_room.get(), 0);
    }
}

/// A client that acknowledges what the server has never said is not rid of its name.
#[test]
fn a_client_cannot_hide_behind_a_wrong_acknowledgement() {
    for family in FAMILIES {
        let mut told = Told::answered(family);
        for wrong in [FIRST + 1000, FIRST - 1, FIRST + (1 << 31)] {
            let sent = told.client_says(ACK, 1000, wrong, b"");
            told.goes(&sent, false);
            let refusal = numbered(told.server_says(RST, wrong, b""), wrong, 0);
            told.gateway.towards_client(&refusal);
        }
        let lie = [254, 8, 0, 80, 192, 0, 2, 1];
        let ack = told.client_says(ACK, 1000, FIRST, b"").with_options(&lie);
        let seen = told.gateway.towards_server(&ack);
        assert_eq!(options(&seen), [told.option(), vec![1; 8]].concat());
    }
}

/// Services without the setting, and servers that see the client anyway, get packets as they are.
#[test]
fn nobody_else_gets_an_option() {
    for (mode, setting, option) in [
        (Mode::Fullnat, ClientAddress::None, false),
        (Mode::Nat, ClientAddress::Toa, false),
        (Mode::Fullnat, ClientAddress::Toa, true),
    ] {
        let mut plan = Plan::dual();
        let server = Family::V4.real(1, mode, 8080);
        let slot = plan.add(Family::V4.vip(80), Protocol::Tcp, vec![server]);
        plan.edit(slot, |service| service.client_address = setting);
        let mut told = Told::asked(plan, Family::V4);
        let mss = [2, 4, 5, 0xb4];
        let answer = told.server_says(SYN | ACK, ISN, b"").with_options(&mss);
        let seen = told.gateway.towards_client(&answer);
        assert_eq!(options(&seen) == mss, !option);
        let ack = told.client_says(ACK, 1000, FIRST, b"");
        told.goes(&ack, option);
    }
}

/// What a connection has begun with, it keeps.
#[test]
fn a_changed_setting_is_for_new_connections() {
    let mut told = Told::answered(Family::V4);
    told.gateway
        .change(|plan| plan.edit(0, |service| service.client_address = ClientAddress::None));
    let ack = told.client_says(ACK, 1000, FIRST, b"");
    told.goes(&ack, true);
    told.client = Family::V4.client(2, 1);
    told.local = told.asks().from;
    told.answers();
    let ack = told.client_says(ACK, 1000, FIRST, b"");
    told.goes(&ack, false);
}
