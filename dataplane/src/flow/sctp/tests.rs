use proptest::prelude::*;

use super::*;
use Direction::{Inbound, Outbound};

/// A row: state, direction, then the next state after each of [`Event::ALL`] but the last, by the two letters of
/// [`short`].
type Case = (SctpState, Direction, &'static str);

fn short(state: SctpState) -> &'static str {
    [
        "NO", "I1", "IN", "CS", "CR", "CW", "CO", "CE", "ES", "SS", "SR", "SA", "RJ", "CL",
    ][state as usize]
}

fn check(mode: Mode, cases: &[Case]) {
    for &(state, direction, row) in cases {
        let next = Event::ALL[..10]
            .iter()
            .map(|&event| short(state.next(mode, direction, event)));
        let next: Vec<_> = next.collect();
        let what = format!("{mode:?} {direction:?} in {}", state.name());
        assert_eq!(next.join(" "), row, "{what}");
    }
}

const NAT: [Case; 26] = [
    // DATA INIT INIT-ACK COOKIE-ECHO COOKIE-ACK SHUTDOWN SHUTDOWN-ACK SHUTDOWN-COMPLETE ERROR ABORT
    (Init1, Inbound, "I1 IN CW IN I1 I1 IN CL I1 CL"),
    (Init1, Outbound, "I1 CW CS CE ES SS SA I1 CL RJ"),
    (Init, Inbound, "IN IN CW IN IN IN IN CL IN CL"),
    (Init, Outbound, "IN CW CS CE ES SS SA IN CL CL"),
    (CookieSent, Inbound, "CS CS CS CR CS CS CS CS CS CL"),
    (CookieSent, Outbound, "CS CW CS CE ES SS SA CS CL CL"),
    (CookieReplied, Inbound, "CR CR CR CR CR CR CR CR CR CL"),
    (CookieReplied, Outbound, "CR CW CR CE ES SS SA CR CL CL"),
    (CookieWait, Inbound, "CW CW CO CW CW CW CW CW CW RJ"),
    (CookieWait, Outbound, "CW CW CW CE ES SS CW CW CW CL"),
    (Cookie, Inbound, "CO CO CO CO CO CO CO CO CO CL"),
    (Cookie, Outbound, "CO CW CO CE ES SS CO CO CO CL"),
    (CookieEchoed, Inbound, "CE CE CE CE ES CE CE CE CL CL"),
    (CookieEchoed, Outbound, "CE CW CE CE ES SS CE CE CE CL"),
    (Established, Inbound, "ES ES ES ES ES SR ES ES ES CL"),
    (Established, Outbound, "ES ES ES ES ES SS ES ES ES CL"),
    (ShutdownSent, Inbound, "SS SS SS SS SS SS CL SS SS CL"),
    (ShutdownSent, Outbound, "SS CW SS SS SS SS SA SS SS CL"),
    (ShutdownReceived, Inbound, "SR SR SR SR SR SR SR SR SR CL"),
    (ShutdownReceived, Outbound, "SR CW SR SR SR SR SA SR SR CL"),
    (ShutdownAckSent, Inbound, "SA SA SA SA SA SA CL CL SA CL"),
    (ShutdownAckSent, Outbound, "SA CW SA SA SA SA SA SA SA CL"),
    (Rejected, Inbound, "RJ IN RJ RJ RJ RJ RJ RJ RJ CL"),
    (Rejected, Outbound, "RJ CW RJ RJ RJ RJ RJ RJ RJ CL"),
    (Closed, Inbound, "CL I1 CL CL CL CL CL CL CL CL"),
    (Closed, Outbound, "CL CW CL CL CL CL CL CL CL CL"),
];

/// The states that are reached where the server is not seen.
const DR: [Case; 6] = [
    (Init1, Inbound, "I1 IN CE ES I1 I1 IN CL I1 CL"),
    (Init, Inbound, "IN IN CE ES IN IN IN CL IN CL"),
    (CookieEchoed, Inbound, "CE CE CE CE ES CE CE CE CE CL"),
    (Established, Inbound, "ES ES ES ES ES SR CL ES ES CL"),
    (ShutdownReceived, Inbound, "SR SR SR SR SR SR SR CL SR CL"),
    (Closed, Inbound, "CL I1 CL CL CL CL CL CL CL CL"),
];

