//! Next hops that stand in for one another.

use super::*;

/// The server watched since `T0`, and confirmed then.
fn watched() -> (Table, NeighbourId) {
    let mut t = table();
    t.watch(PORT, SERVER, T0).unwrap();
    let id = t.find(PORT, SERVER).unwrap();
    assert_eq!(tick(&mut t, T0), [broadcast()], "resolved ahead");
    learn(&mut t, heard(SERVER, MAC, Means::Reply), T0);
    (t, id)
}

#[test]
fn a_watched_neighbour_is_confirmed_unused_and_fails_after_three_requests() {
    let (mut t, id) = watched();
    let failed = Event::Failed {
        port: PORT,
        address: SERVER,
    };
    let expected = [(20, unicast()), (30, unicast()), (40, unicast()), (50, failed)];
    assert_eq!(run(&mut t, T0, 5), expected);
    assert_eq!(state(&t, SERVER), Some(State::Failed));
    assert!(t.any_down() && t.is_down(id) && !t.may_take(PORT, SERVER));
    // It is asked on, and never removed.
    let later = run(&mut t, T0.after(seconds(6)), 60);
    assert!(
        later.len() >= 59 && later.iter().all(|(_, event)| *event == broadcast()),
        "{later:?}"
    );
    assert!(!t.take_returned());
    learn(&mut t, heard(SERVER, MAC, Means::Reply), T0.after(seconds(67)));
    assert!(!t.any_down() && !t.is_down(id) && t.may_take(PORT, SERVER));
    assert!(t.take_returned() && !t.take_returned());
}

#[test]
fn one_that_is_watched_no_more_is_as_any_other() {
    let (mut t, id) = watched();
    run(&mut t, T0, 5);
    t.unwatch_all();
    assert!(!t.any_down() && !t.is_down(id) && !t.may_take(PORT, SERVER));
    run(&mut t, T0.after(seconds(5)), 20);
    assert_eq!(t.find(PORT, SERVER), None);
    assert!(t.may_take(PORT, SERVER), "nothing is known of it");
    // Watched anew, it is asked; and one that had failed before it was watched counts.
    let now = T0.after(seconds(26));
    t.watch(PORT, SERVER, now).unwrap();
    run(&mut t, now, 4);
    t.unwatch_all();
    t.watch(PORT, SERVER, now.after(seconds(5))).unwrap();
    t.watch(PORT, SERVER, now.after(seconds(5))).unwrap();
    assert!(t.any_down());
    learn(&mut t, heard(SERVER, MAC, Means::Request), now.after(seconds(5)));
    assert!(!t.any_down() && t.take_returned());
}

#[test]
fn a_static_neighbour_is_never_down() {
    let mut t = table();
    t.set_static(PORT, SERVER, MAC, T0, |_, _, _| {}).unwrap();
    t.watch(PORT, SERVER, T0).unwrap();
    assert_eq!(run(&mut t, T0, 60), []);
    assert!(!t.any_down());
    assert!(small(1, 8, 8).watch(PORT, OTHER, T0).is_ok());
}
