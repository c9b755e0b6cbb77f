//! Tests of the whole pipeline over in-memory ports.
