//! Neighbour discovery's rules (RFC 4861 7.2) on the table that it shares with ARP.

use super::*;
use std::net::Ipv6Addr;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

fn solicitation(mac: MacAddr) -> Heard {
    Heard::solicitation(PORT, ROUTER, mac)
}

fn advertisement(mac: Option<MacAddr>, solicited: bool, overrides: bool) -> Heard {
    Heard::advertisement(PORT, ROUTER, mac, solicited, overrides)
}

/// A table whose only entry is the router, in that state since `T0`.
fn known(wanted: State) -> (Table, NeighbourId) {
    let mut t = table();
    let id = t.find_or_create(PORT, ROUTER.into(), T0).unwrap();
    match wanted {
        State::Incomplete => {}
        State::Failed => drop(run(&mut t, T0, 4)),
        State::Static => drop(t.set_static(PORT, ROUTER.into(), MAC, T0, |_, _, _| {})),
        _ => {
            let solicited = wanted == State::Reachable;
            learn(&mut t, advertisement(Some(MAC), solicited, true), T0);
        }
    }
    if wanted == State::Probing {
        assert!(t.resolved(id).is_some(), "used");
        tick(&mut t, T0);
    }
    assert_eq!(state(&t, ROUTER.into()), Some(wanted));
    (t, id)
}

/// What an advertisement does to a router whose MAC was `MAC`: what is learnt, its MAC and its state after that.
fn after(before: State, heard: Heard) -> (Learnt, Option<MacAddr>, State) {
    let (mut t, id) = known(before);
    let (learnt, _) = learn(&mut t, heard, T0);
    let mac = t.words().resolved(id).map(|(_, mac)| mac);
    (learnt, mac, state(&t, ROUTER.into()).unwrap())
}

#[test]
fn the_group_is_asked_and_the_advertisement_releases_what_waits() {
    let mut t = table();
    let id = t.find_or_create(PORT, ROUTER.into(), T0).unwrap();
    let request = |ask| Request {
        port: PORT,
        address: ROUTER.into(),
        ask,
    };
    assert_eq!(t.hold(id, 1, T0), waits(Some(request(Ask::Broadcast)), None));
    assert_eq!(t.hold(id, 2, T0.after(1)), waits(None, None));
    let answer = advertisement(Some(MAC), true, true);
    assert_eq!(learn(&mut t, answer, T0.after(2)), (Learnt::Known, vec![1, 2]));
    assert_eq!(t.resolved(id), Some((PORT, MAC)));
    // RFC 4861 7.3.3: while it is used, it is asked by unicast before its time ends.
    let asked = run(&mut t, T0.after(2), 27);
    assert_eq!(asked, [(270, Event::Ask(request(Ask::Unicast(MAC))))]);
}

// The addresses of the families are apart, also where their bits are the same.
#[test]
fn an_ipv4_and_an_ipv6_neighbour_of_the_same_bits_are_two() {
    let mut t = table();
    let four = t.find_or_create(PORT, SERVER, T0).unwrap();
    let six = t.find_or_create(PORT, ip("::a00:b"), T0).unwrap();
    assert_ne!(four, six);
    learn(&mut t, heard(SERVER, MAC, Means::Reply), T0);
    assert_eq!((t.resolved(four), t.resolved(six)), (Some((PORT, MAC)), None));
}

#[test]
fn a_link_local_address_is_another_neighbour_on_each_port() {
    let mut t = table();
    let router = ip("fe80::1");
    let here = t.find_or_create(PORT, router, T0).unwrap();
    let there = t.find_or_create(PortId(0), router, T0).unwrap();
    assert_ne!(here, there);
    learn(
        &mut t,
        Heard {
            address: router,
            ..solicitation(MAC)
        },
        T0,
    );
    assert_eq!((t.resolved(here), t.resolved(there)), (Some((PORT, MAC)), None));
}

// RFC 4861 7.2.3: the source of a solicitation is entered as stale; a known one changes only with its MAC.
#[test]
fn a_solicitation_enters_its_source_unconfirmed() {
    use State::*;
    let mut t = table();
    assert_eq!(learn(&mut t, solicitation(MAC), T0).0, Learnt::New);
    let id = t.find(PORT, ROUTER.into()).unwrap();
    assert_eq!(
        (t.words().resolved(id), state(&t, ROUTER.into())),
        (Some((PORT, MAC)), Some(Stale))
    );
    assert_eq!(
        after(Reachable, solicitation(MAC)),
        (Learnt::Known, Some(MAC), Reachable)
    );
    assert_eq!(
        after(Reachable, solicitation(MAC2)),
        (Learnt::Moved(MAC), Some(MAC2), Stale)
    );
    assert_eq!(
        after(Incomplete, solicitation(MAC2)),
        (Learnt::Known, Some(MAC2), Stale)
    );
}

