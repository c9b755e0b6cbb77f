//! Rules of SNAT as operators see them.

use crate::command_line::show;
use crate::support::{BASE, CLIENT, Fake, syn};
use std::net::Ipv4Addr;
use tidegate::view::{Connection, Drop, LocalPool, Reload, SnatRule};

/// Hosts outside, for the client.
const OUTSIDE: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 11), Ipv4Addr::new(10, 0, 0, 12)];

const RULES: &str = "
snat:
  - { name: inside, source: 203.0.113.0/25, destination: 203.0.113.0/24, exempt: true }
  - { name: web, source: 203.0.113.50, destination: [10.0.0.11, 10.0.0.16/28], protocol: [udp, tcp], ports: [80, 8000-8100],
      local_addresses: out, connections_per_client: 2 }
  - { name: rest, source: 203.0.113.0/25, local_addresses: out }
";

fn text() -> String {
    let groups = "local_addresses: [{ name: out, port: lan, addresses: [10.0.0.210] }, ";
    BASE.replace("local_addresses: [", groups) + RULES
}

fn rules(fake: &Fake) -> Vec<SnatRule> {
    fake.get("/v1/snat")
}

#[test]
fn rules_are_told_in_their_order_with_what_they_have_done() {
    let fake = Fake::new(&text());
    (1..=3).for_each(|port| fake.arrive(syn(port, OUTSIDE[0])));
    fake.arrive(syn(9, OUTSIDE[1]));
    let [inside, web, rest] = &rules(&fake)[..] else {
        panic!("three rules")
    };
    assert_eq!(
        (inside.name.as_str(), inside.exempt, inside.totals.connections),
        ("inside", true, 0)
    );
    assert_eq!(web.source, ["203.0.113.50/32"]);
    assert_eq!(web.destination, ["10.0.0.11/32", "10.0.0.16/28"]);
    assert_eq!(
        (&web.protocol[..], &web.ports[..]),
        (
            &["tcp", "udp"].map(String::from)[..],
            &["80", "8000-8100"].map(String::from)[..]
        )
    );
    assert_eq!(
        (&web.local_addresses[..], web.connections_per_client),
        (&["out".to_owned()][..], Some(2))
    );
    // The third connection of the client is one too many.
    assert_eq!(
        (web.totals.connections, web.totals.inbound_packets, web.refused),
        (2, 2, 1)
    );
    assert_eq!(web.totals.active + web.totals.inactive, 2);
    assert_eq!(
        (rest.totals.connections, rest.refused, rest.connections_per_client),
        (1, 0, None)
    );
    let drops: Vec<Drop> = fake.get("/v1/drops");
    assert!(
        drops
            .iter()
            .any(|drop| drop.reason == "snat_limit" && drop.total == 1),
        "{drops:?}"
    );

    let table = show(&fake, &["snat"]);
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[1][..6],
        [
            "inside",
            "203.0.113.0/25",
            "203.0.113.0/24",
            "any",
            "any",
            "exempt"
        ]
    );
    let now = [web.totals.active, web.totals.inactive].map(|count| count.to_string());
    assert_eq!(lines[2][5..9], ["out", &now[0], &now[1], "2"], "{table}");
    assert_eq!(lines[2][13..], ["2", "1"], "{table}");
    assert_eq!(
        serde_json::from_str::<Vec<SnatRule>>(&show(&fake, &["snat", "--json"])).unwrap(),
        rules(&fake)
    );

    let metrics = fake.metrics();
    let active = format!(
        "tidegate_snat_connections{{rule=\"web\",state=\"active\"}} {}",
        now[0]
    );
    for line in [
        active.as_str(),
        "tidegate_snat_connections_opened_total{rule=\"web\"} 2",
        "tidegate_snat_connections_refused_total{rule=\"web\"} 1",
        "tidegate_snat_packets_total{rule=\"web\",direction=\"inbound\"} 2",
        "tidegate_snat_bytes_total{rule=\"rest\",direction=\"inbound\"} 40",
        "tidegate_snat_packets_total{rule=\"inside\",direction=\"outbound\"} 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line}");
    }
}

