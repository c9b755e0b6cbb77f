//! Removes sockets and folders for a gateway that has given up the right to do so. A shell, started while the
//! process is still root, waits on a pipe: one line says that the gateway has ended in order, the pipe's end alone
//! that it died, and then the next start cleans up. What it may remove is fixed at its start, so that whoever takes
//! over the gateway's process gains nothing by it.

use anyhow::{Context, Result};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Signals meant for the whole group end the gateway first.
const SCRIPT: &str = r#"trap "" INT TERM HUP
read -r word || exit 0
for path; do rm -f -- "$path" 2>/dev/null || rmdir -- "$path" 2>/dev/null; done"#;

/// The waiting shell.
pub(super) struct Cleaner(Child);

impl Cleaner {
    /// Starts the shell, to remove `paths` in this order, folders only when they are empty.
    ///
    /// # Errors
    /// There is no shell, or no process left.
    pub(super) fn start(paths: &[PathBuf]) -> Result<Cleaner> {
        let child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "tidegate-cleaner"])
            .args(paths)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        child.map(Cleaner).context("/bin/sh does not start")
    }

    /// Has everything removed, and waits for that.
    pub(super) fn clean(self) {
        let Cleaner(mut child) = self;
        if let Some(mut pipe) = child.stdin.take() {
            // When the shell is gone there is nobody to tell: the next start cleans up.
            let _ = pipe.write_all(b"clean\n");
        }
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn removes_what_it_was_told_at_its_start_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("tidegate-cleaner-{}", std::process::id()));
        let (file, odd, other) = (folder.join("a"), folder.join("-f b"), folder.join("c"));
        fs::create_dir(&folder).unwrap();
        for path in [&file, &odd, &other] {
            fs::write(path, "").unwrap();
        }
        let paths = [file.clone(), odd.clone(), folder.join("absent"), folder.clone()];
        Cleaner::start(&paths).unwrap().clean();
        assert!(!file.exists() && !odd.exists() && other.exists());
        // A gateway that dies says nothing.
        let mut cleaner = Cleaner::start(std::slice::from_ref(&other)).unwrap();
        drop(cleaner.0.stdin.take());
        cleaner.0.wait().unwrap();
        assert!(other.exists());
        Cleaner::start(&[other, folder.clone()]).unwrap().clean();
        assert!(!folder.exists());
    }
}
