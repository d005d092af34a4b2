#!/usr/bin/env bash
# The short version of all checks of L1 and L2 on a machine with a GPU and vLLM: starts the profile, probes it, asks the
# doctor, judges it through the reference gateway, and leaves a report. docs/h200.md says what to expect.
#
#   engine/vllm/h200_check.sh REPORT_DIR [PROFILE] [vllm flags ...]
#
#   PROFILE        h200-deepseek-v4-flash-1gpu where none is given; a .toml file works too
#   PYTHON         the interpreter that has prefixproof (default: python3)
#   START_TIMEOUT  seconds until vLLM answers (default: 1800)
#   URL            an engine that runs already: nothing is started, its L1 is put under pressure
#   BUDGET         prompt tokens one probe may send (default: 4000000)
#
# Exit 0: everything was judged and is right. 1: something is wrong, see REPORT_DIR/summary.txt. 2: it did not run.
set -uo pipefail

report=${1:?usage: h200_check.sh REPORT_DIR [PROFILE] [vllm flags ...]}
shift
profile=${1:-h200-deepseek-v4-flash-1gpu}
[ $# -gt 0 ] && shift
python=${PYTHON:-python3}
engine=("$python" -m engine)
mkdir -p "$report"
summary=$report/summary.txt
: > "$summary"
serving=
gateway=
worst=0

say() { printf '%s\n' "$*" | tee -a "$summary"; }

finish() {
    for pid in $gateway $serving; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
}
trap finish EXIT

# step NAME COMMAND...: run, keep the output, note the exit code. 1 is a finding, 2 and more a check that did not run.
step() {
    local name=$1 code
    shift
    "$@" > "$report/$name.txt" 2>&1
    code=$?
    say "$name: exit $code"
    sed 's/^/    /' "$report/$name.txt" | tail -n 30 >> "$summary"
    [ "$code" -gt "$worst" ] && worst=$code
    return 0
}

say "prefixproof H200 check, $(date -u +%Y-%m-%dT%H:%MZ)"
command -v nvidia-smi > /dev/null && nvidia-smi --query-gpu=name,memory.total --format=csv,noheader | tee -a "$summary"

if [ -n "${URL:-}" ]; then
    url=$URL
else
    ready=$report/ready.txt
    : > "$ready"
    "${engine[@]}" serve --backend vllm --profile "$profile" --port 0 --log "$report/vllm.log" \
        --start-timeout "${START_TIMEOUT:-1800}" "$@" > "$ready" 2> >(tee -a "$report/start.txt" >&2) &
    serving=$!
    until grep -q ' at http' "$ready"; do
        if ! kill -0 "$serving" 2>/dev/null; then
            say "vLLM did not start: $(tail -n 1 "$report/start.txt")"
            exit 2
        fi
        sleep 1
    done
    url=$(grep -o 'http://.*' "$ready")
fi
say "engine: $url"
log=()
[ -f "$report/vllm.log" ] && log=(--log "$report/vllm.log")

step inspect-before "${engine[@]}" inspect "$url"
step probe-exact "${engine[@]}" probe "$url" --budget "${BUDGET:-4000000}"
# A second probe with longer sessions: another residue of the prompt length, and prompts over several chunks.
step probe-long "${engine[@]}" probe "$url" --budget "${BUDGET:-4000000}" --session-tokens "${SESSION_TOKENS:-12000}"
step inspect-after "${engine[@]}" inspect "$url" --json
step doctor "${engine[@]}" doctor --metrics "$url" "${log[@]}"

# The suite, through the reference gateway, with the recorder between the two.
free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
listen=127.0.0.1:$(free_port)
port=$(free_port)
model=$("$python" - "$url" <<'PY'
import json, sys, urllib.request
print(json.load(urllib.request.urlopen(sys.argv[1] + "/v1/models"))["data"][0]["id"])
PY
)
cat > "$report/channels.toml" <<TOML
[[channels]]
name = "vllm"
url = "http://$listen/v1"
dialect = "openai-chat"
models = ["$model"]
strip_anthropic_billing_header = true
anthropic_messages_exclude_cache = true
TOML
"$python" -m reference_gateway --config "$report/channels.toml" --port "$port" > "$report/gateway.txt" 2>&1 &
gateway=$!
for _ in $(seq 100); do
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    sleep 0.1
done
step suite "$python" -m conformance.cli --target "http://127.0.0.1:$port" --model "$model" --engine "$url" \
    --upstream-listen "$listen" --report "$report/suite"

if [ -n "$serving" ]; then
    kill "$serving"
    wait "$serving"
    say "vLLM ended: exit $?"
    serving=
fi
say "worst exit code: $worst; everything is in $report"
[ "$worst" -gt 2 ] && worst=2
exit "$worst"
