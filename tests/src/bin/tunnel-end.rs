//! The end of a TUN server's tunnels as a program, for the demo on kernels without tunnel modules: makes the device
//! `tg0` in its own network namespace, and runs until it is ended.

use std::io;
use tidegate_tests::tunnel_end::TunnelEnd;

fn main() -> io::Result<()> {
    TunnelEnd::open()?.wait();
    Ok(())
}
