//! `tidegate server-setup`.

use super::{Failure, warn};
use crate::{config, server_setup};
use clap::Args;
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;

/// What was typed.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/tidegate/tidegate.yaml")]
    config: PathBuf,
    /// The service: its name, or where it listens (203.0.113.100:80/tcp)
    #[arg(long)]
    service: String,
    /// One of its servers; without it, the text is for all of them, where they need the same
    #[arg(long, value_name = "ADDRESS")]
    server: Option<IpAddr>,
    /// Print the commands that take it back
    #[arg(long)]
    undo: bool,
}

/// Prints the commands.
pub(super) fn server_setup(options: &Options, out: &mut impl Write) -> Result<(), Failure> {
    let config = config::load(&options.config)?;
    warn(&config.warnings);
    let text = server_setup::script(&config, &options.service, options.server, options.undo)
        .map_err(|error| Failure::Other(error.to_string()))?;
    out.write_all(text.as_bytes())?;
    Ok(())
}
