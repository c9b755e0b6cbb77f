//! BIRD in the gateway's namespace, which learns by BGP from both routers what is behind them.

use super::*;
use crate::lab::Process;

const QUICK: &str =
    "hold time 6; keepalive time 1; connect delay time 1; connect retry time 1; error wait time 1, 2;";

/// Starts BIRD on a host, with these protocols.
fn bird(lab: &Lab, host: &Host, name: &str, protocols: &str) -> Process {
    let (file, socket) = (
        lab.file(&format!("{name}.conf")),
        lab.file(&format!("{name}.ctl")),
    );
    let text = format!("log stderr all;\nprotocol device {{ scan time 1; }}\n{protocols}");
    fs::write(&file, text).unwrap();
    host.run(&format!("bird -p -c {}", file.display()));
    let line = format!("bird -f -c {} -s {}", file.display(), socket.display());
    host.start(&line, &lab.file(&format!("{name}.log")))
}

/// A router that tells the gateway of its way to the clients.
fn router(lab: &Lab, number: usize) -> Process {
    let protocols = format!(
        "router id 203.0.113.1{number};
         protocol static {{ ipv4; route {CLIENTS} via 192.0.2.{}; }}
         protocol bgp balancer {{
             local 203.0.113.1{number} as 65001; neighbor 203.0.113.3 as 65000; {QUICK}
             ipv4 {{ import none; export all; }};
         }}",
        4 * number + 2
    );
    bird(lab, &lab.server(number), &format!("router{number}"), &protocols)
}

/// What listens to both, and writes all equally good ways into the kernel's table.
fn listener(lab: &Lab) -> Process {
    let peer = |number: usize| {
        format!(
            "protocol bgp router{number} {{
                 local 203.0.113.3 as 65000; neighbor 203.0.113.1{number} as 65001; {QUICK}
                 ipv4 {{ import all; export none; }};
             }}\n"
        )
    };
    let protocols = format!(
        "router id 203.0.113.3;
         protocol kernel {{ merge paths yes; ipv4 {{ import none; export where source = RTS_BGP; }}; }}
         {}{}",
        peer(1),
        peer(2)
    );
    bird(lab, &lab.host("gateway"), "listener", &protocols)
}

#[test]
fn bird_steers_replies_over_the_routers_that_announce_the_clients() {
    let lab = cabled();
    let _echo = Echo::start(&lab.host("switch"), "10.0.0.11:7".parse().unwrap());
    let gateway = Gateway::start(&lab, YAML);
    let flows = Flows::new(&lab.client());
    let _listener = listener(&lab);
    let mut first = router(&lab, 1);
    let _second = router(&lab, 2);
    let alive = ["203.0.113.11 reachable", "203.0.113.12 reachable"];
    await_hops(&gateway, CLIENTS, &alive);
    let before = flows.all(&lab);
    assert!(before.iter().all(|share| *share >= FLOWS / 4), "{before:?}");

    // A router that leaves withdraws its way.
    first.signal("TERM");
    first.end("BIRD of router 1", PATIENCE);
    await_hops(&gateway, CLIENTS, &alive[1..]);
    let shares = flows.all(&lab);
    assert!(shares[0] < 10 && shares[1] >= FLOWS, "{shares:?}");

    let _first = router(&lab, 1);
    await_hops(&gateway, CLIENTS, &alive);
    until("the flows to be back", PATIENCE, || {
        (flows.all(&lab)[0].abs_diff(before[0]) < 10).then_some(())
    });
    gateway.finish();
}
