#!/usr/bin/env bash
# Runs every fuzz target for a minute, or for SECONDS_EACH seconds. Names of targets as
# arguments select some of them: fuzz/run.sh line payload
#
# Needs a nightly toolchain (the sanitizers are not in a stable one); cargo-fuzz is installed if it
# is missing. Failing inputs are kept in fuzz/artifacts, and the script fails.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${SECONDS_EACH:-60}
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    targets=(line message message_body packet payload sidecar_view stream verdict)
fi

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz/run.sh: a nightly toolchain is missing" >&2
    echo "  hint: rustup toolchain install nightly --profile minimal" >&2
    exit 2
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz/run.sh: installing cargo-fuzz" >&2
    cargo install cargo-fuzz --locked
fi

failed=()
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target"
    echo "== $target, $seconds s"
    # New inputs are kept in the first directory; the hand-made seeds in the second stay as they are.
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=1024 \
        -print_final_stats=1 || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "fuzz/run.sh: failures in: ${failed[*]} (see fuzz/artifacts)" >&2
    exit 1
fi
echo "no failures"
