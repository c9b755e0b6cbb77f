//! The server's number in the place of the client's: recycled ports, and segments in any order.

use super::*;
use proptest::prelude::*;

/// The server's number has stood where a recycled port needs the client's last one: that must be there in time.
#[test]
fn a_recycled_port_continues_above_the_last_number() {
    for family in FAMILIES {
        let mut plan = Told::plan(family);
        plan.use_locals(both_pool(1, 10_000, 10_000));
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
        told.gateway.towards_client(&end);
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
        told.gateway.towards_client(&answer);
        let ack = told.client_says(ACK, 1000, FIRST, b"data");
        let seen = told.gateway.towards_server(&ack);
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
        plan.use_locals(both_pool(1, 10_000, 10_000));
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
                    let seen = told.gateway.towards_server(&sent);
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
                    let seen = told.gateway.towards_client(&sent);
                    prop_assert_eq!(seen, sent.between(told.vip, told.client).later());
                }
            }
        }
    }
}