#[test]
fn with_replies_seen_as_recorded() {
    assert_eq!(None.next(Mode::Nat, Inbound, Event::Init), Init1);
    check(Mode::Nat, &NAT);
    check(Mode::Fullnat, &NAT);
}

#[test]
fn with_replies_passing_by_as_recorded() {
    assert_eq!(None.next(Mode::Dr, Inbound, Event::Init), Init1);
    check(Mode::Dr, &DR);
    check(Mode::Tun, &DR);
}

#[test]
fn an_association_in_its_midst_is_taken_for_what_its_packet_says() {
    check(
        Mode::Nat,
        &[
            (None, Inbound, "ES I1 CW CR ES SR CL CL CL CL"),
            (None, Outbound, "ES CW CS CE ES SS SA CL CL CL"),
        ],
    );
    check(Mode::Dr, &[(None, Inbound, "ES I1 CE ES ES SR CL CL CL CL")]);
}

#[test]
fn the_handshake_and_the_end_of_an_association() {
    let walk = |mode, packets: &[(Direction, Event)]| {
        let states = packets.iter().scan(None, |state, &(direction, event)| {
            *state = state.next(mode, direction, event);
            Some(state.name())
        });
        states.collect::<Vec<_>>()
    };
    let nat = [
        (Inbound, Event::Init),
        (Outbound, Event::InitAck),
        (Inbound, Event::CookieEcho),
        (Outbound, Event::CookieAck),
        (Inbound, Event::Data),
        (Inbound, Event::Init),
        (Outbound, Event::InitAck),
        (Inbound, Event::Shutdown),
        (Outbound, Event::ShutdownAck),
        (Inbound, Event::ShutdownComplete),
        (Inbound, Event::Init),
    ];
    assert_eq!(
        walk(Mode::Fullnat, &nat),
        [
            "INIT1",
            "C-SENT",
            "C-REPLIED",
            "ESTABLISHED",
            "ESTABLISHED",
            "ESTABLISHED",
            "ESTABLISHED",
            "S-RECEIVED",
            "S-ACK-SENT",
            "CLOSED",
            "INIT1"
        ]
    );
    let client = nat.map(|(_, event)| (Inbound, event));
    let client = [client[0], client[2], client[4], client[7], client[9]];
    assert_eq!(
        walk(Mode::Dr, &client),
        ["INIT1", "ESTABLISHED", "ESTABLISHED", "S-RECEIVED", "CLOSED"]
    );
}

#[test]
fn only_a_closed_association_makes_way_for_a_new_one() {
    let those = |f: fn(SctpState) -> bool| SctpState::ALL.into_iter().filter(|s| f(*s)).collect::<Vec<_>>();
    assert_eq!(those(|s| s.reusable(1)), [Closed]);
    assert_eq!(those(|s| s.reusable(2)), [Closed]);
    assert_eq!(those(|s| s.reusable(0)), []);
    assert_eq!(those(SctpState::is_active), [Established]);
    assert_eq!(those(SctpState::is_closing), [Rejected, Closed]);
}

#[test]
fn numbers_and_names_agree() {
    for (number, state) in SctpState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, number);
        assert_eq!(SctpState::from_number(number as u8), state);
    }
    assert_eq!(SctpState::from_number(14), None);
    assert_eq!(
        SctpState::ALL.map(SctpState::name)[8..12],
        ["ESTABLISHED", "S-SENT", "S-RECEIVED", "S-ACK-SENT"]
    );
}

proptest! {
    /// What the recordings show of every state: packets without news change nothing, an ABORT ends it, and none
    /// leads back to the state of no packet.
    #[test]
    fn any_walk_keeps_the_common_rules(packets in prop::collection::vec((any::<bool>(), 0u8..11), 1..40), mode in 0u8..4) {
        let mode = [Mode::Nat, Mode::Dr, Mode::Tun, Mode::Fullnat][usize::from(mode)];
        let mut state = None.next(mode, Inbound, Event::Init);
        for (outbound, event) in packets {
            let event = Event::from_number(event);
            let direction = if outbound && !mode.is_input_only() { Outbound } else { Inbound };
            let next = state.next(mode, direction, event);
            prop_assert_ne!(next, None);
            match event {
                Event::Data | Event::None => prop_assert_eq!(next, state),
                Event::Abort => prop_assert!(next.is_closing()),
                _ => {}
            }
            state = next;
        }
    }
}
