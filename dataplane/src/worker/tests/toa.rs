//! The client's address for FULLNAT servers, by TOA, through the pipeline.

use super::carried::*;
use super::exchange::*;
use super::frames::{ACK, FIN, PSH, RST, SYN};
use super::gateway::*;
use super::plan::*;
use super::wire::*;
use crate::flow::Mode;
use crate::service::{ClientAddress, Protocol};
use proptest::prelude::*;
use std::net::SocketAddr;

/// Families in which FULLNAT is there.
const FAMILIES: [Family; 1] = [Family::V4];
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
        self.gateway.to_server(&syn)
    }

    fn answers(&mut self) -> Wire {
        let answer = self.server_says(SYN | ACK, ISN, b"");
        self.gateway.to_client(&answer)
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
        let seen = self.gateway.to_server(sent);
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
            told.gateway.to_client(&banner),
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
            told.gateway.to_client(&refusal);
        }
        let lie = [254, 8, 0, 80, 192, 0, 2, 1];
        let ack = told.client_says(ACK, 1000, FIRST, b"").with_options(&lie);
        let seen = told.gateway.to_server(&ack);
        assert_eq!(options(&seen), [told.option(), vec![1; 8]].concat());
    }
}

/// TOA-03: the server's answer leaves room, so that a client's full segment has it.
#[test]
fn an_mss_leaves_room() {
    for (family, announced, shown) in [(Family::V4, 1460u16, 1452u16), (Family::V6, 1440, 1420)] {
        if !FAMILIES.contains(&family) {
            continue;
        }
        let mss = |mss: u16| [&[2, 4][..], &mss.to_be_bytes(), &[4, 2, 1, 1]].concat();
        let mut told = Told::asked(Told::plan(family), family);
        let syn = told.client_says(SYN, 999, 0, b"").with_options(&mss(announced));
        told.goes(&syn, false);
        let answer = told
            .server_says(SYN | ACK, ISN, b"")
            .with_options(&mss(announced));
        let expected = answer.between(told.vip, told.client).later();
        assert_eq!(
            told.gateway.to_client(&answer),
            expected.with_options(&mss(shown))
        );
        let full = told.client_says(ACK, 1000, FIRST, &vec![7; usize::from(shown)]);
        told.goes(&full, true);
        let too_full = told.client_says(ACK, 1000, FIRST, &vec![7; usize::from(shown) + 1]);
        told.goes(&too_full, false);
        assert_eq!(told.gateway.stats.toa_no_room.get(), 1);
    }
}

/// A service's own limit comes first: it may be there for the servers' links.
#[test]
fn a_clamped_mss_leaves_room_too() {
    for family in FAMILIES {
        let mut plan = Told::plan(family);
        plan.edit(0, |service| service.mss_clamp = 1300);
        let mut told = Told::asked(plan, family);
        let answer = told
            .server_says(SYN | ACK, ISN, b"")
            .with_options(&[2, 4, 5, 0xb4]);
        let room = told.option().len() as u16;
        let lowered = (1300 - room).to_be_bytes();
        let seen = told.gateway.to_client(&answer);
        assert_eq!(options(&seen), [2, 4, lowered[0], lowered[1]]);
    }
}

/// TOA-03: options of 40 bytes, and of one word less than there is room for.
#[test]
fn full_options_go_as_they_are_and_are_counted() {
    for family in FAMILIES {
        let mut told = Told::answered(family);
        let most = 40 - told.option().len();
        for (len, fits) in [(40, false), (most + 4, false), (most, true)] {
            let own = [&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2][..], &vec![1; len - 10]].concat();
            let sent = told
                .client_says(PSH | ACK, 1000, FIRST, b"data")
                .with_options(&own);
            told.goes(&sent, fits);
        }
        assert_eq!(told.gateway.stats.toa_no_room.get(), 2);
    }
}

