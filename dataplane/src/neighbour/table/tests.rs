use super::*;
use crate::drops::DropReason;
use crate::packet::arp::{Arp, Operation};
use crate::time::seconds;

mod discovery;
mod model;
mod watched;

const PORT: PortId = PortId(1);
const SERVER: IpAddr = host4(11);
const OTHER: IpAddr = host4(12);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 11]);
const MAC2: MacAddr = MacAddr([2, 0, 0, 0, 0, 12]);

type Table = NeighbourTable<u32>;

const fn host4(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
}

/// Near the end of the count, so that every test of time crosses the wrap.
const T0: Tick = Tick(u32::MAX - 1000);

fn table() -> Table {
    Table::new(Settings::default())
}

fn small(capacity: u16, waiting_each: u8, waiting: u16) -> Table {
    Table::new(Settings {
        capacity,
        waiting_each,
        waiting,
        ..Settings::default()
    })
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn heard(address: IpAddr, mac: MacAddr, means: Means) -> Heard {
    Heard {
        port: PORT,
        address,
        mac: Some(mac),
        means,
    }
}

/// Learns, and returns what was released.
fn learn(t: &mut Table, h: Heard, now: Tick) -> (Learnt, Vec<u32>) {
    let mut released = vec![];
    let learnt = t.learn(&h, now, |packet, port, mac| {
        assert_eq!((port, Some(mac)), (h.port, h.mac));
        released.push(packet);
    });
    (learnt, released)
}

fn tick(t: &mut Table, now: Tick) -> Vec<Event<u32>> {
    let mut events = vec![];
    t.tick(now, usize::MAX, |e| events.push(e));
    events
}

/// Ticks every 100 ms up to and including `seconds` after `from`; the events with the tenth at which they came.
fn run(t: &mut Table, from: Tick, to_seconds: u32) -> Vec<(u32, Event<u32>)> {
    let tenths = 1..=to_seconds * 10;
    tenths
        .flat_map(|tenth| {
            tick(t, from.after(tenth * 10))
                .into_iter()
                .map(move |e| (tenth, e))
        })
        .collect()
}

fn request(ask: Ask) -> Request {
    Request {
        port: PORT,
        address: SERVER,
        ask,
    }
}

fn unicast() -> Event<u32> {
    Event::Ask(request(Ask::Unicast(MAC)))
}

fn broadcast() -> Event<u32> {
    Event::Ask(request(Ask::Broadcast))
}

fn waits(request: Option<Request>, gave_way: Option<u32>) -> Hold<u32> {
    Hold::Waits { request, gave_way }
}

fn state(t: &Table, address: IpAddr) -> Option<State> {
    t.iter(T0).find(|v| v.address == address).map(|v| v.state)
}

/// A table whose only entry is the server, confirmed at `T0`.
fn reachable() -> (Table, NeighbourId) {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    learn(&mut t, heard(SERVER, MAC, Means::Reply), T0);
    (t, id)
}

#[test]
fn the_first_packet_asks_and_the_reply_releases_in_order() {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    assert_ne!(id, NeighbourId::NONE);
    assert_eq!(t.find_or_create(PORT, SERVER, T0), Ok(id));
    assert_eq!(t.find(PORT, SERVER), Some(id));
    assert_eq!(t.find(PortId(0), SERVER), None);
    assert_eq!(t.resolved(id), None);
    assert_eq!(t.hold(id, 1, T0), waits(Some(request(Ask::Broadcast)), None));
    assert_eq!(t.hold(id, 2, T0.after(1)), waits(None, None));
    assert_eq!(t.hold(id, 3, T0.after(99)), waits(None, None));
    assert_eq!(t.held(), 3);
    let answer = heard(SERVER, MAC, Means::Reply);
    assert_eq!(
        learn(&mut t, answer, T0.after(99)),
        (Learnt::Known, vec![1, 2, 3])
    );
    assert_eq!(t.held(), 0);
    assert_eq!(t.resolved(id), Some((PORT, MAC)));
    assert_eq!(t.hold(id, 4, T0.after(99)), Hold::Resolved(4, PORT, MAC));
}

#[test]
fn an_entry_made_ahead_is_asked_for_by_the_next_tick() {
    let mut t = table();
    t.find_or_create(PORT, SERVER, T0).unwrap();
    assert_eq!(tick(&mut t, T0), [broadcast()]);
    assert_eq!(tick(&mut t, T0), []);
}

#[test]
fn the_oldest_of_a_full_queue_gives_way() {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    for packet in 0..8 {
        t.hold(id, packet, T0);
    }
    assert_eq!(t.hold(id, 8, T0), waits(None, Some(0)));
    assert_eq!(t.hold(id, 9, T0), waits(None, Some(1)));
    assert_eq!(t.held(), 8);
    let (_, released) = learn(&mut t, heard(SERVER, MAC, Means::Reply), T0);
    assert_eq!(released, [2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_newcomer_finds_room_when_all_queues_together_are_full() {
    let mut t = small(8, 4, 4);
    let dead = t.find_or_create(PORT, OTHER, T0).unwrap();
    for packet in 0..4 {
        t.hold(dead, packet, T0);
    }
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    assert_eq!(t.hold(id, 9, T0), waits(Some(request(Ask::Broadcast)), Some(0)));
    assert_eq!(t.held(), 4);
    let (_, released) = learn(&mut t, heard(SERVER, MAC, Means::Reply), T0);
    assert_eq!(released, [9]);
}

#[test]
fn three_requests_then_failed() {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    t.hold(id, 1, T0);
    t.hold(id, 2, T0);
    let failed = |p| Event::Drop(p, DropReason::NeighbourFailed);
    let expected = [
        (10, broadcast()),
        (20, broadcast()),
        (30, failed(1)),
        (30, failed(2)),
    ];
    assert_eq!(run(&mut t, T0, 5), expected);
    assert_eq!(state(&t, SERVER), Some(State::Failed));
    assert_eq!(t.held(), 0);
}

#[test]
fn a_failed_neighbour_is_asked_once_a_second_while_packets_want_it() {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    t.hold(id, 0, T0);
    run(&mut t, T0, 3);
    let now = T0.after(seconds(3));
    assert_eq!(t.hold(id, 1, now), waits(Some(request(Ask::Broadcast)), None));
    assert_eq!(t.hold(id, 2, now.after(1)), Hold::Failed(2));
    assert_eq!(t.hold(id, 3, now.after(99)), Hold::Failed(3));
    assert_eq!(
        tick(&mut t, now.after(100)),
        [Event::Drop(1, DropReason::NeighbourFailed)]
    );
    let now = now.after(100);
    assert_eq!(t.hold(id, 4, now), waits(Some(request(Ask::Broadcast)), None));
    // It comes back: the packet that asked goes out.
    assert_eq!(learn(&mut t, heard(SERVER, MAC, Means::Reply), now).1, [4]);
    assert_eq!(t.resolved(id), Some((PORT, MAC)));
}

#[test]
fn a_neighbour_in_use_is_refreshed_by_unicast_before_its_time_ends() {
    let (mut t, id) = reachable();
    assert!(t.resolved(id).is_some());
    assert_eq!(run(&mut t, T0, 26), []);
    assert_eq!(tick(&mut t, T0.after(seconds(27))), [unicast()]);
    assert_eq!(state(&t, SERVER), Some(State::Probing));
    assert!(t.resolved(id).is_some());
    let answered = T0.after(seconds(27) + 1);
    assert_eq!(
        learn(&mut t, heard(SERVER, MAC, Means::Reply), answered).0,
        Learnt::Known
    );
    assert_eq!(state(&t, SERVER), Some(State::Reachable));
    assert_eq!(run(&mut t, answered, 26), []);
}

#[test]
fn slow_arp_is_no_outage_and_silence_is_one_after_six_requests() {
    let (mut t, id) = reachable();
    let mut asked = vec![];
    for tenth in 0..=330 {
        let usable = t.resolved(id).is_some();
        assert_eq!(usable, tenth <= 330);
        asked.extend(tick(&mut t, T0.after(tenth * 10)).into_iter().map(|e| (tenth, e)));
    }
    let expected = [
        (270, unicast()),
        (280, unicast()),
        (290, unicast()),
        (300, broadcast()),
        (310, broadcast()),
        (320, broadcast()),
    ];
    assert_eq!(asked, expected);
    assert_eq!(state(&t, SERVER), Some(State::Failed));
    assert_eq!(t.resolved(id), None);
}

#[test]
fn an_unused_neighbour_goes_stale_silently_and_is_confirmed_on_use() {
    let (mut t, id) = reachable();
    assert_eq!(run(&mut t, T0, 100), []);
    assert_eq!(state(&t, SERVER), Some(State::Stale));
    assert_eq!(t.resolved(id), Some((PORT, MAC)), "used while it is asked");
    let asked = run(&mut t, T0.after(seconds(100)), 1);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, unicast());
}

#[test]
fn an_idle_neighbour_is_removed_after_ten_minutes_and_a_static_one_never() {
    let (mut t, id) = reachable();
    t.set_static(PORT, OTHER, MAC2, T0, |_, _, _| {}).unwrap();
    run(&mut t, T0, 599);
    assert_eq!(t.find(PORT, SERVER), Some(id));
    run(&mut t, T0.after(seconds(599)), 2);
    assert_eq!(t.find(PORT, SERVER), None);
    assert_eq!(t.resolved(id), None);
    assert_eq!(state(&t, OTHER), Some(State::Static));
}

#[test]
fn failover_of_a_known_neighbour_is_taken_over_at_once_and_confirmed() {
    let (mut t, id) = reachable();
    let gratuitous = heard(SERVER, MAC2, Means::Overheard);
    assert!(t.resolved(id).is_some());
    assert_eq!(learn(&mut t, gratuitous, T0.after(5)).0, Learnt::Moved(MAC));
    assert_eq!(t.resolved(id), Some((PORT, MAC2)));
    assert_eq!(
        tick(&mut t, T0.after(6)),
        [Event::Ask(request(Ask::Unicast(MAC2)))]
    );
    // The same MAC overheard proves nothing: the question stays open.
    assert_eq!(learn(&mut t, gratuitous, T0.after(7)).0, Learnt::Known);
    assert_eq!(state(&t, SERVER), Some(State::Probing));
}

#[test]
fn overhearing_resolves_what_packets_wait_for() {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    t.hold(id, 1, T0);
    let gratuitous = heard(SERVER, MAC, Means::Overheard);
    assert_eq!(learn(&mut t, gratuitous, T0), (Learnt::Known, vec![1]));
    assert_eq!(tick(&mut t, T0), [], "not within the second");
    assert_eq!(tick(&mut t, T0.after(100)), [unicast()]);
}

#[test]
fn a_stranger_is_entered_only_when_it_asks_for_us() {
    let mut t = table();
    for means in [Means::Overheard, Means::Reply] {
        assert_eq!(learn(&mut t, heard(SERVER, MAC, means), T0).0, Learnt::Nothing);
        assert_eq!(t.find(PORT, SERVER), None);
    }
    assert_eq!(
        learn(&mut t, heard(SERVER, MAC, Means::Request), T0).0,
        Learnt::New
    );
    let id = t.find(PORT, SERVER).unwrap();
    assert_eq!(t.resolved(id), Some((PORT, MAC)));
    assert_eq!(state(&t, SERVER), Some(State::Stale));
    assert_eq!(tick(&mut t, T0.after(1)), [unicast()], "in use: confirmed");
}

// Field case ARP-02: a probe (RFC 5227) is answered, but there is nothing to be learnt from it.
#[test]
fn probes_and_impossible_senders_teach_nothing() {
    let mut t = table();
    let zero = MacAddr([0; 6]);
    let hosts = [
        (Ipv4Addr::UNSPECIFIED.into(), MAC),
        (Ipv4Addr::BROADCAST.into(), MAC),
        (Ipv4Addr::new(224, 0, 0, 1).into(), MAC),
        (ip("::"), MAC),
        (ip("::1"), MAC),
        (ip("ff02::1"), MAC),
        (ip("::ffff:10.0.0.11"), MAC),
    ];
    let macs = [
        (SERVER, zero),
        (SERVER, MacAddr::BROADCAST),
        (SERVER, MacAddr([1, 0, 0x5e, 0, 0, 1])),
    ];
    for (address, mac) in hosts.into_iter().chain(macs) {
        assert_eq!(
            learn(&mut t, heard(address, mac, Means::Request), T0).0,
            Learnt::Nothing
        );
    }
    assert_eq!(t.iter(T0).count(), 0);
}

#[test]
fn a_static_neighbour_is_never_overwritten_nor_asked() {
    let mut t = table();
    let id = t.find_or_create(PORT, SERVER, T0).unwrap();
    t.hold(id, 1, T0);
    let mut released = vec![];
    let same = t.set_static(PORT, SERVER, MAC, T0, |p, port, mac| {
        released.push((p, port, mac))
    });
    assert_eq!((same, released), (Ok(id), vec![(1, PORT, MAC)]));
    for means in [Means::Reply, Means::Request, Means::Overheard] {
        assert_eq!(learn(&mut t, heard(SERVER, MAC2, means), T0).0, Learnt::Nothing);
    }
    assert!(t.resolved(id).is_some());
    assert_eq!(run(&mut t, T0, 60), []);
    assert_eq!(t.resolved(id), Some((PORT, MAC)));
    // Taken out of the configuration, it becomes as any other.
    let now = T0.after(seconds(60));
    assert!(t.clear_static(PORT, SERVER, now));
    assert!(!t.clear_static(PORT, SERVER, now));
    assert_eq!(t.resolved(id), Some((PORT, MAC)));
    assert_eq!(tick(&mut t, now), [unicast()]);
}

#[test]
fn a_retired_entry_comes_back_under_its_id_and_a_swept_one_is_freed() {
    let mut t = small(2, 8, 8);
    let mut now = T0;
    let id = t.find_or_create(PORT, SERVER, now).unwrap();
    let other = t.find_or_create(PORT, OTHER, now).unwrap();
    run(&mut t, now, 14);
    now = now.after(seconds(14));
    assert_eq!((t.find(PORT, SERVER), t.find(PORT, OTHER)), (None, None));
    assert_eq!(t.find_or_create(PORT, host4(13), now), Err(Full), "still taken");
    assert!(t.sweep_wanted());
    t.begin_sweep();
    assert!(!t.sweep_wanted());
    let words = t.words();
    assert!(words.leaving(id) && words.leaving(other));
    // Wanted again in the middle of the sweep, by a packet with a cached id.
    assert_eq!(t.hold(id, 1, now), waits(Some(request(Ask::Broadcast)), None));
    assert!(!words.leaving(id));
    assert_eq!(t.retired_done(), 1);
    assert_eq!(t.find(PORT, SERVER), Some(id));
    let new = t.find_or_create(PORT, host4(13), now);
    assert_eq!(new, Ok(other), "the freed id");
    assert_eq!(t.find(PORT, OTHER), None);
    assert_eq!(t.find_or_create(PORT, OTHER, now), Err(Full));
}

#[test]
fn ids_of_nothing_hold_nothing() {
    let mut t = small(1, 8, 8);
    assert_eq!(t.hold(NeighbourId::NONE, 7, T0), Hold::Failed(7));
    assert_eq!(t.hold(NeighbourId(1), 7, T0), Hold::Failed(7));
    assert_eq!(t.hold(NeighbourId(9), 7, T0), Hold::Failed(7));
    assert_eq!(t.held(), 0);
}

#[test]
fn a_tick_keeps_to_its_budget_and_goes_on_where_it_ended() {
    let mut t = table();
    for i in 0..100 {
        t.find_or_create(PORT, Ipv4Addr::new(10, 0, 1, i).into(), T0)
            .unwrap();
    }
    let mut asked = std::collections::HashSet::new();
    for _ in 0..10 {
        let mut events = 0;
        t.tick(T0, 10, |event| {
            events += 1;
            if let Event::Ask(request) = event {
                asked.insert(request.address);
            }
        });
        assert_eq!(events, 10);
    }
    assert_eq!(asked.len(), 100);
}

#[test]
fn what_show_prints() {
    let (mut t, _) = reachable();
    let other = t.find_or_create(PORT, OTHER, T0).unwrap();
    t.hold(other, 1, T0);
    let mut shown: Vec<_> = t.iter(T0.after(250)).collect();
    shown.sort_by_key(|v| v.address);
    assert_eq!(
        (shown[0].address, shown[0].mac, shown[0].age),
        (SERVER, Some(MAC), 2)
    );
    assert_eq!(
        (shown[0].port, shown[0].state.name(), shown[0].waiting),
        (PORT, "reachable", 0)
    );
    assert_eq!(
        (shown[1].mac, shown[1].state.name(), shown[1].waiting),
        (None, "incomplete", 1)
    );
    let mut left = vec![];
    t.drain(|p| left.push(p));
    assert_eq!((left, t.held()), (vec![1], 0));
}

// Field case ARP-04: a flood towards a dead server. At most one request per second and address, a bounded queue,
// and a live server is resolved and used as if nothing were.
#[test]
fn a_flood_towards_a_dead_server_concerns_nobody_else() {
    let mut t = table();
    let dead = t.find_or_create(PORT, OTHER, T0).unwrap();
    let (mut requests, mut ended, mut given, mut failed) = (0, 0, 0, 0);
    for tenms in 0..1000 {
        let now = T0.after(tenms);
        for _ in 0..1000 {
            given += 1;
            match t.hold(dead, given, now) {
                Hold::Waits { request, gave_way } => {
                    requests += u32::from(request.is_some());
                    ended += u32::from(gave_way.is_some());
                }
                Hold::Failed(_) => {
                    ended += 1;
                    failed += 1;
                }
                Hold::Resolved(..) => panic!("nobody answered"),
            }
        }
        t.tick(now, 64, |event| match event {
            Event::Ask(_) => requests += 1,
            Event::Drop(..) => ended += 1,
            Event::Failed { .. } => panic!("nobody is watched"),
        });
        assert!(t.held() <= 8);
        assert_eq!(given, ended + t.held() as u32);
        if tenms == 500 {
            let live = t.find_or_create(PORT, SERVER, now).unwrap();
            assert_eq!(t.hold(live, 0, now), waits(Some(request(Ask::Broadcast)), None));
            assert_eq!(learn(&mut t, heard(SERVER, MAC, Means::Reply), now).1, [0]);
        }
    }
    assert!(requests <= 10, "{requests} requests in 10 s");
    // After three seconds what is dropped is told as what it is.
    assert_eq!(state(&t, OTHER), Some(State::Failed));
    assert!(failed >= 690_000, "{failed}");
    assert_eq!(
        t.find(PORT, SERVER).and_then(|id| t.resolved(id)),
        Some((PORT, MAC))
    );
}

#[test]
fn how_a_sender_was_heard() {
    let arp = |operation| Arp {
        operation,
        sender_mac: MAC,
        sender: Ipv4Addr::new(10, 0, 0, 11),
        target_mac: MacAddr::default(),
        target: Ipv4Addr::new(10, 0, 0, 12),
    };
    let means = |operation, for_us| Heard::new(PORT, &arp(operation), for_us).means;
    assert_eq!(means(Operation::Request, true), Means::Request);
    assert_eq!(means(Operation::Reply, true), Means::Reply);
    assert_eq!(means(Operation::Request, false), Means::Overheard);
    assert_eq!(means(Operation::Reply, false), Means::Overheard);
    assert_eq!(
        Heard::new(PORT, &arp(Operation::Reply), true),
        heard(SERVER, MAC, Means::Reply)
    );
}
