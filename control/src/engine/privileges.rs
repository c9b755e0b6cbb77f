//! Becoming another user once ports and sockets are open. Everything that takes a privilege happens before; what
//! is left to do afterwards is to move packets, read the configuration again and answer the API.

use crate::config::{Config, Device, Port};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::unistd::{User, geteuid, getgrouplist, getgroups, setgroups, setresgid, setresuid};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Software ports that move packets without any privilege, once they are open. Not `net_af_xdp`: what it attached to
/// its interface could not be detached at the end. Nor drivers of the operator's own, of which nothing is known.
const NEED_NOTHING: [&str; 6] = [
    "net_af_packet",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_tap",
];

/// The user to become; none to stay who we are.
///
/// # Errors
/// There is no such user, or this process may not become it.
pub(super) fn target(config: &Config) -> Result<Option<User>> {
    let place = || format!("{}:{}: node.user", config.file, config.node.place);
    let Some(name) = &config.node.user else {
        let nobody = geteuid().is_root() && config.ports.iter().filter_map(Port::device).all(needs_nothing);
        // A system without this user has nobody to become.
        return Ok(nobody.then(|| User::from_name("nobody").ok().flatten()).flatten());
    };
    let found = User::from_name(name)
        .map_err(io::Error::from)
        .with_context(place)?;
    let Some(user) = found else {
        bail!(
            "{}: there is no user `{name}`; create it (useradd -r {name}) or name another",
            place()
        );
    };
    if user.uid == geteuid() {
        return Ok(None);
    }
    if !geteuid().is_root() {
        bail!(
            "{}: only root can become `{name}`; start the gateway as root, or as `{name}` without this key",
            place()
        );
    }
    Ok(Some(user))
}

fn needs_nothing(device: &Device) -> bool {
    match device {
        // A bond moves its MAC address to the member that sends.
        Device::Pci(_) | Device::Bond(_) => false,
        Device::Vdev(argument) => {
            let driver = argument.split(',').next().unwrap_or_default();
            NEED_NOTHING.contains(&driver.trim_end_matches(|c: char| c.is_ascii_digit()))
        }
    }
}

/// Becomes `user` in all threads, for good, and says so in the log. `file` is the configuration file, which a
/// reload will want to read.
///
/// # Errors
/// The kernel refuses, or a thread has kept its rights.
pub(super) fn become_user(user: &User, file: &Path) -> Result<()> {
    let name = &user.name;
    let refused =
        |what: &'static str| move |errno: Errno| anyhow::anyhow!("cannot become {name}: {what}: {errno}");
    let text = CString::new(name.as_str()).context("a user's name with a zero byte")?;
    let groups = getgrouplist(&text, user.gid).map_err(refused("groups"))?;
    setgroups(&groups).map_err(refused("groups"))?;
    setresgid(user.gid, user.gid, user.gid).map_err(refused("group"))?;
    // Last, as it takes the right to do the others. The C library has every thread do it, DPDK's own ones too.
    setresuid(user.uid, user.uid, user.uid).map_err(refused("user"))?;
    verify(user)?;
    let groups = getgroups().map_or(0, |groups| groups.len());
    tracing::info!(
        user = name,
        uid = user.uid.as_raw(),
        gid = user.gid.as_raw(),
        groups,
        "root is given up"
    );
    if let Some(obstacle) = obstacle(file) {
        tracing::warn!(
            "a reload will fail: user {name} {obstacle}; let it (setfacl -m u:{name}:rX, or move the file to \
             /etc/tidegate), or write node.user: root"
        );
    }
    Ok(())
}

/// Every thread has become that user and has no capability left.
fn verify(user: &User) -> Result<()> {
    let uid = user.uid.to_string();
    for thread in fs::read_dir("/proc/self/task")
        .context("cannot list threads")?
        .flatten()
    {
        // A thread that has ended meanwhile has no rights either.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else {
            continue;
        };
        if !has_become(&status, &uid) {
            bail!("thread {:?} has kept its privileges", thread.file_name());
        }
    }
    Ok(())
}

fn has_become(status: &str, uid: &str) -> bool {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default()
    };
    let ids = field("Uid:").split_whitespace();
    let none = |name: &str| field(name).trim().bytes().all(|digit| digit == b'0');
    // Real, effective, saved, and that of file systems.
    ids.clone().count() == 4 && { ids }.all(|id| id == uid) && none("CapPrm:") && none("CapEff:")
}

/// What keeps this process from reading `file`: `may not enter FOLDER`, `may not read FILE`.
fn obstacle(file: &Path) -> Option<String> {
    let error = File::open(file).err()?;
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Some(format!("cannot read {}: {error}", file.display()));
    }
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    // The outermost folder in which nothing can be seen is the one that is in the way.
    let mut folders: Vec<&Path> = path.ancestors().skip(1).collect();
    folders.reverse();
    let closed = folders.windows(2).find(|pair| {
        fs::metadata(pair[1]).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    });
    let closed = closed.map(|pair| pair[0]).or_else(|| {
        let parent = path.parent()?;
        fs::metadata(&path).is_err().then_some(parent)
    });
    Some(match closed {
        Some(folder) => format!("may not enter {}", folder.display()),
        None => format!("may not read {}", file.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(user: &str, devices: &[&str]) -> Config {
        let ports: String = devices
            .iter()
            .enumerate()
            .map(|(n, device)| format!("  - {{ name: p{n}, device: \"{device}\" }}\n"))
            .collect();
        let text = format!("node: {{ {user}drivers: [/x.so] }}\nports:\n{ports}");
        crate::config::parse("gw.yaml", &text).unwrap()
    }

    #[test]
    fn only_known_software_ports_do_without_root() {
        let stays = |devices: &[&str]| target(&config("", devices)).unwrap().is_none();
        if geteuid().is_root() {
            assert!(!stays(&[
                "net_af_packet0,iface=wan0",
                "net_tap1",
                "net_null12",
                "net_memif"
            ]));
        }
        assert!(stays(&["net_null0", "0000:03:00.0"]));
        assert!(stays(&["net_af_xdp0,iface=wan0"]));
        assert!(stays(&["net_nullish0"]));
    }

    #[test]
    fn an_unknown_user_is_refused_with_its_place() {
        let error = target(&config("user: tg-absent, ", &["net_null0"]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("gw.yaml:1:7: node.user: there is no user `tg-absent`;"),
            "{error}"
        );
        let own = User::from_uid(geteuid()).unwrap().unwrap().name;
        assert!(
            target(&config(&format!("user: {own}, "), &["net_null0"]))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_thread_has_become_another_only_in_every_respect() {
        let status =
            |uid: &str, caps: &str| format!("Name:\tx\nUid:\t{uid}\nCapPrm:\t{caps}\nCapEff:\t0000\n");
        assert!(has_become(&status("7\t7\t7\t7", "0000"), "7"));
        assert!(!has_become(&status("7\t7\t0\t7", "0000"), "7"));
        assert!(!has_become(&status("7\t7\t7\t7", "0400"), "7"));
        assert!(!has_become("", "7"));
    }

    #[test]
    fn a_file_that_is_gone_is_an_obstacle_too() {
        let text = obstacle(Path::new("/nonexistent/gw.yaml")).unwrap();
        assert!(
            text.starts_with("cannot read /nonexistent/gw.yaml: No such file"),
            "{text}"
        );
        assert_eq!(obstacle(Path::new("/dev/null")), None);
    }
}
