//! BIRD on hosts of the lab.

use crate::lab::{Host, Lab, Process};
use std::fs;

/// Times that let a dead neighbour be seen within seconds.
pub(super) const QUICK: &str =
    "hold time 3; keepalive time 1; connect delay time 1; connect retry time 1; error wait time 1, 2;";

/// Starts it with these protocols.
pub(super) fn start(lab: &Lab, host: &Host, name: &str, protocols: &str) -> Process {
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

/// Tells a router at `peer` of the addresses of `lo`, from a gateway's address.
pub(super) fn on_gateway(lab: &Lab, host: &str, own: &str, peer: &str) -> Process {
    let protocols = format!(
        "router id {own};
         protocol direct {{ ipv4; interface \"lo\"; }}
         protocol bgp upstream {{
             local {own} as 65000; neighbor {peer} as 65001; {QUICK}
             ipv4 {{ import none; export where source = RTS_DEVICE; next hop self; }};
         }}"
    );
    start(lab, &lab.host(host), &format!("bird-{host}"), &protocols)
}

/// Takes what gateways announce into the kernel's table, all equally good ways.
pub(super) fn on_router(lab: &Lab, host: &Host, own: &str, gateways: &[&str]) -> Process {
    let peer = |(number, gateway): (usize, &&str)| {
        format!(
            "protocol bgp gateway{number} {{
                 local {own} as 65001; neighbor {gateway} as 65000; {QUICK}
                 ipv4 {{ import all; export none; }};
             }}\n"
        )
    };
    let peers: String = gateways.iter().enumerate().map(peer).collect();
    let protocols = format!(
        "router id {own};
         protocol kernel {{ merge paths yes; ipv4 {{ import none; export where source = RTS_BGP; }}; }}
         {peers}"
    );
    start(lab, host, "bird-router", &protocols)
}
