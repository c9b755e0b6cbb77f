//! A gateway process of a test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
/// How long anything may take before the test fails: much longer than on any machine that works.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gateways that poll share one CPU, so they run one after another.
static ALONE: Mutex<()> = Mutex::new(());

/// A folder that another user may enter.
pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A configuration of small tables, its API socket in `folder` and nothing on TCP. `node` are more keys of that
/// section; `rest` is everything after it.
pub(crate) fn config(folder: &Path, node: &str, rest: &str) -> PathBuf {
    let text = format!(
        "node:\n  memory: 128\n  limits: {{ connections: 5000, services: 16, servers: 64, neighbours: 64 }}\n{node}\napi: {{ \
         socket: {} }}\nmetrics: {{ listen: off }}\n{rest}\n",
        socket_in(folder).display()
    );
    let path = folder.join("gw.yaml");
    fs::write(&path, text).unwrap();
    path
}

fn socket_in(folder: &Path) -> PathBuf {
    folder.join("api.sock")
}

/// One port, with an address.
pub(crate) fn port(device: &str) -> String {
    format!("ports:\n  - {{ name: a, device: \"{device}\", addresses: [192.0.2.1/24] }}")
}

pub(crate) const NO_HUGE: &str = "  hugepages: off";

/// A running gateway; killed when a test fails.
pub(crate) struct Gateway {
    child: Child,
    lines: Receiver<String>,
    /// What it has logged so far.
    pub(crate) log: String,
    socket: PathBuf,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Gateway {
    /// Starts it and waits until it runs.
    pub(crate) fn start(config: &Path) -> Gateway {
        Gateway::start_by(&[], config)
    }

    /// Starts it by another program, such as `ip netns exec NAME`.
    pub(crate) fn start_by(by: &[&str], config: &Path) -> Gateway {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gateway = Gateway::spawn(by, config);
        gateway._alone = Some(alone);
        gateway.wait_for("the gateway runs");
        gateway
    }

    fn spawn(by: &[&str], config: &Path) -> Gateway {
        let words: Vec<&str> = by.iter().copied().chain([PROGRAM]).collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .args(["run", "--log-format", "text", "--config"])
            .arg(config)
            .env("TIDEGATE_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|len| len > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    break;
                }
            }
        });
        Gateway {
            child,
            lines,
            log: String::new(),
            socket: socket_in(config.parent().unwrap()),
            _alone: None,
        }
    }

    /// Starts what must not start; its exit code and what it said last.
    pub(crate) fn fail(config: &Path) -> (i32, String) {
        let mut gateway = Gateway::spawn(&[], config);
        let code = gateway.exit_code();
        let last = gateway.log.lines().last().unwrap_or_default().to_owned();
        (code, last)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line that holds `text`; the whole line.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self
                .lines
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(line) => {
                    self.log.push_str(&line);
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("no line with `{text}` in:\n{}", self.log),
            }
        }
    }

    /// Waits until `test` holds.
    pub(crate) fn until(&mut self, what: &str, mut test: impl FnMut(&Gateway) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !test(self) {
            assert!(
                Instant::now() < deadline,
                "{what} did not come about:\n{}",
                self.log
            );
            // A pause that the gateway's own words end.
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => self.log.push_str(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("it ended:\n{}", self.log),
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    fn exit_code(&mut self) -> i32 {
        // The pipe ends with the process.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.log.push_str(&line);
        }
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Ends it in order: exit code 0, and nothing is left behind.
    pub(crate) fn end(mut self) -> String {
        let folder = self.runtime_folder();
        assert!(folder.exists());
        self.signal("TERM");
        assert_eq!(self.exit_code(), 0, "{}", self.log);
        assert!(!folder.exists() && !self.socket.exists(), "{}", self.log);
        std::mem::take(&mut self.log)
    }

    /// DPDK's folder of this process, with the default prefix.
    pub(crate) fn runtime_folder(&self) -> PathBuf {
        let base = if is_root() { "/var/run" } else { "/tmp" };
        Path::new(base).join(format!("dpdk/tidegate-{}", self.pid()))
    }

    /// What `tidegate show WHAT --json` prints.
    pub(crate) fn show(&self, what: &str) -> serde_json::Value {
        let output = Command::new(PROGRAM)
            .args(["show", what, "--json", "--socket"])
            .arg(&self.socket)
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{what}: {output:?}\n{}", self.log))
    }

    /// What DPDK's telemetry answers.
    pub(crate) fn telemetry(&self, command: &str) -> serde_json::Value {
        let fd = socket(
            AddressFamily::Unix,
            SockType::SeqPacket,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        let path = self.runtime_folder().join("dpdk_telemetry.v2");
        connect(fd.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        let mut stream = fs::File::from(fd);
        let mut answer = vec![0; 16384];
        // A greeting comes first.
        let _ = stream.read(&mut answer).unwrap();
        stream.write_all(command.as_bytes()).unwrap();
        let len = stream.read(&mut answer).unwrap();
        serde_json::from_slice(&answer[..len]).unwrap()
    }

    /// Packets that the device of this number has received and sent, by its own count.
    pub(crate) fn packets(&self, device: usize) -> (u64, u64) {
        let answer = self.telemetry(&format!("/ethdev/stats,{device}"));
        let count = |key: &str| answer["/ethdev/stats"][key].as_u64().unwrap();
        (count("ipackets"), count("opackets"))
    }

    /// The thread of the worker.
    pub(crate) fn worker(&self) -> u32 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let mut found = tasks.filter_map(|task| {
            let path = task.unwrap().path();
            let name = fs::read_to_string(path.join("comm")).ok()?;
            let id = path.file_name()?.to_str()?.parse().ok()?;
            (name.trim() == "worker0").then_some(id)
        });
        found.next().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Skips a test that only root can do, and says so.
macro_rules! root_only {
    () => {
        if !crate::gateway::is_root() {
            eprintln!("skipped: needs root");
            return;
        }
    };
}
pub(crate) use root_only;
