//! What tests Tidegate from the outside.

pub mod golden;
