# Plain commands, which work without `just` as well.

# List the recipes.
default:
    @just --list

# Run every check that a change has to pass.
ci:
    .ci/run

# Run the demo in a temporary project.
demo:
    cargo run --release -- demo

# Run all tests.
test:
    cargo test --workspace

# Run the simulations with many more seeds than usual.
simulate seeds="2000":
    AUTOLOOP_SEEDS={{seeds}} cargo test --release --workspace

# Fuzz each parser for a minute. Needs a nightly toolchain.
fuzz:
    fuzz/run.sh

# Measure the speed, as ratios in one table.
bench:
    cargo bench

# Format the sources.
fmt:
    cargo fmt --all

# Run the lints.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Update the examples in the documentation to the current output.
docs:
    TRYCMD=overwrite cargo test -p autoloop --test docs

# Check licences, advisories and sources of the dependencies. Needs cargo-deny.
deny:
    cargo deny check
