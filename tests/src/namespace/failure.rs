//! A server that dies takes its own connections with it, and nothing else.

use crate::lab::{FULLNAT, Gateway, LARGE, Lab, Nginx, PATIENCE, Process, until};
use std::fs;
use std::path::PathBuf;

const DOWNLOADS: usize = 6;

/// A slow download that says which server it is from.
pub(crate) struct Download {
    curl: Process,
    headers: PathBuf,
    body: PathBuf,
}

impl Download {
    /// Starts it; `number` tells it from others of the lab.
    pub(crate) fn start(lab: &Lab, number: usize) -> Download {
        Download::of(lab, FULLNAT, number)
    }

    /// As [`Download::start`], from another VIP.
    pub(crate) fn of(lab: &Lab, vip: &str, number: usize) -> Download {
        let (headers, body) = (
            lab.file(&format!("headers{number}")),
            lab.file(&format!("body{number}")),
        );
        let line = format!(
            "curl -sS --max-time 120 -D {} -o {} http://{vip}/large",
            headers.display(),
            body.display()
        );
        let curl = lab.client().start(&line, &lab.file(&format!("curl{number}")));
        Download { curl, headers, body }
    }

    /// The server, once its answer has begun.
    pub(crate) fn server(&self) -> Option<char> {
        let headers = fs::read_to_string(&self.headers).ok()?;
        let arrived = fs::metadata(&self.body).is_ok_and(|body| body.len() > 0);
        let line = headers.lines().find_map(|line| line.strip_prefix("X-Server: "))?;
        line.chars().next().filter(|_| arrived)
    }

    /// Whether it ended well, and all of it came.
    pub(crate) fn complete(mut self) -> bool {
        let good = self.curl.end("a download", PATIENCE * 4).success();
        good && fs::metadata(&self.body).unwrap().len() == LARGE as u64
    }
}

#[test]
fn a_dead_server_takes_only_its_own_connections() {
    let lab = Lab::new();
    let (first, second) = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
    let gateway = Gateway::start(&lab, &Gateway::usual());
    let downloads: Vec<Download> = (0..DOWNLOADS)
        .map(|number| Download::start(&lab, number))
        .collect();
    let downloads: Vec<(char, Download)> = downloads
        .into_iter()
        .map(|download| (until("an answer", PATIENCE, || download.server()), download))
        .collect();
    assert_eq!(downloads.iter().filter(|(server, _)| *server == '1').count(), 4);

    first.crash(&lab.server(1));
    for (server, download) in downloads {
        let complete = download.complete();
        assert_eq!(complete, server == '2', "a download from server {server}");
    }

    // There is no health check yet: what is scheduled to the dead server is refused by its kernel, at once.
    let refused = (0..6).filter(|_| {
        !lab.client()
            .attempt(&format!("curl -sS --max-time 20 http://{FULLNAT}/"))
            .status
            .success()
    });
    assert_eq!(refused.count(), 4);
    let first = Nginx::start(&lab, 1);
    let answers = crate::balance::curl(&lab.client(), FULLNAT, 6);
    assert_eq!(answers.iter().filter(|answer| *answer == "server 1").count(), 4);
    gateway.finish();
    drop((first, second));
}

#[test]
fn an_unreachable_server_times_out_and_the_other_goes_on() {
    let lab = Lab::new();
    let (_first, second) = (Nginx::start(&lab, 1), Nginx::start(&lab, 2));
    let gateway = Gateway::start(&lab, &Gateway::usual());
    crate::balance::curl(&lab.client(), FULLNAT, 6);
    let before = second.requests().len();
    lab.server(1).run("ip link set lan0 down");
    let outcomes: Vec<bool> = (0..6)
        .map(|_| {
            lab.client()
                .attempt(&format!("curl -sS --max-time 2 http://{FULLNAT}/"))
                .status
                .success()
        })
        .collect();
    assert_eq!(outcomes.iter().filter(|good| **good).count(), 2, "{outcomes:?}");
    assert_eq!(second.requests().len() - before, 2);
    lab.server(1).run("ip link set lan0 up");
    until("server 1 to be reached again", PATIENCE, || {
        let line = format!("curl -sS --max-time 2 http://{FULLNAT}/");
        let answer = lab.client().attempt(&line);
        (answer.stdout == b"server 1\n").then_some(())
    });
    gateway.finish();
}
