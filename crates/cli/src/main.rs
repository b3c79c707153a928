//! autoloop.
fn main() {}
