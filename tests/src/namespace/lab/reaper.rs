//! Removes a lab however its test ends. A small shell, in a session of its own so that Ctrl-C does not reach it,
//! reads a pipe whose other end only the test holds: at its end the test is done, panicked or was killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends what runs in the namespaces, by process id, then removes them and the folder.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
id=$1 folder=$2
shift 2
for host; do
    [ -e "/run/netns/$id-$host" ] || continue
    for pid in $(ip netns pids "$id-$host"); do kill -KILL "$pid" 2>/dev/null; done
done
for host; do
    ip netns del "$id-$host" 2>/dev/null
done
rm -rf "$folder"
"#;

/// The shell that waits for this to go away.
pub(super) struct Reaper(Child);

impl Reaper {
    /// Watches over the namespaces `ID-HOST` and the folder, which need not be there yet.
    pub(super) fn start(id: &str, hosts: &[&str], folder: &Path) -> Reaper {
        let child = Command::new("setsid")
            .args(["--wait", "sh", "-c", SCRIPT, "reaper", id])
            .arg(folder)
            .args(hosts)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("setsid (package util-linux)");
        Reaper(child)
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
