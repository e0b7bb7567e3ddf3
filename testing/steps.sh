# The machinery of ./test: runs steps, counts their tests, prints the summary. Sourced, not run.

passed=0 failed=0 skipped=0
declare -A started limits # process ids and time limits of the steps that run beside others
table=()                  # lines of the summary

prepare_environment() {
    export CARGO_TERM_COLOR=never RUST_BACKTRACE=1
    # Tests mostly wait for processes and timers, so twice as many as cores run at a time. Never one: the harness would run
    # tests on its main thread then, and a test that is skipped could not tell its name.
    export RUST_TEST_THREADS=$((2 * $(nproc 2>/dev/null || echo 1)))
    # Complete runs compile each crate once, and lint it meanwhile. Quick runs share what `cargo test` makes by hand.
    [[ $mode == quick ]] || export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 RUSTC_WORKSPACE_WRAPPER=clippy-driver
    target=${CARGO_TARGET_DIR:-$root/target}
    [[ $target = /* ]] || target=$root/$target
    # Real manifests lie beside the checkout, never inside it.
    if [[ -z ${TOOLCRIB_CORPUS+set} && -d $root/../shared/corpus ]]; then
        TOOLCRIB_CORPUS=$(cd "$root/../shared/corpus" && pwd)
        export TOOLCRIB_CORPUS
    fi
    export TOOLCRIB_EMBEDDING=${TOOLCRIB_EMBEDDING:-$target/embedding}
    export mode root target
}

prepare_logs() {
    logs=$target/test-logs
    [[ -n $list ]] && return
    rm -rf "$logs"
    mkdir -p "$logs"
    tests=$logs/tests.tsv
    : >"$tests" >"$logs/skipped.tsv"
    began=$SECONDS
}

log_of() { echo "$logs/${1//[^A-Za-z0-9]/-}"; }

# selected MODES NAME: whether this mode runs the step. With --list it prints the step instead.
selected() {
    if [[ -n $list ]]; then
        printf '%-7s %-8s %-5s %s\n' "$([[ ,$1, == *,quick,* ]] && echo quick)" "$([[ ,$1, == *,default,* ]] && echo default)" \
            "$([[ ,$1, == *,full,* ]] && echo full)" "$2"
        return 1
    fi
    [[ ,$1, == *,$mode,* ]] || return 1
    [[ -n $install || $2 != install* && $2 != download* ]]
}

# run NAME LIMIT COMMAND…: the command under its time limit, with a log, a record of skipped tests, and its time and status.
run() {
    local log status=0
    log=$(log_of "$1")
    local TIMEFORMAT='%R %U %S'
    # A function of commands.sh needs a shell; a program does not notice it.
    { time TOOLCRIB_SKIPPED=$log.skipped timeout --kill-after=10 "$2" bash -c 'source testing/commands.sh; "$@"' step "${@:3}" \
        >"$log.log" 2>&1 </dev/null; } 2>"$log.time" || status=$?
    echo "$status" >"$log.status"
}

# step MODES NAME LIMIT COMMAND…
step() {
    selected "$1" "$2" || return 0
    run "${@:2}"
    report "$2" "$3"
}

# beside MODES NAME LIMIT COMMAND…: starts a step and continues with the next.
beside() {
    selected "$1" "$2" || return 0
    run "${@:2}" &
    started[$2]=$!
    limits[$2]=$3
}

# await NAME: waits for a step that runs beside others, if this mode has it.
await() {
    [[ -n ${started[$1]:-} ]] || return 0
    wait "${started[$1]}"
    report "$1" "${limits[$1]}"
}

# report NAME LIMIT: counts what a step did, and prints its line.
report() {
    local name=$1 log status wall user system p f s
    log=$(log_of "$name")
    status=$(<"$log.status")
    read -r wall user system <"$log.time"
    touch "$log.skipped"
    read -r p f s < <(awk -v step="$name" -v list="$tests" -f testing/count.awk "$log.skipped" "$log.log")
    cat "$log.skipped" >>"$logs/skipped.tsv"
    # The step itself counts as well. One without tests that has a record of something missing was skipped.
    if ((status != 0)); then ((f += 1)); elif ((p + f + s == 0)) && [[ -s $log.skipped ]]; then ((s += 1)); else ((p += 1)); fi
    ((passed += p, failed += f, skipped += s))
    local word=ok numbers=
    ((status == 0)) || word=FAILED
    ((p + f + s > 1)) && numbers="$p passed, $f failed, $s skipped"
    ((status == 124 || status == 137)) && numbers="over its limit of $2 s"
    local line
    line=$(printf '%-7s %7.0f %7.0f  %-46s %s' "$word" "$wall" "$(awk "BEGIN { print $user + $system }")" "$name" "$numbers")
    table+=("$line")
    echo "$line"
    [[ $word == ok ]] || grep -vE '^test .* \.\.\. ok$|^ +(Compiling|Checking|Downloaded|Documenting) ' "$log.log" | sed 's/^/    /'
}

# summary: what was skipped and why, the times of all steps, and the line that counts.
summary() {
    [[ -z $list ]] || exit 0
    local input count
    while read -r count input; do
        if [[ " $may_skip " == *" $input "* ]]; then
            echo "skipped: $count without $input"
        elif [[ ${CI:-} == true ]]; then
            echo "FAILED  $count skipped without $input, which this mode needs when CI=true"
            ((failed += 1))
        else
            echo "skipped: $count without $input (CI=true would fail)"
        fi
    done < <(cut -f 1-3 "$logs/skipped.tsv" | sort -u | cut -f 1 | uniq -c)
    [[ -s $logs/skipped.tsv ]] && sort -u "$logs/skipped.tsv" -o "$logs/skipped.tsv" && echo "reasons: $logs/skipped.tsv"
    printf '\n%-7s %7s %7s  %s\n' "" seconds "cpu s" step
    printf '%s\n' "${table[@]}"
    printf '%-7s %7s\n' total "$((SECONDS - began))"
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
}
