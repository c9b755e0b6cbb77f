//! `tidegate show connections`: a table that is printed as it comes.

use super::table::Table;
use super::{Failure, client};
use crate::view::{Connection, ConnectionFilter};
use clap::Args;
use std::io::Write;
use std::path::Path;

/// Rows that are aligned together.
const BLOCK: usize = 256;

/// Which connections to show.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub(super) struct Filter {
    /// At most so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Only of this service: its name, or where it listens (203.0.113.100:80/tcp)
    #[arg(long)]
    service: Option<String>,
    /// Only of this server: an address, or address:port
    #[arg(long)]
    server: Option<String>,
    /// Only of this client: an address, or address:port
    #[arg(long)]
    client: Option<String>,
}

/// Shows the connections, as a table or as JSON lines.
pub(super) fn show(socket: &Path, filter: &Filter, json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let filter = ConnectionFilter {
        limit: filter.limit,
        service: filter.service.clone(),
        server: filter.server.clone(),
        client: filter.client.clone(),
    };
    let query = serde_urlencoded::to_string(&filter).map_err(|error| Failure::Other(error.to_string()))?;
    let path = format!("/v1/connections?{query}");
    if json {
        return client::lines(socket, &path, |line| {
            out.write_all(line)?;
            out.write_all(b"\n").map_err(Failure::from)
        });
    }
    let mut table = Table::new(&[
        "PROTO", "MODE", "STATE", ">EXPIRES", "CLIENT", "VIRTUAL", "LOCAL", "SERVER",
    ]);
    client::lines(socket, &path, |line| {
        let connection: Connection = serde_json::from_slice(line).map_err(client::ClientError::from)?;
        table.row(row(&connection));
        if table.waiting() >= BLOCK {
            table.print(out)?;
            out.flush()?;
        }
        Ok::<(), Failure>(())
    })?;
    Ok(table.print(out)?)
}

fn row(connection: &Connection) -> Vec<String> {
    vec![
        connection.protocol.clone(),
        connection.mode.clone(),
        connection.state.clone(),
        format!("{}:{:02}", connection.expires / 60, connection.expires % 60),
        connection.client.to_string(),
        connection.virtual_address.to_string(),
        connection
            .local
            .map_or_else(|| "-".to_owned(), |local| local.to_string()),
        connection.server.to_string(),
    ]
}