/// The MTU is that of the port towards the server.
#[test]
fn an_mtu_is_never_exceeded() {
    for family in FAMILIES {
        for mtu in [1400, 1500, 9000] {
            let mut plan = Told::plan(family);
            plan.set_mtu(LAN, mtu);
            plan.set_mtu(WAN, 9000);
            let mut told = Told::asked(plan, family);
            told.answers();
            let headers = if family == Family::V4 { 40 } else { 60 };
            let room = usize::from(mtu) - headers - told.option().len();
            for (len, fits) in [(room, true), (room + 1, false)] {
                let sent = told.client_says(ACK, 1000, FIRST, &vec![7; len]);
                told.goes(&sent, fits);
            }
        }
    }
}

/// A segment that came in fragments leaves in fragments, with the option in the first.
#[test]
fn a_segment_in_fragments_tells_the_client() {
    for family in FAMILIES {
        let mut told = Told::answered(family);
        let sent = told.client_says(ACK, 1000, FIRST, &[7; 2000]).may_be_cut();
        let pieces = cut(&sent.packet(), 1000);
        assert_eq!(pieces.len(), 3);
        let mut out = Vec::new();
        for piece in &pieces {
            told.gateway.come(WAN, piece);
            out.extend(told.gateway.out());
        }
        let packets: Vec<_> = out.into_iter().map(|out| out.packet).collect();
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() <= pieces[0].len()));
        assert_eq!(Wire::read(&assemble(&packets)), told.expected(&sent, true));
        assert_eq!(told.gateway.stats.toa_added.get(), 1);
    }
}

