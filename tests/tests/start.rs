//! What the program says and returns when it is not let start: 0 good, 2 bad configuration, 1 failure to start.
//! It opens no device that is there, so no test here needs a namespace.
// A test's helpers are tests as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "tidegate-start-{}-{}",
            std::process::id(),
            FOLDERS.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program() -> PathBuf {
    std::env::var_os("TIDEGATE_BIN").map_or_else(
        || {
            std::env::current_exe()
                .unwrap()
                .ancestors()
                .nth(2)
                .unwrap()
                .join("tidegate")
        },
        PathBuf::from,
    )
}

fn tidegate(arguments: &[&str], file: &Path) -> (Option<i32>, String) {
    said(
        Command::new(program())
            .args(arguments)
            .arg(file)
            .output()
            .expect("cargo build -p tidegate"),
    )
}

/// The exit code, and both outputs.
fn said(output: Output) -> (Option<i32>, String) {
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// One port on `device`, and nothing else.
fn yaml(folder: &Folder, device: &str) -> String {
    format!(
        "node: {{ hugepages: off, memory: 128, limits: {{ connections: 1000 }} }}\n\
         api: {{ socket: {}/api.sock }}\n\
         metrics: {{ listen: off }}\n\
         ports:\n  - {{ name: wan, device: \"{device}\", addresses: [203.0.113.2/24] }}\n",
        folder.0.display()
    )
}

#[test]
fn a_good_file_is_0() {
    let folder = Folder::new();
    let file = folder.file("good.yaml", &yaml(&folder, "net_null0"));
    let (code, text) = tidegate(&["check"], &file);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn every_error_of_a_bad_file_is_said_with_its_place_and_2() {
    let folder = Folder::new();
    let bad = yaml(&folder, "net_null0")
        .replace("addresses", "adresses")
        .replace("memory: 128", "memory: much");
    let file = folder.file("bad.yaml", &bad);
    for arguments in [&["check"][..], &["run", "--config"]] {
        let (code, text) = tidegate(arguments, &file);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        let place = |line: &str| text.contains(&format!("bad.yaml:{line}:"));
        assert!(place("1") && place("5"), "{text}");
        assert!(text.contains("addresses") && text.contains("much"), "{text}");
    }
}

#[test]
fn a_missing_file_is_said_by_name() {
    let (code, text) = tidegate(&["check"], Path::new("/nonexistent/tidegate.yaml"));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("/nonexistent/tidegate.yaml"), "{text}");
}

/// Asserts that it does not start on `device`, and says so naming the device and the port.
fn assert_no_start(device: &str, named: &str) {
    let folder = Folder::new();
    let file = folder.file("device.yaml", &yaml(&folder, device));
    let (code, text) = tidegate(&["run", "--config"], &file);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(named) && text.contains("wan"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn a_missing_interface_is_named_and_1() {
    assert_no_start("net_af_packet0,iface=tgnowhere", "tgnowhere");
}

#[test]
fn a_device_that_is_not_there_is_named_and_1() {
    assert_no_start("0000:7f:1f.7", "0000:7f:1f.7");
}

#[test]
fn a_driver_that_is_not_there_is_named_and_1() {
    assert_no_start("net_nosuchdriver0", "net_nosuchdriver0");
}

#[test]
fn without_permission_it_says_so_and_1() {
    let folder = Folder::new();
    let file = folder.file("permission.yaml", &yaml(&folder, "net_af_packet0,iface=lo"));
    let (copy, home) = (folder.0.join("tidegate"), folder.0.join("run"));
    // To where any user reaches it: a build folder may be private.
    fs::copy(program(), &copy).unwrap();
    fs::create_dir(&home).unwrap();
    let status = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(&folder.0)
        .status()
        .unwrap();
    assert!(status.success(), "this test needs root, to give root away");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&copy);
    command
        .args(["run", "--config"])
        .arg(&file)
        .env("XDG_RUNTIME_DIR", &home);
    let (code, text) = said(command.output().expect("setpriv (package util-linux)"));
    assert_eq!(code, Some(1), "{text}");
    let text = text.to_lowercase();
    assert!(
        text.contains("permi") || text.contains("root") || text.contains("cap_net_raw"),
        "{text}"
    );
}

#[test]
fn show_without_a_gateway_says_what_to_do_and_1() {
    let folder = Folder::new();
    let (code, text) = tidegate(&["show", "services", "--socket"], &folder.0.join("none.sock"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("none.sock") && text.contains("running"), "{text}");
}
