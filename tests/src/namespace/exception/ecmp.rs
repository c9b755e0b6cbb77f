//! Two gateways that announce one VIP by BGP, a router that spreads connections over both, and one that goes.

use super::pair::{GATEWAYS, ROUTER, cabled};
use super::{bird, pair};
use crate::failure::Download;
use crate::lab::{Gateway, Host, Lab, Nginx, PATIENCE, Process, until};

const VIP: &str = "198.51.100.100";
const DOWNLOADS: usize = 12;

/// `seed` differs, as it does when each draws its own: what `mh` finds does not depend on it.
fn yaml(number: usize) -> String {
    let rest = format!(
        "
settings: {{ sloppy_tcp: true }}
announce: loopback
pools: [{{ name: web, servers: [{{ address: 203.0.113.11 }}, {{ address: 203.0.113.12 }}] }}]
services: [{{ name: web, listen: \"{VIP}:80/tcp\", pool: web, mode: dr, scheduler: mh, scheduler_flags: mh-port }}]
"
    );
    pair::yaml(GATEWAYS[number].1, &rest).replace("seed: 7", &format!("seed: {}", 7 + number))
}

/// A gateway and its BIRD.
fn join(lab: &Lab, number: usize) -> (Gateway, Process) {
    let (host, own) = GATEWAYS[number];
    let gateway = Gateway::start_on(lab, host, &yaml(number));
    let daemon = bird::on_gateway(lab, host, own, ROUTER);
    (gateway, daemon)
}

/// Waits until the router sends by these gateways alone.
fn await_ways(router: &Host, expected: &[usize]) {
    until(&format!("the ways {expected:?}"), PATIENCE, || {
        let route = router.run(&format!("ip route show {VIP}"));
        let is_there = |number: &usize| route.contains(&format!("via {} ", GATEWAYS[*number].1));
        let there: Vec<usize> = [0, 1].into_iter().filter(is_there).collect();
        (there == expected).then_some(())
    });
}

/// The servers of a gateway's connections, by the client's port.
fn servers(gateway: &Gateway) -> Vec<(String, String)> {
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = gateway.connections();
    rows.iter()
        .map(|row| (text(row, "client"), text(row, "server")))
        .collect()
}

#[test]
fn a_gateway_goes_and_comes_back_and_no_download_breaks() {
    let lab = cabled(&[VIP]);
    let router = lab.host("switch");
    let _nginx = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let _bgp = bird::on_router(&lab, &router, ROUTER, &GATEWAYS.map(|(_, own)| own));
    let (first, mut first_daemon) = join(&lab, 0);
    let (second, _second_daemon) = join(&lab, 1);
    await_ways(&router, &[0, 1]);

    let downloads: Vec<Download> = (0..DOWNLOADS)
        .map(|number| Download::of(&lab, VIP, number))
        .collect();
    for download in &downloads {
        until("an answer", PATIENCE, || download.server());
    }
    let (by_first, by_second) = (servers(&first), servers(&second));
    println!(
        "{} connections by the first gateway, {} by the second",
        by_first.len(),
        by_second.len()
    );
    assert!(
        !by_first.is_empty() && !by_second.is_empty(),
        "the router spreads them"
    );

    // It falls silent; its daemon's session goes by it.
    first.crash();
    await_ways(&router, &[1]);
    first_daemon.signal("TERM");
    first_daemon.end("BIRD", PATIENCE);
    until(
        "the connections of the dead gateway on the other",
        PATIENCE,
        || {
            let now = servers(&second);
            by_first.iter().all(|one| now.contains(one)).then_some(())
        },
    );
    // It comes back, and gets connections that the other one had.
    let (first, _first_daemon) = join(&lab, 0);
    await_ways(&router, &[0, 1]);
    for download in downloads {
        assert!(download.complete());
    }
    println!(
        "{} connections by the gateway that came back",
        servers(&first).len()
    );
    first.finish();
    second.finish();
}
