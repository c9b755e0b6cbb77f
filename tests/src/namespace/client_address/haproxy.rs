//! HAProxy, which the protocol comes from, with `accept-proxy`: its log has the client's own address and port.

use super::site::{self, CLIENTS, VIPS};
use crate::lab::{Lab, PATIENCE, Process, authority, until};
use std::fs;

/// Its port.
pub(super) const PORT: u16 = 9000;
const REQUESTS: usize = 50;

/// It, on server 2, with its log on its output.
fn start(lab: &Lab) -> Process {
    let file = lab.file("haproxy.cfg");
    let configuration = format!(
        "global
    log stdout format raw local0
    maxconn 500
defaults
    mode http
    log global
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend proxied
    bind 0.0.0.0:{PORT} accept-proxy
    bind :::{PORT} v6only accept-proxy
    log-format \"seen %ci %cp %fi %fp %ST\"
    http-request return status 200 content-type text/plain string \"haproxy\\n\"
"
    );
    fs::write(&file, configuration).unwrap();
    let host = lab.server(2);
    let line = format!("haproxy -db -f {}", file.display());
    let mut process = host.start(&line, &lab.file("haproxy.log"));
    until("haproxy", PATIENCE, || {
        let ended = process.ended();
        assert!(ended.is_none(), "{ended:?}: {}", process.output());
        host.run("ss -Htln").contains(":9000").then_some(())
    });
    process
}

#[test]
fn haproxy_logs_the_clients_own_address_and_port() {
    let lab = Lab::dual();
    let haproxy = start(&lab);
    let gateway = site::gateway(&lab);
    for (client, vip) in CLIENTS.into_iter().zip(VIPS) {
        let mut command = lab.client().command("curl");
        command.args(["-sS", "--fail", "--max-time", "60", "-H", "Connection: close"]);
        command.args(["-w", "own %{local_port}\n"]);
        command.arg(format!("http://{}:81/?[1-{REQUESTS}]", authority(vip)));
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}\n{}", haproxy.output());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let pages = text.lines().filter(|line| *line == "haproxy").count();
        let own = text.lines().filter_map(|line| line.strip_prefix("own "));
        let mut expected: Vec<String> = own
            .map(|port| format!("seen {client} {port} {vip} 81 200"))
            .collect();
        assert_eq!((pages, expected.len()), (REQUESTS, REQUESTS));
        let mut logged = until("haproxy's log", PATIENCE, || {
            let output = haproxy.output();
            let lines = output.lines().filter(|line| line.starts_with("seen"));
            let lines: Vec<_> = lines
                .filter(|line| line.contains(client))
                .map(str::to_owned)
                .collect();
            Some(lines).filter(|lines| lines.len() >= REQUESTS)
        });
        expected.sort_unstable();
        logged.sort_unstable();
        assert_eq!(logged, expected);
    }
    site::finish(&lab, gateway);
}
