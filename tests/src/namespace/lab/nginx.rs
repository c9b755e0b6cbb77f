//! A real web server on a server of the lab.

use super::wait::{PATIENCE, until};
use super::{Host, Lab, Process};
use std::fs;
use std::path::{Path, PathBuf};

/// nginx on ports 80, 8080 and, without TLS, 443 of both families. Ended with this value.
pub(crate) struct Nginx {
    process: Process,
    root: PathBuf,
    log: PathBuf,
}

/// A line of its access log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// Who asked, as the server saw it.
    pub(crate) client: String,
    /// The port that was asked.
    pub(crate) port: u16,
    /// The answer's status.
    pub(crate) status: u16,
    /// nginx's number of the TCP connection.
    pub(crate) connection: u64,
}

/// Bytes of `/large`, which leaves at [`RATE`] a second and so takes about ten seconds.
pub(crate) const LARGE: usize = 4_000_000;
const RATE: &str = "400k";

impl Nginx {
    /// Starts it on server 1 or 2. `/` says which one it is, and so does the header `X-Server` of every page.
    pub(crate) fn start(lab: &Lab, number: usize) -> Nginx {
        let root = lab.file(&format!("nginx{number}"));
        let pages = root.join("pages");
        fs::create_dir_all(&pages).unwrap();
        fs::write(pages.join("index.html"), format!("server {number}\n")).unwrap();
        fs::write(pages.join("large"), large()).unwrap();
        let (configuration, log) = (root.join("nginx.conf"), root.join("access.log"));
        fs::write(&configuration, config(&root.display().to_string(), number)).unwrap();
        let line = format!(
            "nginx -p {0} -c {1} -e {0}/error.log",
            root.display(),
            configuration.display()
        );
        let host = lab.server(number);
        let process = host.start(&line, &lab.file(&format!("nginx{number}.log")));
        let nginx = Nginx { process, root, log };
        until("nginx", PATIENCE, || nginx.listens(&host).then_some(()));
        nginx
    }

    fn listens(&self, host: &Host) -> bool {
        host.run("ss -Htln").contains(":8080")
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter_map(request).collect()
    }

    /// Makes a file another page: `/NAME`.
    pub(crate) fn publish(&self, file: &Path, name: &str) {
        fs::hard_link(file, self.root.join("pages").join(name)).unwrap();
    }

    /// What was sent to `/upload`, each in a file of its own.
    pub(crate) fn uploads(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.root.join("t1")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }

    /// Ends it at once, as a crash would: the kernel closes its connections.
    pub(crate) fn crash(mut self, host: &Host) {
        // The master first, or it would start its worker again.
        let worker = host.run(&format!("pgrep -P {}", self.process.id()));
        self.process.signal("KILL");
        self.process.end("nginx", PATIENCE);
        for pid in worker.split_whitespace() {
            host.run(&format!("kill -KILL {pid}"));
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Orderly, so that its worker goes as well; the reaper has the last word.
        if self.process.ended().is_none() {
            self.process.signal("TERM");
            self.process.end("nginx", PATIENCE);
        }
    }
}

/// The content of `/large`.
pub(crate) fn large() -> Vec<u8> {
    (0..LARGE).map(|n| (n % 251) as u8).collect()
}

fn request(line: &str) -> Option<Request> {
    let mut words = line.split_whitespace();
    Some(Request {
        client: words.next()?.to_owned(),
        port: words.next()?.parse().ok()?,
        status: words.next()?.parse().ok()?,
        connection: words.next()?.parse().ok()?,
    })
}

fn config(root: &str, number: usize) -> String {
    format!(
        "user root; daemon off; worker_processes 1; pid {root}/nginx.pid; error_log {root}/error.log;
        events {{ worker_connections 4096; }}
        http {{
            log_format who '$remote_addr $server_port $status $connection';
            access_log {root}/access.log who;
            client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
            uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
            server {{
                listen 8080; listen 80; listen 443;
                listen [::]:8080; listen [::]:80; listen [::]:443;
                root {root}/pages; add_header X-Server {number};
                location /large {{ limit_rate {RATE}; }}
                # The whole body is read before a page is asked for in its place.
                location /upload {{
                    client_max_body_size 0; client_body_in_file_only on;
                    proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length \"\";
                    proxy_pass http://127.0.0.1:8080/;
                }}
            }}
        }}\n"
    )
}