#[test]
fn connections_and_local_addresses_of_snat_are_told_as_such() {
    let fake = Fake::new(&text());
    fake.arrive(syn(1, OUTSIDE[0]));
    let (_, lines) = fake.ask("GET", "/v1/connections");
    let connection: Connection = serde_json::from_str(lines.trim()).unwrap();
    assert_eq!(
        (connection.mode.as_str(), connection.state.as_str()),
        ("snat", "SYN_RECV")
    );
    assert_eq!(connection.client, (CLIENT, 1).into());
    assert_eq!(
        (connection.server, connection.virtual_address),
        ((OUTSIDE[0], 80).into(), (OUTSIDE[0], 80).into())
    );
    assert_eq!(connection.local.unwrap().ip(), Ipv4Addr::new(10, 0, 0, 210));
    assert!(show(&fake, &["connections"]).contains("snat"));

    let pools: Vec<LocalPool> = fake.get("/v1/local-addresses?servers=true");
    let out = &pools[0];
    assert_eq!(
        (out.name.as_str(), &out.snat[..]),
        ("out", &["web".to_owned(), "rest".to_owned()][..])
    );
    // Who is outside cannot be counted, so neither can what is left towards all of them.
    assert_eq!(
        (out.servers, out.used, out.capacity, out.free),
        (0, 1, None, None)
    );
    let towards = &out.addresses[0].servers[0];
    assert_eq!(
        (towards.address, towards.port, towards.protocol.as_str()),
        (OUTSIDE[0].into(), 80, "tcp")
    );
    assert_eq!((pools[1].name.as_str(), pools[1].free), ("dip", Some(6000)));
    let metrics = fake.metrics();
    assert!(metrics.contains("tidegate_local_ports_used{pool=\"out\"} 1\n"));
    assert!(!metrics.contains("tidegate_local_ports_free{pool=\"out\"}"));
    let row = |name: &str| {
        let table = show(&fake, &["local-addresses"]);
        let row = table.lines().find(|line| line.starts_with(name)).unwrap();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(row("out").contains(&"-".to_owned()), "{:?}", row("out"));
    assert!(!row("dip").contains(&"-".to_owned()), "{:?}", row("dip"));
}

/// The next user of a slot begins at zero, and a rule that stays goes on.
#[test]
fn counters_go_with_the_names_of_rules() {
    let fake = Fake::new(&text());
    fake.arrive(syn(1, OUTSIDE[0]));
    fake.arrive(syn(9, OUTSIDE[1]));
    let other = text().replace("name: rest", "name: others");
    fake.write(&other);
    let (status, body) = fake.ask("POST", "/v1/reload");
    let done: Reload = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, done.changes.snat_added, done.changes.snat_removed),
        (200, 1, 1)
    );
    assert!(
        done.summary.contains("SNAT rules: 1 added, 0 changed, 1 removed"),
        "{}",
        done.summary
    );
    let told = |fake: &Fake| -> Vec<(String, u64)> {
        let rules = rules(fake).into_iter();
        rules.map(|rule| (rule.name, rule.totals.connections)).collect()
    };
    assert_eq!(
        told(&fake)[1..],
        [("web".to_owned(), 1), ("others".to_owned(), 0)]
    );
    // The connection of the rule that is gone still has its slot. When it has ended the slot is free for the next.
    fake.pass(3600);
    fake.write(&other.replace("name: inside", "name: no-nat"));
    assert_eq!(fake.ask("POST", "/v1/reload").0, 200);
    assert_eq!(
        told(&fake),
        [
            ("no-nat".to_owned(), 0),
            ("web".to_owned(), 1),
            ("others".to_owned(), 0)
        ]
    );
}
