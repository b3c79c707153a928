# Plain commands, which work without `just` as well.

# What is there to choose from.
default:
    @just --list

# Everything that has to hold before a change is accepted.
ci:
    .ci/run

# The main job, in a project to be thrown away.
demo:
    cargo run --release -- demo

# All tests.
test:
    cargo test --workspace

# The simulations with many more seeds than usual.
simulate seeds="2000":
    AUTOLOOP_SEEDS={{seeds}} cargo test --release --workspace

# The parsers, for a minute each. Needs a nightly toolchain.
fuzz:
    fuzz/run.sh

# The speed, as ratios in one table.
bench:
    cargo bench

# Formatting, as the gate wants it.
fmt:
    cargo fmt --all

# The lints, as the gate wants them.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# The examples in the documentation, rewritten to what the program prints now.
docs:
    TRYCMD=overwrite cargo test -p autoloop --test docs

# Licences, advisories and sources of the dependencies. Needs cargo-deny.
deny:
    cargo deny check
