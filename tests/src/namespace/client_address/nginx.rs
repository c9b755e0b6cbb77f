//! nginx with `proxy_protocol`: it logs the client's own address and port, in plain HTTP and in TLS 1.3.

use super::site::{self, CLIENTS, VIPS};
use crate::lab::{Capture, Lab, PATIENCE, Process, authority, until};
use crate::modes::{assert_same, pattern};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Its ports.
pub(super) const PLAIN: u16 = 8081;
pub(super) const SECURE: u16 = 8443;
/// Bytes of a file each way.
const BYTES: usize = 2_000_000;

/// It, on server 1.
struct Nginx {
    process: Process,
    root: PathBuf,
}

/// A line of its log.
#[derive(PartialEq, Eq, Debug)]
struct Request {
    /// The client by the header, and the VIP.
    client: String,
    vip: String,
    /// The client as every other part of nginx now sees it, and the other end of the TCP connection.
    real: String,
    peer: String,
    tls: String,
    uri: String,
}

impl Nginx {
    fn start(lab: &Lab) -> Nginx {
        let root = lab.file("proxied-nginx");
        fs::create_dir_all(root.join("pages")).unwrap();
        fs::write(root.join("pages/index.html"), "proxied\n").unwrap();
        let text = root.display().to_string();
        let configuration = root.join("nginx.conf");
        fs::write(&configuration, config(&text)).unwrap();
        let host = lab.server(1);
        host.run(&format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=proxied \
             -keyout {text}/key.pem -out {text}/cert.pem"
        ));
        let line = format!(
            "nginx -p {text} -c {} -e {text}/error.log",
            configuration.display()
        );
        let mut process = host.start(&line, &lab.file("proxied-nginx.log"));
        until("nginx", PATIENCE, || {
            let ended = process.ended();
            assert!(ended.is_none(), "{ended:?}: {}", process.output());
            host.run("ss -Htln").contains(":8443").then_some(())
        });
        Nginx { process, root }
    }

    fn requests(&self) -> Vec<Request> {
        let log = fs::read_to_string(self.root.join("access.log")).unwrap_or_default();
        // The last line may be half written.
        log.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(request)
            .collect()
    }

    /// The requests when there are so many.
    fn count(&self, count: usize) -> Vec<Request> {
        until("nginx's log", PATIENCE, || {
            Some(self.requests()).filter(|requests| requests.len() >= count)
        })
    }

    /// What was sent to `/upload`.
    fn uploads(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.root.join("t1")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.process.ended().is_none() {
            self.process.signal("TERM");
            self.process.end("nginx", PATIENCE);
        }
    }
}

fn request(line: &str) -> Request {
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut word = || words.next().unwrap();
    let mut pair = || format!("{} {}", word(), word());
    let (client, vip) = (pair(), pair());
    let (real, peer, tls, uri) = (word(), word(), word(), word());
    Request {
        client,
        vip,
        real,
        peer,
        tls,
        uri,
    }
}

fn config(root: &str) -> String {
    format!(
        "user root; daemon off; worker_processes 1; pid {root}/nginx.pid; error_log {root}/error.log;
        events {{ worker_connections 1024; }}
        http {{
            log_format who '$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr \
                $proxy_protocol_server_port $remote_addr $realip_remote_addr $ssl_protocol- $uri';
            client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
            uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
            ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; ssl_protocols TLSv1.3;
            server {{
                listen {PLAIN} proxy_protocol; listen [::]:{PLAIN} proxy_protocol;
                listen {SECURE} ssl proxy_protocol; listen [::]:{SECURE} ssl proxy_protocol;
                set_real_ip_from 10.0.0.0/24; set_real_ip_from fd00::/64; real_ip_header proxy_protocol;
                access_log {root}/access.log who;
                root {root}/pages;
                location /upload {{
                    client_max_body_size 0; client_body_in_file_only on;
                    proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length \"\";
                    proxy_pass http://127.0.0.1:8082/;
                }}
            }}
            server {{ listen 127.0.0.1:8082; access_log off; root {root}/pages; }}
        }}\n"
    )
}

