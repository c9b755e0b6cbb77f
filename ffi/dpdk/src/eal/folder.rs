//! The runtime folder of this process, `/var/run/dpdk/PREFIX`: taken before EAL starts, removed when it has ended.
//!
//! EAL itself guards the folder only where memory is shared between processes, which ours never is: two processes
//! of one prefix would start and take each other's telemetry socket away.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::options::Host;
use super::{EalError, EalOptions};

/// DPDK's telemetry socket.
pub(super) const TELEMETRY: &str = "dpdk_telemetry.v2";
/// Locked as long as the process lives; holds its id.
const OWNER: &str = "owner";
/// How often a lock file may vanish between opening and locking it: once for each process that ends meanwhile.
const ATTEMPTS: u32 = 8;

/// The folder, held by its lock.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Folder {
    /// Takes the folder of `prefix`, and removes those that dead processes of this program have left. None when it
    /// cannot be made: then EAL will say why.
    ///
    /// # Errors
    /// [`EalError::PrefixInUse`] when a living process has it.
    pub(super) fn take(program: &str, prefix: &str) -> Result<Option<Folder>, EalError> {
        let base = base();
        remove_stale(&base, program);
        let path = base.join(prefix);
        for _ in 0..ATTEMPTS {
            // As EAL makes it; it takes what is there.
            if fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)
                .is_err()
            {
                return Ok(None);
            }
            match lock(&path.join(OWNER)) {
                Ok(Some(lock)) => return Ok(Some(Folder { path, _lock: lock })),
                Ok(None) => {}
                Err(Errno::EWOULDBLOCK) => {
                    return Err(EalError::PrefixInUse {
                        prefix: prefix.to_owned(),
                        owner: fs::read_to_string(path.join(OWNER)).unwrap_or_default(),
                    });
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }
}

impl Drop for Folder {
    /// DPDK leaves its folder behind, and removes its socket when the process ends, too late for the folder.
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Where EAL puts the folders of all processes.
fn base() -> PathBuf {
    let parent = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    let parent = parent.unwrap_or_else(|| {
        if nix::unistd::getuid().is_root() {
            return PathBuf::from("/var/run");
        }
        std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
    });
    parent.join("dpdk")
}

/// Makes and locks the file at `path`, and writes our id into it. None when it was removed meanwhile.
fn lock(path: &Path) -> Result<Option<Flock<File>>, Errno> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
    let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)?;
    let same = match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => ours.ino() == there.ino(),
        _ => false,
    };
    if !same {
        return Ok(None);
    }
    // The id is for the message of whoever finds the lock taken; the lock itself does without.
    let _ = file.set_len(0);
    let _ = write!(file, "{}", std::process::id());
    Ok(Some(file))
}

/// Removes folders `PROGRAM-*` whose process has died, as one that was killed, or had no right to clean up.
fn remove_stale(base: &Path, program: &str) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let owner = path.join(OWNER);
        let number = name.strip_prefix(program).and_then(|rest| rest.strip_prefix('-'));
        // Only what the default prefix makes, and only with our lock file in it.
        if !number.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())) || !owner.exists() {
            continue;
        }
        if let Ok(Some(_held)) = lock(&owner) {
            remove(&path);
        }
    }
}

/// Removes what a process of ours has in its folder, the lock last.
fn remove(folder: &Path) {
    let _ = fs::remove_file(folder.join(TELEMETRY));
    let _ = fs::remove_file(folder.join(OWNER));
    // Not empty: someone else uses it.
    let _ = fs::remove_dir(folder);
}

impl EalOptions {
    /// What a process started with these options removes when DPDK ends, the folder last: for one that gives up
    /// the right to do so, and leaves it to another.
    #[must_use]
    pub fn runtime_files(&self) -> Vec<PathBuf> {
        let folder = base().join(self.prefix(&Host::read()));
        vec![folder.join(TELEMETRY), folder.join(OWNER), folder]
    }
}

impl EalError {
    /// The id in an `owner` file, for a message.
    pub(super) fn owner_text(owner: &str) -> String {
        let mut digits = String::new();
        let _ = owner.as_bytes().take(20).read_to_string(&mut digits);
        match digits.trim().parse::<u32>() {
            Ok(pid) => format!("process {pid}"),
            Err(_) => "another process".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_and_names_its_owner() {
        let folder = std::env::temp_dir().join(format!("tidegate-folder-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join(OWNER);
        let held = lock(&path).unwrap().unwrap();
        assert_eq!(lock(&path).unwrap_err(), Errno::EWOULDBLOCK);
        assert_eq!(fs::read_to_string(&path).unwrap(), std::process::id().to_string());
        remove(&folder);
        assert!(!folder.exists());
        drop(held);
    }

    #[test]
    fn only_folders_of_the_dead_are_stale() {
        let base = std::env::temp_dir().join(format!("tidegate-stale-{}", std::process::id()));
        let make = |name: &str| {
            fs::create_dir_all(base.join(name)).unwrap();
            base.join(name).join(OWNER)
        };
        let held = lock(&make("prog-1")).unwrap().unwrap();
        for owner in [make("prog-2"), make("prog-x"), make("other-3")] {
            fs::write(owner, "2").unwrap();
        }
        fs::create_dir_all(base.join("prog-4")).unwrap();
        remove_stale(&base, "prog");
        let mut left: Vec<_> = fs::read_dir(&base)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["other-3", "prog-1", "prog-4", "prog-x"]);
        drop(held);
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn the_owner_is_named_only_by_its_id() {
        assert_eq!(EalError::owner_text("42\n"), "process 42");
        assert_eq!(EalError::owner_text("nonsense"), "another process");
    }
}
