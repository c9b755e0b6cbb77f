//! UDP: real name servers behind the VIP, and every query answered.

use crate::lab::{Capture, FULLNAT, Gateway, Lab, PATIENCE, Process, number, until};
use std::fs;
use std::path::PathBuf;

const QUERIES: usize = 500;
/// Clients at the same time.
const CLIENTS: usize = 4;

fn dnsmasq(lab: &Lab, number: usize) -> (Process, PathBuf) {
    let log = lab.file(&format!("dnsmasq{number}.queries"));
    let line = format!(
        "dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --pid-file= \
         --bind-interfaces --listen-address=10.0.0.1{number} --address=/example.test/192.0.2.99 \
         --log-queries --log-facility={}",
        log.display()
    );
    let host = lab.server(number);
    let process = host.start(&line, &lab.file(&format!("dnsmasq{number}.log")));
    until("dnsmasq", PATIENCE, || {
        host.run("ss -Huln").contains(":53").then_some(())
    });
    (process, log)
}

#[test]
fn every_query_is_answered() {
    let lab = Lab::new();
    let servers = [dnsmasq(&lab, 1), dnsmasq(&lab, 2)];
    let gateway = Gateway::start(&lab, &Gateway::usual());
    let captures = [
        Capture::start(&lab, &lab.client(), "wan0"),
        Capture::start(&lab, &lab.server(1), "lan0"),
        Capture::start(&lab, &lab.server(2), "lan0"),
    ];
    let names: String = (0..QUERIES)
        .map(|n| format!("host{n}.example.test A\n"))
        .collect();
    let batch = lab.file("names");
    fs::write(&batch, names).unwrap();
    let line = format!(
        "dig @{FULLNAT} +short +tries=1 +timeout=10 -f {}",
        batch.display()
    );
    let client = lab.client();
    let mut digs: Vec<Process> = (0..CLIENTS)
        .map(|n| client.start(&line, &lab.file(&format!("dig{n}"))))
        .collect();
    for dig in &mut digs {
        assert!(dig.end("dig", PATIENCE * 4).success(), "{}", dig.output());
        let output = dig.output();
        let answered = output.lines().filter(|line| *line == "192.0.2.99").count();
        assert_eq!(answered, QUERIES, "{output}");
    }
    let seen = servers.each_ref().map(|(_, log)| {
        let log = fs::read_to_string(log).unwrap();
        assert!(
            log.lines()
                .filter(|line| line.contains("query[A]"))
                .all(|line| line.contains("from 10.0.0.20"))
        );
        log.lines().filter(|line| line.contains("query[A]")).count()
    });
    assert_eq!(seen[0] + seen[1], QUERIES * CLIENTS);
    assert!(
        seen.iter().all(|count| *count > QUERIES * CLIENTS / 3),
        "{seen:?}"
    );
    for capture in captures {
        capture.end().assert_good_checksums("udp");
    }
    let row = gateway.named("services", "dns");
    assert!(
        number(&row, "inbound_packets") >= (QUERIES * CLIENTS) as u64,
        "{row}"
    );
    assert!(
        number(&row, "outbound_packets") >= (QUERIES * CLIENTS) as u64,
        "{row}"
    );
    gateway.finish();
}