/// A router behind the gateway tells how much it takes: of that the client has the option's length less.
#[test]
fn a_narrow_hop_behind_the_gateway_is_told_with_room() {
    for family in FAMILIES {
        for told_to in [true, false] {
            let mut plan = Told::plan(family);
            if !told_to {
                plan.edit(0, |service| service.client_address = ClientAddress::None);
            }
            let mut told = Told::asked(plan, family);
            told.answers();
            let about = Wire::tcp(told.local, told.server, ACK, &[7; 1400]).packet();
            let (kind, code) = if family == Family::V4 { (3, 4) } else { (2, 0) };
            let router = family.server(7, 0).ip();
            let error = |mtu| Wire::icmp(router, told.local.ip(), kind, code, mtu, &about[..68]);
            let less = if told_to { told.option().len() as u32 } else { 0 };
            let errors = [(error(1380), 1380 - less), (error(0), 0)];
            for (sent, mtu) in errors {
                let seen = told.gateway.to_client(&sent);
                assert_eq!(seen.message(), (kind, code, mtu));
                assert_eq!(quoted(seen.data()), (told.client, told.vip));
            }
            // The server is told what its own packets have to fit.
            let about = Wire::tcp(told.vip, told.client, ACK, &[7; 1400]).packet();
            let from = family.client(254, 0).ip();
            let sent = Wire::icmp(from, told.vip.ip(), kind, code, 1380, &about[..68]);
            assert_eq!(told.gateway.to_server(&sent).message(), (kind, code, 1380));
        }
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
        let seen = told.gateway.to_client(&answer);
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

/// The server's number has stood where a recycled port needs the client's last one: that must be there in time.
#[test]
fn a_recycled_port_continues_above_the_last_number() {
    for family in FAMILIES {
        let mut plan = Told::plan(family);
        plan.use_locals(pool(1, 10_000, 10_000));
        let mut told = Told::asked(plan, family);
        told.answers();
        // All of it before the client acknowledges more than the handshake.
        for sent in [
            told.client_says(ACK, 1000, FIRST, b""),
            told.client_says(PSH | ACK, 1000, FIRST, &[7; 500]),
            told.client_says(FIN | ACK, 1500, FIRST, b""),
        ] {
            told.goes(&sent, true);
        }
        let end = told.server_says(FIN | ACK, FIRST, b"");
        told.gateway.to_client(&end);
        let last = told.client_says(ACK, 1501, FIRST + 1, b"");
        told.goes(&last, false);
        let old = told.local;
        told.client = family.client(2, 7);
        let syn = told.asks();
        assert_eq!(syn.from, old, "recycled");
        let Load::Tcp { sequence, .. } = syn.load else {
            panic!("{syn:?}")
        };
        assert!((1..1 << 31).contains(&sequence.wrapping_sub(1501)), "{sequence}");
        // And on it goes with a shift.
        let shift = sequence.wrapping_sub(999);
        let answer = numbered(told.server_says(SYN | ACK, ISN, b""), ISN, sequence + 1);
        told.gateway.to_client(&answer);
        let ack = told.client_says(ACK, 1000, FIRST, b"data");
        let seen = told.gateway.to_server(&ack);
        assert_eq!(
            seen,
            numbered(told.expected(&ack, true), 1000u32.wrapping_add(shift), FIRST)
        );
    }
}

/// A connection that ends while the server's number is there gives up its port all the same, and nothing is shifted
/// by a number that is not the client's.
#[test]
fn a_port_of_a_connection_that_said_nothing_is_given_again() {
    for family in FAMILIES {
        let mut plan = Told::plan(family);
        plan.use_locals(pool(1, 10_000, 10_000));
        let mut told = Told::asked(plan, family);
        told.answers();
        let ack = told.client_says(ACK, 1000, FIRST, b"");
        told.goes(&ack, true);
        let reset = told.client_says(RST, 1000, 0, b"");
        told.goes(&reset, false);
        let old = told.local;
        told.client = family.client(2, 7);
        let syn = told.asks();
        assert_eq!(syn.from, old, "recycled");
        assert_eq!(syn, told.expected(&told.client_says(SYN, 999, 0, b""), false));
    }
}

/// One thing that happens on a connection.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The client's flags, its acknowledgement from the server's number on, and bytes of data.
    Client(u8, i32, usize),
    /// The server's flags, its sequence number likewise, and bytes of data.
    Server(u8, u32, usize),
}

fn step() -> impl Strategy<Value = Step> {
    // No SYN of the client's, which may begin another connection.
    let flags = prop_oneof![8 => Just(ACK), 2 => Just(PSH | ACK), 2 => Just(FIN | ACK), 1 => Just(0)];
    let client = (flags, -1i32..4, 0usize..3).prop_map(|(flags, to, len)| Step::Client(flags, to, len));
    let flags = prop_oneof![4 => Just(ACK), 4 => Just(PSH | ACK), 2 => Just(SYN | ACK), 1 => Just(SYN)];
    let server = (flags, 0u32..4, 0usize..3).prop_map(|(flags, from, len)| Step::Server(flags, from, len));
    prop_oneof![2 => client, 1 => server]
}

proptest! {
    /// Segments in any order, against a model that remembers all that was said.
    #[test]
    fn a_segment_tells_the_client_when_the_model_says_so(steps in prop::collection::vec(step(), 1..30)) {
        let mut told = Told::asked(Told::plan(Family::V4), Family::V4);
        // The server's number, whether it has said anything, whether the client has acknowledged that.
        let mut known: Option<(u32, bool, bool)> = None;
        for step in steps {
            match step {
                Step::Client(flags, to, len) => {
                    let base = known.map_or(ISN, |(isn, ..)| isn);
                    let acknowledged = base.wrapping_add_signed(to);
                    let sent = told.client_says(flags, 1000, acknowledged, &[7; 3][..len]);
                    let counts = flags & (SYN | RST | ACK) == ACK;
                    let due = counts && to == 1 && known.is_some_and(|(_, _, over)| !over);
                    if let Some((_, spoke, over)) = &mut known && counts && to > 1 && *spoke {
                        *over = true;
                    }
                    let seen = told.gateway.to_server(&sent);
                    prop_assert_eq!(seen, told.expected(&sent, due), "{:?}", step);
                }
                Step::Server(flags, from, len) => {
                    let sent = told.server_says(flags, ISN + from, &[7; 3][..len]);
                    if flags & (SYN | ACK) == SYN | ACK {
                        let again = known.is_some_and(|(isn, _, over)| isn == ISN + from && !over);
                        let spoke = again && known.is_some_and(|(_, spoke, _)| spoke);
                        known = Some((ISN + from, spoke, false));
                    } else if let Some((_, spoke, false)) = &mut known
                        && flags & SYN == 0
                    {
                        *spoke |= len > 0 || flags & FIN != 0;
                    }
                    let seen = told.gateway.to_client(&sent);
                    prop_assert_eq!(seen, sent.between(told.vip, told.client).later());
                }
            }
        }
    }
}
