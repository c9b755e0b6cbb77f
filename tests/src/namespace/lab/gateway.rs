//! The gateway under test: the real program, seen only through its command line, API, metrics and log.

use super::several::as_told;
use super::wait::{PATIENCE, until};
use super::{DR, FULLNAT, Host, Lab, Process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `tidegate run` in the lab's gateway namespace.
pub(crate) struct Gateway {
    process: Process,
    host: Host,
    file: PathBuf,
    socket: PathBuf,
}

/// The program: `TIDEGATE_BIN`, or the one that cargo built beside this test.
fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("TIDEGATE_BIN") {
        return named.into();
    }
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("tidegate");
    assert!(
        built.exists(),
        "no {}: run `cargo build -p tidegate` first",
        built.display()
    );
    built
}

/// A number that must be there.
pub(crate) fn number(row: &Value, key: &str) -> u64 {
    row[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no number `{key}` in {row}"))
}

impl Gateway {
    /// The usual services: FULLNAT with weights 2 and 1, DR with the same, DNS over UDP.
    pub(crate) fn usual() -> String {
        format!(
            r#"
node:
  name: test
  workers: auto
  hugepages: off
  memory: 256
  idle: sleep
  limits: {{ connections: 100_000, services: 64, servers: 256, neighbours: 256 }}
metrics: {{ listen: "127.0.0.1:9101" }}
ports:
  - {{ name: wan, device: "net_af_packet0,iface=wan0", addresses: [203.0.113.2/24] }}
  - {{ name: lan, device: "net_af_packet1,iface=lan0", addresses: [10.0.0.1/24] }}
routes:
  - {{ to: default, via: 203.0.113.1 }}
local_addresses:
  - {{ name: dip, port: lan, addresses: [10.0.0.200-10.0.0.203] }}
pools:
  - name: web
    servers:
      - {{ address: 10.0.0.11, port: 8080, weight: 2 }}
      - {{ address: 10.0.0.12, port: 8080 }}
  - name: direct
    servers:
      - {{ address: 10.0.0.11, weight: 2 }}
      - {{ address: 10.0.0.12 }}
  - name: names
    servers:
      - {{ address: 10.0.0.11 }}
      - {{ address: 10.0.0.12 }}
services:
  - {{ name: web, listen: "{FULLNAT}:80/tcp", pool: web, mode: fullnat, scheduler: wrr, local_addresses: dip }}
  - {{ name: web-direct, listen: "{DR}:80/tcp", pool: direct, mode: dr, scheduler: wrr }}
  - {{ name: dns, listen: "{FULLNAT}:53/udp", pool: names, mode: fullnat, scheduler: rr, local_addresses: dip }}
"#
        )
    }

    /// Starts it with a configuration, and waits until it answers.
    pub(crate) fn start(lab: &Lab, yaml: &str) -> Gateway {
        Gateway::start_with(lab, yaml, &[])
    }

    /// As [`Gateway::start`], with these environment variables more.
    pub(crate) fn start_with(lab: &Lab, yaml: &str, environment: &[(&str, &Path)]) -> Gateway {
        Gateway::launch(lab, "gateway", yaml, environment).answering()
    }

    /// As [`Gateway::start`], on another host than `gateway`.
    pub(crate) fn start_on(lab: &Lab, host: &str, yaml: &str) -> Gateway {
        Gateway::launch(lab, host, yaml, &[]).answering()
    }

    /// Starts it with a configuration with which it will not run.
    pub(crate) fn failing(lab: &Lab, yaml: &str) -> Gateway {
        Gateway::launch(lab, "gateway", yaml, &[])
    }

    /// Waits for the end of one that does not run, and asserts that it says so; what it has logged.
    pub(crate) fn ended(&mut self) -> String {
        let status = self.process.end("a gateway that cannot run", PATIENCE);
        assert!(!status.success(), "{}", self.log());
        self.log()
    }

    /// Waits until it answers.
    fn answering(mut self) -> Gateway {
        let gateway = &mut self;
        until("the gateway's API", PATIENCE, || {
            if let Some(status) = gateway.process.ended() {
                panic!("the gateway did not start: {status}\n{}", gateway.log());
            }
            gateway
                .command(&["show", "workers", "--json"])
                .output()
                .unwrap()
                .status
                .success()
                .then_some(())
        });
        self
    }

    /// Starts it with a configuration, and does not wait.
    fn launch(lab: &Lab, name: &str, yaml: &str, environment: &[(&str, &Path)]) -> Gateway {
        let (file, socket) = (
            lab.file(&format!("{name}.yaml")),
            lab.file(&format!("{name}.sock")),
        );
        let host = lab.host(name);
        let mut command = host.command(program());
        command.args(["run", "--config"]).arg(&file);
        command.envs(environment.iter().copied());
        let yaml = format!("api: {{ socket: {} }}\n{}", socket.display(), as_told(yaml));
        fs::write(&file, yaml).unwrap();
        let process = Process::start(command, &lab.file(&format!("{name}.log")));
        Gateway {
            process,
            host,
            file,
            socket,
        }
    }

    /// The program with arguments, talking to this gateway.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).arg("--socket").arg(&self.socket);
        command
    }

    /// `tidegate show VIEW --json`.
    pub(crate) fn show(&self, view: &str) -> Value {
        self.show_by(&["show", view, "--json"])
    }

    /// What `tidegate show local-addresses --servers` says of one group: a row for each local address, as `local`, and
    /// server.
    pub(crate) fn local_servers(&self, group: &str) -> Vec<Value> {
        let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
        let groups = self.show_by(&["show", "local-addresses", "--servers", "--json"]);
        let groups = groups.as_array().unwrap().iter();
        let addresses = groups
            .filter(|one| one["name"] == group)
            .flat_map(|one| list(one, "addresses"));
        let rows = addresses.flat_map(|address| {
            let mut servers = list(&address, "servers");
            for server in &mut servers {
                server["local"] = address["address"].clone();
            }
            servers
        });
        rows.collect()
    }

    /// All connections, and templates.
    pub(crate) fn connections(&self) -> Vec<Value> {
        let output = self.command(&["show", "connections", "--json"]).output().unwrap();
        assert!(output.status.success(), "show connections: {}", self.log());
        let text = String::from_utf8(output.stdout).unwrap();
        // One connection a line, since they may be millions.
        let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
        rows.collect()
    }

    /// The states of all connections.
    pub(crate) fn states(&self) -> Vec<String> {
        let rows = self.connections();
        rows.iter()
            .map(|row| row["state"].as_str().unwrap().to_owned())
            .collect()
    }

    fn show_by(&self, arguments: &[&str]) -> Value {
        let view = arguments[1];
        let output = self.command(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "show {view}: {message}\n{}", self.log());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The rows of a view.
    pub(crate) fn rows(&self, view: &str) -> Vec<Value> {
        self.show(view)
            .as_array()
            .unwrap_or_else(|| panic!("show {view}: not a list"))
            .clone()
    }

    /// The row of a view whose `name` is this.
    pub(crate) fn named(&self, view: &str, name: &str) -> Value {
        let rows = self.rows(view);
        let row = rows.iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("show {view}: no {name}")).clone()
    }

    /// How many packets were dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let rows = self.rows("drops");
        rows.iter()
            .find(|row| row["reason"] == reason)
            .map_or(0, |row| number(row, "total"))
    }

    /// What Prometheus would read.
    pub(crate) fn metrics(&self) -> String {
        self.host
            .run("curl -sS --fail --max-time 10 http://127.0.0.1:9101/metrics")
    }

    /// What `tidegate server-setup` prints for a server of a service.
    pub(crate) fn server_setup(&self, service: &str, server: &str, undo: bool) -> String {
        let mut command = Command::new(program());
        command.args([
            "server-setup",
            "--service",
            service,
            "--server",
            server,
            "--config",
        ]);
        command.arg(&self.file);
        if undo {
            command.arg("--undo");
        }
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "server-setup {service} {server}: {message}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes another configuration in the place of the first.
    pub(crate) fn write(&self, yaml: &str) {
        fs::write(
            &self.file,
            format!("api: {{ socket: {} }}\n{}", self.socket.display(), as_told(yaml)),
        )
        .unwrap();
    }

    /// Puts another configuration into force.
    pub(crate) fn load(&self, yaml: &str) {
        self.write(yaml);
        let output = self.reload();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{message}");
    }

    /// `tidegate reload`.
    pub(crate) fn reload(&self) -> Output {
        self.command(&["reload"]).output().unwrap()
    }

    /// A command that changes something; what it prints.
    pub(crate) fn operate(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{arguments:?}: {message}\n{}",
            self.log()
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// The number of the configuration in force.
    pub(crate) fn epoch(&self) -> u64 {
        number(&self.show("status"), "epoch")
    }

    /// Sends it a signal by its name, such as `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.process.output()
    }

    /// Whether every packet is accounted for. Between two readings of a running worker's counters it need not
    /// seem so; when the traffic has ended it must.
    fn conserved(&self) -> bool {
        self.rows("workers").iter().all(|row| {
            let of = |key| number(row, key);
            of("received") + of("taken_over") + of("made")
                == of("sent") + of("handed_over") + of("dropped") + of("consumed") + of("held")
        })
    }

    /// Ends it as a crash would.
    pub(crate) fn crash(mut self) {
        self.process.signal("KILL");
        self.process.end("the gateway", PATIENCE);
    }

    /// Asserts that every packet is accounted for, that the gateway ends in order when told, and that nothing in it
    /// has panicked. Each test calls it at its end.
    pub(crate) fn finish(mut self) {
        until("conservation of packets", PATIENCE, || {
            self.conserved().then_some(())
        });
        self.process.signal("TERM");
        let status = self.process.end("the gateway", PATIENCE);
        let log = self.log();
        assert!(status.success(), "the gateway ended with {status}\n{log}");
        assert!(!log.contains("panicked"), "{log}");
        assert!(!self.socket.exists(), "the socket was left behind");
    }
}
