//! `tidegate show routes` as a table.

use super::table::Table;
use crate::view::Route;

/// One line for each next hop.
pub(super) fn routes(routes: Vec<Route>) -> Table {
    let mut table = Table::new(&["TO", "VIA", "PORT", ">WEIGHT", "STATE", "SOURCE"]);
    for route in routes {
        table.row(vec![
            route.to,
            route.via.map_or_else(|| "-".to_owned(), |via| via.to_string()),
            route.port.unwrap_or_else(|| "-".to_owned()),
            route.weight.to_string(),
            route.state,
            route.source,
        ]);
    }
    table
}
