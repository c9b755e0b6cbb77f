//! What tests Tidegate from the outside.

pub mod golden;
pub mod tunnel_end;
