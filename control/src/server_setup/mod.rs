//! `tidegate server-setup`: the shell commands that make a machine a real server of a service, and their reverse.
//!
//! Only the configuration is read, never a running gateway, and nothing is executed here: the text goes to the
//! operator, who runs it on the server. [`plan`] finds out what a server needs, [`text`] writes it down.

mod answers;
mod plan;
mod text;
mod tunnel;

use crate::config::Config;
use std::net::IpAddr;

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The file has no such service.
    #[error("no service is called `{wanted}`; there {}: {}", are(names), list(names))]
    UnknownService {
        /// What was asked for.
        wanted: String,
        /// The services of the file.
        names: Vec<String>,
    },
    /// The address is no server of the service.
    #[error("{server} is not a server of `{service}`; its servers: {}", list(servers))]
    NotAServer {
        /// What was asked for.
        server: IpAddr,
        /// The service.
        service: String,
        /// Its servers.
        servers: Vec<String>,
    },
    /// There is nothing to set up.
    #[error("`{service}` has no servers; add one to its pool")]
    NoServers {
        /// The service.
        service: String,
    },
    /// One text cannot serve all servers.
    #[error(
        "the servers of `{service}` need different setups; name one of them: {}",
        list(choices)
    )]
    Different {
        /// The service.
        service: String,
        /// What to write for one of each kind.
        choices: Vec<String>,
    },
}

fn are(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

/// Names in a row; of many the first ones.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    match names.len() {
        0 => "none".to_owned(),
        count if count <= SHOWN => names.join(", "),
        count => format!("{} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    }
}

/// The commands for the servers of the service that is called `service` or listens there: for `server`, or, when all
/// of its servers need the same, for whichever of them runs the text. With `undo` the commands that take them back.
///
/// # Errors
/// The service or the server is not in the file, or its servers need different setups.
pub fn script(
    config: &Config,
    service: &str,
    server: Option<IpAddr>,
    undo: bool,
) -> Result<String, SetupError> {
    let plan = plan::plan(config, service, server)?;
    Ok(if undo {
        text::undo(&plan)
    } else {
        text::setup(&plan)
    })
}
