//! The process that changes addresses of the kernel for a gateway that has given up the right to do so:
//! `tidegate kernel-addresses`, started while the gateway is still root, takes orders on its standard input, one a
//! line, and answers each with a line. What it may do is fixed at its start: host addresses of `lo`, marked as a
//! gateway's, and any address of the devices that it is named. Whatever has become of the gateway, the addresses of `lo`
//! are gone with it; those that an earlier helper has left behind are removed first.

use super::addresses;
use crate::config::Config;
use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{SigSet, Signal};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

/// The subcommand.
pub(crate) const COMMAND: &str = "kernel-addresses";
/// The device of addresses that announce VIPs.
pub(super) const LOOPBACK: &str = "lo";

/// The gateway's end.
pub(in super::super) struct Helper {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts the process.
    ///
    /// # Errors
    /// It does not start, or may not remove what an earlier one has left behind.
    pub(super) fn start(config: &Config) -> Result<Helper> {
        let devices = config.ports.iter().filter_map(|port| port.exception.as_ref());
        let mut child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .args(devices.map(|own| &own.device))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the helper that changes the kernel's addresses does not start")?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().context("the helper has no output")?;
        let mut helper = Helper {
            child,
            orders,
            answers: BufReader::new(answers),
        };
        helper
            .hear()
            .context("addresses that an earlier gateway has left on `lo`")?;
        Ok(helper)
    }

    /// Gives a device an address, or takes it.
    ///
    /// # Errors
    /// What the kernel says, or that the helper is gone.
    pub(super) fn change(&mut self, add: bool, device: &str, (address, length): (IpAddr, u8)) -> Result<()> {
        let verb = if add { '+' } else { '-' };
        let orders = self.orders.as_mut().context("the helper has been ended")?;
        writeln!(orders, "{verb} {device} {address} {length}").context("the helper is gone")?;
        self.hear()
    }

    fn hear(&mut self) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim_end() {
            "ok" => Ok(()),
            "" => bail!("the helper is gone"),
            error => Err(anyhow!("{error}")),
        }
    }

    /// Has everything on `lo` removed, and waits for that.
    pub(super) fn end(mut self) {
        drop(self.orders.take());
        let _ = self.child.wait();
    }
}

/// The process itself: `devices` are those whose addresses may be changed, beside `lo`.
#[must_use]
pub(crate) fn run(devices: &[String]) -> ExitCode {
    // Those are meant for the gateway, whose end tells it.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .collect();
    let _ = signals.thread_block();
    let mut present = BTreeSet::new();
    let mut answers = io::stdout().lock();
    if answer(&mut answers, remove_stale()).is_ok() {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let done = obey(&line, devices, &mut present);
            if answer(&mut answers, done).is_err() {
                break;
            }
        }
    }
    let mut outcome = ExitCode::SUCCESS;
    for (address, length) in present {
        if addresses::remove(LOOPBACK, address, length).is_err() {
            outcome = ExitCode::FAILURE;
        }
    }
    outcome
}

fn answer(to: &mut impl Write, done: Result<()>) -> io::Result<()> {
    match done {
        Ok(()) => writeln!(to, "ok"),
        Err(error) => writeln!(to, "{}", format!("{error:#}").replace('\n', " ")),
    }?;
    to.flush()
}

fn remove_stale() -> Result<()> {
    let loopback = addresses::index(LOOPBACK)?;
    let stale = addresses::all()?.into_iter();
    for entry in stale.filter(|entry| entry.is_mark && entry.device == loopback) {
        addresses::remove(LOOPBACK, entry.address, entry.length)?;
    }
    Ok(())
}

/// An order as it was written.
#[derive(PartialEq, Eq, Debug)]
struct Order<'l> {
    add: bool,
    device: &'l str,
    address: IpAddr,
    length: u8,
}

/// Reads an order, and refuses what the helper is not for.
fn read<'l>(line: &'l str, devices: &[String]) -> Result<Order<'l>> {
    let words: Vec<&str> = line.split(' ').collect();
    let &[verb, device, address, length] = &words[..] else {
        bail!("no order: `{line}`");
    };
    let order = Order {
        add: match verb {
            "+" => true,
            "-" => false,
            _ => bail!("no order: `{line}`"),
        },
        device,
        address: address
            .parse()
            .with_context(|| format!("no address: `{address}`"))?,
        length: length.parse().with_context(|| format!("no length: `{length}`"))?,
    };
    let whole = if order.address.is_ipv4() { 32 } else { 128 };
    let may = match device {
        LOOPBACK => order.length == whole && !order.address.is_loopback(),
        _ => order.length <= whole && devices.iter().any(|named| named == device),
    };
    if !may {
        bail!("not the helper's to change: `{line}`");
    }
    Ok(order)
}

fn obey(line: &str, devices: &[String], present: &mut BTreeSet<(IpAddr, u8)>) -> Result<()> {
    let Order {
        add,
        device,
        address,
        length,
    } = read(line, devices)?;
    let ours = device == LOOPBACK;
    if !add {
        // Never one that somebody else has put there.
        if ours && !present.remove(&(address, length)) {
            return Ok(());
        }
        return Ok(addresses::remove(device, address, length)?);
    }
    if ours && is_foreign(address)? {
        bail!(
            "{address} is on `lo` already, and not by a gateway: remove it there (ip address delete {address}/{length} dev lo)"
        );
    }
    addresses::add(device, address, length, ours)?;
    if ours {
        present.insert((address, length));
    }
    Ok(())
}

/// Whether `lo` has the address, and no gateway has put it there.
fn is_foreign(address: IpAddr) -> Result<bool> {
    let loopback = addresses::index(LOOPBACK)?;
    let mut entries = addresses::all()?.into_iter();
    Ok(entries.any(|entry| entry.device == loopback && entry.address == address && !entry.is_mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_it_is_for_and_nothing_else() {
        let devices = ["tg0".to_owned()];
        let order = read("+ lo 203.0.113.100 32", &devices).unwrap();
        assert!(order.add && order.device == "lo" && order.length == 32);
        assert!(!read("- tg0 2001:db8::1 64", &devices).unwrap().add);
        for line in [
            "+ eth0 203.0.113.100 32",
            "+ lo 203.0.113.0 24",
            "+ lo 127.0.0.1 32",
            "+ lo ::1 128",
            "+ tg0 203.0.113.2 33",
            "* lo 203.0.113.100 32",
            "+ lo 203.0.113.100",
            "+ lo here 32",
            "",
        ] {
            assert!(read(line, &devices).is_err(), "{line}");
        }
    }
}
