//! A client, a server that puts its stream together, and links that lose, double and reorder between them and the
//! gateway. Both ends are as simple as TCP can be, and know nothing of the gateway.

use super::*;
use proptest::prelude::*;

mod ends;

use ends::{Client, Server};

/// Ticks of a step, and steps in which links are bad; after that they are good, so that everything ends.
const STEP: u32 = 4;
const BAD: u32 = 400;
const STEPS: u32 = 5000;

/// What is chosen of a run.
#[derive(Clone, Debug)]
struct Case {
    family: Family,
    seed: u64,
    isn: u32,
    data: Vec<u8>,
    greeting: Vec<u8>,
    /// The server speaks before it has the header, or not at all.
    speaks_first: bool,
    timestamps: bool,
    sack: bool,
    /// The client sends no pure ACK at the end of the handshake.
    lazy: bool,
    /// Of 100 packets, so many are lost, come twice, or come late.
    lost: u64,
    doubled: u64,
    late: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
    let flags = any::<[bool; 5]>();
    let isn = prop_oneof![any::<u32>(), (0..200u32).prop_map(|n| 0u32.wrapping_sub(n))];
    let rates = (0..40u64, 0..30u64, 0..50u64);
    (any::<u64>(), isn, bytes(1500), bytes(400), flags, rates).prop_map(
        |(seed, isn, data, greeting, [v6, speaks_first, timestamps, sack, lazy], rates)| Case {
            family: if v6 { Family::V6 } else { Family::V4 },
            seed,
            isn,
            data,
            greeting,
            speaks_first,
            timestamps,
            sack,
            lazy,
            lost: rates.0,
            doubled: rates.1,
            late: rates.2,
        },
    )
}

/// Random numbers of a seed (xorshift).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// A way in one direction: packets with the step at which they arrive.
#[derive(Default)]
struct Link(Vec<(u32, Wire)>);

impl Link {
    fn put(&mut self, case: &Case, draws: &mut Draws, step: u32, packet: Wire) {
        let bad = step < BAD;
        if bad && draws.below(100) < case.lost {
            return;
        }
        let copies = if bad && draws.below(100) < case.doubled {
            2
        } else {
            1
        };
        for _ in 0..copies {
            // A SYN that comes when all is over would open a connection anew.
            let late = bad && packet.flags() & SYN == 0 && draws.below(100) < case.late;
            let wait = if late { 1 + draws.below(20) as u32 } else { 0 };
            self.0.push((step + 1 + wait, packet.clone()));
        }
    }

    /// What has arrived.
    fn take(&mut self, step: u32) -> Vec<Wire> {
        let (due, rest) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|(at, _)| *at <= step);
        self.0 = rest;
        due.into_iter().map(|(_, packet)| packet).collect()
    }
}

/// Lets it happen; the headers sent, sent again and given up.
fn run(case: &Case) -> [u64; 3] {
    let plan = Line::plan(case.family);
    let mut line = Line::new(plan, case.family);
    let expected = [line.header(), case.data.clone()].concat();
    let mut client = Client::new(case, line.client, line.vip);
    let mut server = Server::new(case, expected.len());
    let mut draws = Draws(case.seed | 1);
    let [mut to_gateway, mut to_server, mut from_server, mut to_client] = [(); 4].map(|()| Link::default());
    for step in 0..STEPS {
        if client.is_done() && server.is_done() {
            break;
        }
        line.gateway.now = line.gateway.now.after(STEP);
        for packet in client.turn(to_client.take(step), step) {
            to_gateway.put(case, &mut draws, step, packet);
        }
        for packet in server.turn(to_server.take(step), step) {
            from_server.put(case, &mut draws, step, packet);
        }
        for packet in to_gateway.take(step) {
            line.gateway.come(WAN, &packet.packet());
        }
        for packet in from_server.take(step) {
            line.gateway.come(LAN, &packet.packet());
        }
        for out in line.gateway.out() {
            let way = if out.port == LAN {
                &mut to_server
            } else {
                &mut to_client
            };
            way.put(case, &mut draws, step, out.wire());
        }
    }
    assert!(client.is_done(), "the client is not through: {client:?}");
    assert!(server.is_done(), "the server is not through: {server:?}");
    assert_eq!(server.stream, expected);
    assert_eq!(client.stream, case.greeting);
    line.counts()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The server's stream is the header and the client's bytes, the client's is the server's, no acknowledgement covers
    /// what was not sent, and everything ends.
    #[test]
    fn streams_arrive_whole_behind_the_header(case in cases()) {
        let [sent, _, given_up] = run(&case);
        prop_assert_eq!((sent, given_up), (1, 0));
    }
}

/// Nothing happens to any packet: then nothing is sent twice.
#[test]
fn a_good_link_sees_one_header() {
    for family in Family::BOTH {
        let case = Case {
            family,
            seed: 1,
            isn: u32::MAX - 20,
            data: vec![7; 1000],
            greeting: b"hello".to_vec(),
            speaks_first: true,
            timestamps: true,
            sack: true,
            lazy: false,
            lost: 0,
            doubled: 0,
            late: 0,
        };
        assert_eq!(run(&case), [1, 0, 0]);
    }
}