// RFC 4861 7.2.5: "There is no need to create an entry if none exists".
#[test]
fn an_advertisement_of_a_stranger_teaches_nothing() {
    let mut t = table();
    for (solicited, overrides) in [(true, true), (false, true), (true, false), (false, false)] {
        let heard = advertisement(Some(MAC), solicited, overrides);
        assert_eq!(learn(&mut t, heard, T0).0, Learnt::Nothing);
    }
    assert_eq!(t.find(PORT, ROUTER.into()), None);
}

// RFC 4861 7.2.5, first part: an unresolved neighbour takes any MAC, whatever the override flag says.
#[test]
fn an_unresolved_neighbour_takes_what_is_said() {
    for before in [State::Incomplete, State::Failed] {
        for overrides in [false, true] {
            let heard = |mac, solicited| advertisement(mac, solicited, overrides);
            let of = |heard| after(before, heard);
            assert_eq!(
                of(heard(Some(MAC2), true)),
                (Learnt::Known, Some(MAC2), State::Reachable)
            );
            assert_eq!(
                of(heard(Some(MAC2), false)),
                (Learnt::Known, Some(MAC2), State::Stale)
            );
            assert_eq!(of(heard(None, true)), (Learnt::Nothing, None, before));
        }
    }
}

// RFC 4861 7.2.5, I: without the override flag, another MAC is not taken; only a reachable neighbour becomes stale.
#[test]
fn without_the_override_flag_a_known_mac_stays() {
    use State::*;
    for solicited in [false, true] {
        let other = advertisement(Some(MAC2), solicited, false);
        assert_eq!(after(Reachable, other), (Learnt::Nothing, Some(MAC), Stale));
        assert_eq!(after(Stale, other), (Learnt::Nothing, Some(MAC), Stale));
        assert_eq!(after(Probing, other), (Learnt::Nothing, Some(MAC), Probing));
    }
    for before in [Reachable, Stale, Probing] {
        let same = |solicited| after(before, advertisement(Some(MAC), solicited, false));
        assert_eq!(same(true), (Learnt::Known, Some(MAC), Reachable));
        assert_eq!(same(false), (Learnt::Known, Some(MAC), before));
    }
}

// RFC 4861 7.2.5, II: with it, the MAC is taken; solicited means reachable, else a new MAC means stale.
#[test]
fn with_the_override_flag_a_mac_is_taken_at_once() {
    use State::*;
    for before in [Reachable, Stale, Probing] {
        let of = |mac, solicited| after(before, advertisement(mac, solicited, true));
        assert_eq!(of(Some(MAC2), true), (Learnt::Moved(MAC), Some(MAC2), Reachable));
        assert_eq!(of(Some(MAC2), false), (Learnt::Moved(MAC), Some(MAC2), Stale));
        assert_eq!(of(Some(MAC), true), (Learnt::Known, Some(MAC), Reachable));
        assert_eq!(of(Some(MAC), false), (Learnt::Known, Some(MAC), before));
    }
}

// Who was asked by unicast may leave its MAC out: it is the one that was asked.
#[test]
fn an_answer_without_a_mac_confirms_the_known_one() {
    use State::*;
    for before in [Reachable, Stale, Probing] {
        for overrides in [false, true] {
            let of = |solicited| after(before, advertisement(None, solicited, overrides));
            assert_eq!(of(true), (Learnt::Known, Some(MAC), Reachable));
            assert_eq!(of(false), (Learnt::Known, Some(MAC), before));
        }
    }
}

#[test]
fn a_static_neighbour_ignores_discovery() {
    for heard in [
        solicitation(MAC2),
        advertisement(Some(MAC2), true, true),
        advertisement(None, true, true),
    ] {
        assert_eq!(
            after(State::Static, heard),
            (Learnt::Nothing, Some(MAC), State::Static)
        );
    }
}

#[test]
fn impossible_macs_teach_nothing() {
    for mac in [MacAddr([0; 6]), MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
        let heard = advertisement(Some(mac), true, true);
        assert_eq!(
            after(State::Incomplete, heard),
            (Learnt::Nothing, None, State::Incomplete)
        );
        let mut t = table();
        assert_eq!(learn(&mut t, solicitation(mac), T0).0, Learnt::Nothing);
        assert_eq!(t.find(PORT, ROUTER.into()), None);
    }
}
