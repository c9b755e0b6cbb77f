//! The API's UNIX socket as a file: where it lies, who may use it, what is left of a dead process's.

use crate::config::Api;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use thiserror::Error;

/// How long somebody who listens may take to accept a connection before he counts as alive but busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why an endpoint cannot be bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// Another process answers there.
    #[error("another gateway answers on {}; stop it, or give this one another api.socket", .0.display())]
    Live(PathBuf),
    /// Something else lies there.
    #[error("{} exists and is no socket; remove it, or choose another api.socket", .0.display())]
    NotSocket(PathBuf),
    /// There is no such group.
    #[error("there is no group {0} on this machine; create it (groupadd {0}), or change api.group")]
    NoGroup(String),
    /// A step failed.
    #[error("cannot {step} {}: {reason}; {}", .path.display(), remedy(.reason))]
    Step {
        /// What was tried.
        step: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The metrics address.
    #[error("cannot listen on {address} for metrics: {reason}; change metrics.listen")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        reason: io::Error,
    },
    /// The sockets are bound but cannot be watched.
    #[error("cannot watch the API's sockets: {reason}")]
    Watch {
        /// What the system said.
        reason: io::Error,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run as root, or choose another api.socket",
        io::ErrorKind::InvalidInput => "choose a shorter api.socket (the system allows 107 bytes)",
        _ => "choose another api.socket",
    }
}

/// A bound socket; its file goes with it.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl Socket {
    /// Binds the socket. Nobody meets it before it has its mode and group: it is made under another name, and
    /// renamed.
    pub(super) fn bind(api: &Api) -> Result<Socket, BindError> {
        let path = &api.socket;
        make_directory(path)?;
        check_vacant(path)?;
        let group = api.group.as_deref().map(group_id).transpose()?;
        let mut new = path.clone().into_os_string();
        new.push(format!(".{}", std::process::id()));
        let new = PathBuf::from(new);
        let _ = fs::remove_file(&new);
        let listener = UnixListener::bind(&new).map_err(step("bind", path))?;
        let inode = finish(&listener, &new, path, api.mode, group).inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })?;
        Ok(Socket {
            listener,
            path: path.clone(),
            inode,
        })
    }

    /// The listener, for the runtime of the caller.
    pub(super) fn listener(&self) -> io::Result<tokio::net::UnixListener> {
        tokio::net::UnixListener::from_std(self.listener.try_clone()?)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Somebody may have started in our place meanwhile.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // Without the rights that the start had, it stays, and the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives the socket that was made as `new` its permissions and then its name; its inode.
fn finish(
    listener: &UnixListener,
    new: &Path,
    path: &Path,
    mode: u32,
    group: Option<u32>,
) -> Result<u64, BindError> {
    listener.set_nonblocking(true).map_err(step("bind", path))?;
    chown(new, None, group).map_err(step("set the group of", path))?;
    fs::set_permissions(new, fs::Permissions::from_mode(mode)).map_err(step("set the mode of", path))?;
    let inode = fs::symlink_metadata(new).map_err(step("bind", path))?.ino();
    fs::rename(new, path).map_err(step("bind", path))?;
    Ok(inode)
}

fn step(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BindError {
    let path = path.to_owned();
    move |reason| BindError::Step { step, path, reason }
}

/// Makes the socket's directory, which everybody may enter: the socket's own mode says who may use it.
fn make_directory(path: &Path) -> Result<(), BindError> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
            let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(parent);
            made.map_err(step("create the directory of", path))
        }
        _ => Ok(()),
    }
}

/// Whether the place is free: nothing is there, or the socket of a process that is gone.
fn check_vacant(path: &Path) -> Result<(), BindError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(step("look at", path)(error)),
        Ok(found) if !found.file_type().is_socket() => return Err(BindError::NotSocket(path.to_owned())),
        Ok(_) => {}
    }
    // A connection to a process whose queue is full waits for as long as it pleases.
    let (tell, answer) = mpsc::channel();
    let asked = path.to_owned();
    std::thread::spawn(move || {
        let _ = tell.send(UnixStream::connect(asked));
    });
    match answer.recv_timeout(PATIENCE) {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Ok(Err(error)) => Err(step("ask who listens on", path)(error)),
        Ok(Ok(_)) | Err(_) => Err(BindError::Live(path.to_owned())),
    }
}

fn group_id(name: &str) -> Result<u32, BindError> {
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(BindError::NoGroup(name.to_owned())),
    }
}

/// Binds the metrics address.
pub(super) fn bind_metrics(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|reason| BindError::Metrics { address, reason })
}