/// Runs curl in the client; the lines that it writes for each request: its own address and port, and what it adds.
fn curl(lab: &Lab, arguments: &str) -> Vec<String> {
    let line = format!("curl -sSk --fail --max-time 120 -H Connection:close {arguments}");
    let mut command = lab.client().command("curl");
    command.args(line.split_whitespace().skip(1));
    // The headers of a response come in one order; this comes at the end.
    command.args(["-w", "=%{local_ip} %{local_port}\n"]);
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {message}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| line.rsplit_once('='))
        .map(|(_, own)| own.to_owned())
        .collect()
}

/// How often each line occurs: nginx logs in the order of its own work.
fn tally(lines: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

/// Requests one after another, then a file each way, of both families: each is logged under the client's own address and
/// port, and no byte is missing.
#[test]
fn nginx_logs_the_clients_own_address_and_port() {
    let lab = Lab::dual();
    let nginx = Nginx::start(&lab);
    let file = pattern(&lab, "file", BYTES);
    fs::hard_link(&file, nginx.root.join("pages/file")).unwrap();
    let gateway = site::gateway(&lab);
    let capture = Capture::start(&lab, &lab.server(1), "lan0");
    let mut seen = 0;
    for (client, vip) in CLIENTS.into_iter().zip(VIPS) {
        let host = authority(vip);
        let own = curl(&lab, &format!("http://{host}/?[1-150]"));
        assert_eq!(own.len(), 150);
        let requests = nginx.count(seen + 150);
        let logged = requests[seen..].iter().map(|request| request.client.clone());
        assert_eq!(tally(logged), tally(own.into_iter()));
        for request in &requests[seen..] {
            assert!(request.client.starts_with(&format!("{client} ")));
            assert_eq!((&request.vip, &*request.real), (&format!("{vip} 80"), client));
            assert!(
                ["10.0.0.200", "fd00::200"].contains(&&*request.peer),
                "{request:?}"
            );
        }
        seen += 150;

        let body = lab.file("body");
        let mut own = curl(&lab, &format!("-o {} http://{host}/file", body.display()));
        assert_same(&body, &file);
        let before = nginx.uploads();
        let upload = format!(
            "-o {} -H Expect: -T {} http://{host}/upload",
            body.display(),
            file.display()
        );
        own.extend(curl(&lab, &upload));
        let requests = nginx.count(seen + 2);
        let logged: Vec<_> = requests[seen..]
            .iter()
            .map(|request| request.client.clone())
            .collect();
        assert_eq!(logged, own);
        let uploads = nginx.uploads();
        let uploaded: Vec<_> = uploads.iter().filter(|file| !before.contains(file)).collect();
        assert_eq!(uploaded.len(), 1);
        assert_same(uploaded[0], &file);
        seen += 2;
    }
    let sent = site::metric(&gateway, "tidegate_worker_proxy_headers_sent_total");
    assert_eq!(sent, seen as u64);
    let captured = capture.end();
    captured.assert_good_checksums("tcp");
    assert_eq!(captured.frames("frame.len > 1514"), Vec::<String>::new());
    site::finish(&lab, gateway);
}

/// The header stands in front of the ClientHello: TLS 1.3 begins behind it, and a file each way passes.
#[test]
fn nginx_with_tls_knows_its_client() {
    let lab = Lab::dual();
    let nginx = Nginx::start(&lab);
    let file = pattern(&lab, "file", BYTES);
    fs::hard_link(&file, nginx.root.join("pages/file")).unwrap();
    let gateway = site::gateway(&lab);
    let mut seen = 0;
    for (client, vip) in CLIENTS.into_iter().zip(VIPS) {
        let host = authority(vip);
        let mut own = curl(&lab, &format!("--tlsv1.3 https://{host}/?[1-20]"));
        let body = lab.file("body");
        own.extend(curl(
            &lab,
            &format!("--tlsv1.3 -o {} https://{host}/file", body.display()),
        ));
        assert_same(&body, &file);
        let requests = nginx.count(seen + 21);
        let logged = requests[seen..].iter().map(|request| request.client.clone());
        assert_eq!(tally(logged), tally(own.into_iter()));
        for request in &requests[seen..] {
            assert_eq!((&*request.tls, &*request.real), ("TLSv1.3-", client));
            assert_eq!(request.vip, format!("{vip} 443"));
        }
        seen += 21;
    }
    site::finish(&lab, gateway);
}
