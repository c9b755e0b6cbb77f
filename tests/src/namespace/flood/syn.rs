//! Floods of SYNs, ten and more times what the table has room for: what is established does not notice.

use super::{Random, Way};
use crate::endings::{Pair, listen};
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, RawSocket, number, until};
use std::net::Ipv4Addr;

const CONNECTIONS: usize = 1_000;
const SYNS: usize = 20 * CONNECTIONS;

/// The usual services with so small a table.
fn small() -> String {
    Gateway::usual().replace("connections: 100_000", &format!("connections: {CONNECTIONS}"))
}

/// SYNs that are counted before more are sent, so that none is lost on the way to the gateway.
const BATCH: usize = 100;
/// Connections that go on meanwhile.
const OPEN: usize = 20;

/// STAT-03, SCALE-05: ten times the table in SYNs, each of them accounted for. `limit` percent of the table are for
/// half-open connections, and `reason` is what the others are dropped for.
fn flood(limit: usize, reason: &str) {
    let lab = Lab::new();
    let alone = small().replace("      - { address: 10.0.0.12, port: 8080 }\n", "");
    let gateway = Gateway::start(
        &lab,
        &format!("{alone}settings: {{ embryonic_limit: {limit} }}\n"),
    );
    let listener = listen(&lab, "10.0.0.11:8080");
    let mut pairs: Vec<Pair> = (0..OPEN)
        .map(|_| Pair::open_at(&lab, &format!("{FULLNAT}:80"), &listener))
        .collect();
    let client = lab.client();
    let (way, socket) = (Way::find(&gateway, &client), RawSocket::open(&client, "wan0"));
    let opened = || number(&gateway.named("services", "web"), "connections") as usize;
    let room = (CONNECTIONS * limit / 100).min(CONNECTIONS - OPEN);
    let mut random = Random(0x6261_636b);
    for batch in 0..10 * CONNECTIONS / BATCH {
        for n in 0..BATCH {
            let source = Ipv4Addr::from(0xc633_6401 + random.below(250) as u32);
            socket.send(&way.syn(source, (1024 + batch * BATCH + n) as u16));
        }
        let sent = (batch + 1) * BATCH;
        until("each SYN to be taken or counted", PATIENCE, || {
            let taken = opened() - OPEN;
            assert!(taken <= room, "{taken} half-open connections in {room}");
            (taken + gateway.dropped(reason) as usize == sent).then_some(())
        });
        pairs[batch % OPEN].talk();
    }
    // Half-open ones live for a minute: nothing of the flood has ended, and nothing else.
    let states = gateway.states();
    let established = states.iter().filter(|state| *state == "ESTABLISHED").count();
    assert_eq!(
        (opened() - OPEN, established, states.len()),
        (room, OPEN, room + OPEN)
    );
    pairs.iter_mut().for_each(Pair::talk);
    let drops = gateway.rows("drops");
    let others: Vec<_> = drops
        .iter()
        .filter(|row| row["reason"] != reason && row["total"] != 0)
        .collect();
    assert!(others.is_empty(), "{others:?}");
    gateway.finish();
}

#[test]
fn half_open_connections_keep_to_their_room_and_nothing_established_is_lost() {
    flood(20, "embryonic_limit");
}

#[test]
fn a_full_table_pushes_nothing_established_out() {
    flood(100, "table_full");
}

#[test]
fn a_syn_flood_past_the_table_leaves_live_connections_alone() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    // So that half-open connections go away while the test looks.
    let soon = "timeouts: { tcp: { syn_recv: 3, close: 3 } }\n";
    let gateway = Gateway::start(&lab, &(small() + soon));
    for number in [1, 2] {
        lab.server(number).run("sysctl -qw net.ipv4.tcp_synack_retries=1");
    }
    let client = lab.client();
    let body = lab.file("body");
    let line = format!(
        "curl -sS --max-time 120 -o {} http://{FULLNAT}/large",
        body.display()
    );
    let mut download = client.start(&line, &lab.file("curl"));
    until("the download to begin", PATIENCE, || {
        std::fs::metadata(&body)
            .is_ok_and(|body| body.len() > 0)
            .then_some(())
    });

    let (way, socket) = (Way::find(&gateway, &client), RawSocket::open(&client, "wan0"));
    let mut random = Random(0x666c_6f6f);
    for n in 0..SYNS {
        let source = Ipv4Addr::from(0xc633_6401 + random.below(250) as u32);
        socket.send(&way.syn(source, 1024 + (n % 60_000) as u16));
    }
    until("table_full to be counted", PATIENCE, || {
        (gateway.dropped("table_full") > 0).then_some(())
    });
    assert!(
        download.end("the download", PATIENCE * 4).success(),
        "{}",
        download.output()
    );
    assert_eq!(std::fs::read(&body).unwrap(), crate::lab::large());
    until("new connections to be taken again", PATIENCE * 4, || {
        client
            .attempt(&format!("curl -sS --max-time 3 http://{FULLNAT}/"))
            .status
            .success()
            .then_some(())
    });
    gateway.finish();
}
