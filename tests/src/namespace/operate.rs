//! What an operator does under traffic: a server is marked overloaded, counters begin anew, rates are told, a removed
//! server drains, a service has queues.

use crate::balance::curl;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, number, until};

fn from_first(lab: &Lab, target: &str, count: u32) -> usize {
    let answers = curl(&lab.client(), target, count);
    answers.iter().filter(|answer| *answer == "server 1").count()
}

#[test]
fn marks_zeroes_and_rates_under_traffic() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let gateway = Gateway::start(&lab, &Gateway::usual());
    gateway.operate(&["overload", "web", "10.0.0.11", "on"]);
    assert_eq!(from_first(&lab, FULLNAT, 12), 0);
    gateway.operate(&["overload", "web", "10.0.0.11:8080", "off"]);
    assert_eq!(from_first(&lab, FULLNAT, 12), 8);

    let opened = || number(&gateway.named("services", "web"), "connections");
    assert_eq!(opened(), 24);
    gateway.operate(&["zero", "web"]);
    assert_eq!(opened(), 0);
    assert!(gateway.metrics().lines().any(|line| {
        line.starts_with("tidegate_service_connections_opened_total{service=\"web\"") && line.ends_with(" 24")
    }));
    // Control estimates by itself.
    until("a rate of the service", PATIENCE, || {
        curl(&lab.client(), FULLNAT, 24);
        let rates = gateway.named("rates", "web");
        let all = ["cps", "inpps", "outpps", "inbps", "outbps"];
        all.iter().all(|rate| number(&rates, rate) > 0).then_some(())
    });
    until("the rate to end with the traffic", PATIENCE, || {
        (number(&gateway.named("rates", "web"), "cps") == 0).then_some(())
    });
    gateway.finish();
}

#[test]
fn a_removed_server_drains_in_sight() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let yaml = Gateway::usual().replace(
        "mode: fullnat, scheduler: wrr, local_addresses: dip }",
        "mode: fullnat, scheduler: wrr, local_addresses: dip, on_remove: drain, drain_deadline: 3600 }",
    );
    let gateway = Gateway::start(&lab, &yaml);
    // Only the first server serves, at a speed that leaves time to look.
    gateway.operate(&["overload", "web", "10.0.0.12", "on"]);
    let body = lab.file("body");
    let line = format!(
        "curl -sS --max-time 600 --limit-rate 1k -o {} http://{FULLNAT}/large",
        body.display()
    );
    let mut download = lab.client().start(&line, &lab.file("curl"));
    until("the download to begin", PATIENCE, || {
        std::fs::metadata(&body)
            .is_ok_and(|body| body.len() > 0)
            .then_some(())
    });
    assert!(gateway.rows("draining").is_empty());
    gateway.write(&yaml.replace("- { address: 10.0.0.11, port: 8080, weight: 2 }\n", "\n"));
    assert!(gateway.reload().status.success());
    let rows = gateway.rows("draining");
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        (row["address"].as_str(), row["of"].as_str()),
        (Some("10.0.0.11:8080"), Some("web"))
    );
    assert!(
        number(row, "connections") == 1 && number(row, "deadline") > 3000,
        "{row}"
    );
    // The reload has made the second server what the file says.
    assert_eq!(from_first(&lab, FULLNAT, 6), 0);
    until("some seconds of draining", PATIENCE, || {
        (number(&gateway.rows("draining")[0], "since") >= 2).then_some(())
    });
    assert!(download.ended().is_none(), "{}", download.output());
    drop(download);
    // Its end closes the connection.
    until("the end of the drain", PATIENCE * 8, || {
        gateway.rows("draining").is_empty().then_some(())
    });
    gateway.finish();
}

#[test]
fn each_queue_has_its_pool() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let yaml = Gateway::usual().replace(
        "  - { name: web, listen",
        "  - name: shop
    listen: 203.0.113.105/tcp
    mode: fullnat
    local_addresses: dip
    scheduler: mq
    queues: [{ port: 80, pool: web, scheduler: fo }, { port: 81, pool: other }]
  - { name: web, listen",
    );
    let yaml = yaml.replace(
        "  - name: direct\n",
        "  - { name: other, servers: [{ address: 10.0.0.12, port: 8080 }] }\n  - name: direct\n",
    );
    let gateway = Gateway::start(&lab, &yaml);
    assert_eq!(from_first(&lab, "203.0.113.105", 6), 6, "the heavier one");
    assert_eq!(from_first(&lab, "203.0.113.105:81", 6), 0);
    for (queue, count) in [("shop:80", 6), ("shop:81", 6)] {
        let row = gateway.named("services", queue);
        assert_eq!(
            (number(&row, "connections"), row["queue_of"].as_str()),
            (count, Some("shop"))
        );
    }
    gateway.finish();
}
