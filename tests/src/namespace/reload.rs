//! A new configuration under traffic: what is unchanged goes on, a bad file changes nothing, counters never fall.

use crate::balance::curl;
use crate::lab::{FULLNAT, Gateway, Lab, Nginx, PATIENCE, number, until};
use std::fs;

/// Asserts that no counter of the service has fallen, and keeps the new values.
fn monotonic(gateway: &Gateway, last: &mut Vec<u64>) {
    let row = gateway.named("services", "web");
    let now: Vec<u64> = [
        "connections",
        "inbound_packets",
        "outbound_packets",
        "inbound_bytes",
        "outbound_bytes",
    ]
    .map(|key| number(&row, key))
    .into();
    assert!(
        last.iter().zip(&now).all(|(last, now)| now >= last),
        "{last:?} became {now:?}"
    );
    *last = now;
}

#[test]
fn rld_01_a_download_goes_on_through_reloads() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let usual = Gateway::usual();
    let gateway = Gateway::start(&lab, &usual);
    let body = lab.file("body");
    let line = format!(
        "curl -sS --max-time 120 -o {} http://{FULLNAT}/large",
        body.display()
    );
    let mut download = lab.client().start(&line, &lab.file("curl"));
    until("the download to begin", PATIENCE, || {
        fs::metadata(&body).is_ok_and(|body| body.len() > 0).then_some(())
    });
    let mut counters = vec![];
    monotonic(&gateway, &mut counters);

    let more = usual.replace(
        "- { address: 10.0.0.12, port: 8080 }",
        "- { address: 10.0.0.12, port: 8080 }\n      - { address: 10.0.0.12, port: 80 }",
    );
    let edits = [
        usual.replace("port: 8080, weight: 2", "port: 8080, weight: 7"),
        usual.replace("port: 8080, weight: 2", "port: 8080, weight: 0"),
        usual.replace(
            "pool: web, mode: fullnat, scheduler: wrr",
            "pool: web, mode: fullnat, scheduler: rr",
        ),
        more,
        usual.clone() + "timeouts: { tcp: { established: 600 } }\n",
        usual.clone(),
    ];
    for yaml in &edits {
        let epoch = gateway.epoch();
        gateway.write(yaml);
        let output = gateway.reload();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert!(gateway.epoch() > epoch, "{text}");
        curl(&lab.client(), FULLNAT, 12);
        monotonic(&gateway, &mut counters);
        assert!(
            download.ended().is_none_or(|status| status.success()),
            "{}",
            download.output()
        );
    }
    assert!(
        download.end("the download", PATIENCE * 4).success(),
        "{}",
        download.output()
    );
    assert_eq!(fs::read(&body).unwrap(), crate::lab::large());
    gateway.finish();
}

#[test]
fn weights_and_servers_of_the_new_file_are_used_at_once() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let usual = Gateway::usual();
    let gateway = Gateway::start(&lab, &usual);
    let first = |count| {
        let answers = curl(&lab.client(), FULLNAT, count);
        answers.iter().filter(|answer| *answer == "server 1").count()
    };
    assert_eq!(first(30), 20);
    gateway.write(&usual.replace("port: 8080, weight: 2", "port: 8080, weight: 0"));
    assert!(gateway.reload().status.success());
    assert_eq!(first(30), 0);
    // SIGHUP is the same operation.
    let epoch = gateway.epoch();
    gateway.write(&usual.replace("port: 8080, weight: 2", "port: 8080, weight: 4"));
    gateway.signal("HUP");
    until("the new epoch", PATIENCE, || {
        (gateway.epoch() > epoch).then_some(())
    });
    assert_eq!(first(30), 24);
    gateway.finish();
}

#[test]
fn a_bad_file_changes_nothing() {
    let lab = Lab::new();
    let _servers = [Nginx::start(&lab, 1), Nginx::start(&lab, 2)];
    let usual = Gateway::usual();
    let gateway = Gateway::start(&lab, &usual);
    let (epoch, servers) = (gateway.epoch(), gateway.rows("servers").len());
    gateway.write(
        &usual
            .replace("scheduler: wrr", "schedular: wrr")
            .replace("weight: 2", "weight: two"),
    );
    let output = gateway.reload();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("schedular") && text.contains("scheduler") && text.contains("two"),
        "{text}"
    );
    assert_eq!((gateway.epoch(), gateway.rows("servers").len()), (epoch, servers));
    // By SIGHUP there is no exit code, but the log says what is wrong; then a good file is taken.
    gateway.signal("HUP");
    until("the log to say why", PATIENCE, || {
        gateway.log().contains("schedular").then_some(())
    });
    assert_eq!(gateway.epoch(), epoch);
    assert_eq!(curl(&lab.client(), FULLNAT, 6).len(), 6);
    gateway.write(&usual);
    assert!(gateway.reload().status.success());
    gateway.finish();
}
