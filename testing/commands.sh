# What single steps of ./test do, where it is more than one command. Sourced, not run.

# Crates without I/O, which compile to WebAssembly.
pure_crates=(toolcrib-core toolcrib-x402 toolcrib-judge)

typos_version=1.52.0

# skip_step INPUT REASON: records the whole step as skipped.
skip_step() {
    printf '%s\tstep\t%s\t%s\n' "$1" "${FUNCNAME[1]}" "$2" >>"$TOOLCRIB_SKIPPED"
}

# Installs the compiler that rust-toolchain.toml names. Without rustup, whatever compiler there is must do.
toolchain() {
    command -v rustup || return 0
    local targets=(wasm32-unknown-unknown)
    [[ $mode != full ]] || targets+=(wasm32-wasip2)
    rustup toolchain install --no-self-update && rustup target add "${targets[@]}"
}

# All downloads of crates, so that trouble with the network is told apart from failures of the code.
download_crates() {
    local manifests=(Cargo.toml) manifest
    [[ $mode = quick ]] || manifests+=(fuzz/Cargo.toml)
    [[ $mode != full ]] || manifests+=(bench/Cargo.toml fuzz/mcp/Cargo.toml interop/rust/Cargo.toml)
    for manifest in "${manifests[@]}"; do
        cargo fetch --locked --manifest-path "$manifest" --target "$(rustc -vV | sed -n 's/^host: //p')" || return
    done
}

# Compiles every target once, with clippy's compiler for our own crates. `cargo clippy` beside `cargo test` would read all crates, ours
# and those of others, twice. Cargo repeats warnings of crates that it does not compile again, so that warm runs see them, too.
# Benchmarks have a command of their own: asked for all targets, Cargo would build examples as tests, and later steps run them as programs.
compile_with_clippy() {
    local output=$target/test-logs/clippy.out
    { cargo test --locked --workspace --no-run && cargo test --locked --workspace --no-run --benches; } 2>&1 | tee "$output"
    ((PIPESTATUS[0] == 0)) || return
    ! grep -q '^warning' "$output"
}

# cargo_tool NAME VERSION: compiles a cargo subcommand unless it is installed.
cargo_tool() {
    command -v "$1" || cargo install --locked "$1" --version "$2"
}

# A database, a sandbox of namespaces, a name server, and for `--full` a keychain. All are asked for at once: apt-get does not run twice at a time.
install_debian_packages() {
    local missing=()
    ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null || { command -v initdb && command -v postgres; } || missing+=(postgresql)
    command -v bwrap || missing+=(bubblewrap)
    command -v named || [[ -x /usr/sbin/named ]] || missing+=(bind9)
    if [[ $mode = full ]]; then
        { command -v dbus-daemon && command -v dbus-send; } || missing+=(dbus)
        command -v gnome-keyring-daemon || missing+=(gnome-keyring)
    fi
    ((${#missing[@]})) || return 0
    if ((EUID == 0)) && command -v apt-get; then
        # Debian's packages would start servers.
        mkdir -p /etc/postgresql-common && [[ -e /etc/postgresql-common/createcluster.conf ]] ||
            echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
        local policy=/usr/sbin/policy-rc.d made= status
        [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=yes; }
        apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"
        status=$?
        [[ -z $made ]] || rm -f "$policy"
        return "$status"
    fi
    for package in "${missing[@]}"; do
        skip_step "$package" "neither installed nor installable: this needs root and apt-get"
    done
}

# A static embedding that a PyPI package carries. Only its files are wanted, so the package is unpacked, not installed.
install_embedding() {
    [[ -f $TOOLCRIB_EMBEDDING/model.safetensors ]] && return
    local work
    work=$(mktemp -d) || return
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" wordllama==0.4.0.post1 &&
        python3 -m zipfile -e "$work"/wordllama-*.whl "$work" &&
        mkdir -p "$TOOLCRIB_EMBEDDING" &&
        cp "$work"/wordllama/weights/l2_supercat_256.safetensors "$TOOLCRIB_EMBEDDING/model.safetensors" &&
        cp "$work"/wordllama/tokenizers/l2_supercat_tokenizer_config.json "$TOOLCRIB_EMBEDDING/tokenizer.json"
    local status=$?
    rm -rf "$work"
    return "$status"
}

# PyPI carries the program; compiling it takes minutes.
install_typos() {
    [[ $("$target/typos/bin/typos" --version 2>/dev/null) = "typos-cli $typos_version" ]] && return
    python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps --upgrade --target "$target/typos" "typos==$typos_version"
}

# Words of every text against a dictionary of common mistakes; typos.toml has the exceptions.
spelling() {
    local typos=$target/typos/bin/typos
    [[ -x $typos ]] || { skip_step spelling-checker "not installed: ./test installs it from PyPI"; return 0; }
    "$typos" --config typos.toml --format brief
}

# Modules of tests that wait for timers and foreign programs most of the time.
waiting=(attacks:: interop::)

# All test programs, found by their files, so that a new one is never forgotten: those of both steps below, which share the tests out.
test_programs() {
    local file name
    programs=(--lib --bins)
    for file in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        name=${file%/main.rs}
        name=$(basename "$name" .rs)
        [[ " ${programs[*]} " == *"=$name "* ]] || programs+=("--test=$name")
    done
}

tests_that_wait() {
    local programs
    test_programs
    # Half as many at a time, so that what runs beside them keeps its pace.
    RUST_TEST_THREADS=$((RUST_TEST_THREADS / 2 > 2 ? RUST_TEST_THREADS / 2 : 2)) \
        cargo test --locked --workspace --no-fail-fast "${programs[@]}" -- "${waiting[@]}"
}

other_tests() {
    local programs
    test_programs
    cargo test --locked --workspace --no-fail-fast "${programs[@]}" -- "${waiting[@]/#/--skip=}"
}

check_contracts() {
    [[ -d contracts/node_modules ]] || { skip_step foundry "contracts/setup has not run"; return 0; }
    contracts/check
}

core_packages() {
    local most=80 count
    count=$(cargo tree --locked -p toolcrib-core --no-default-features -e normal --prefix none | sed 's/ (\*)$//' | sort -u | wc -l)
    echo "core without the schema validator: $count packages, itself included (at most $most)"
    ((count <= most))
}

bill_of_materials() {
    testing/sbom >"$target/toolcrib.cdx.json" && echo "$(grep -c '"bom-ref"' "$target/toolcrib.cdx.json") crates"
}

# Built together, a crate may lean on what another one switches on in a dependency.
each_crate_alone() {
    local crate
    for crate in crates/*/; do
        cargo check --locked --package "$(basename "$crate")" || return
    done
}

# The feature that is off by default, with a real Secret Service on a bus of its own.
keychain() {
    cargo clippy --locked -p toolcrib-host -p toolcrib --features toolcrib/keychain --all-targets -- -D warnings &&
        cargo test --locked -p toolcrib --features keychain --test it local_secrets
}

# The feature that is off by default, with DuckDB as the reader.
parquet() {
    cargo clippy --locked -p toolcrib-index -p toolcrib --features toolcrib/parquet --all-targets -- -D warnings &&
        cargo test --locked -p toolcrib-index -p toolcrib --features toolcrib/parquet --no-fail-fast --lib --test it parquet
}

# The advisory database is a git repository, which some networks do not reach; that says nothing about our dependencies. A database that
# is given, by TOOLCRIB_ADVISORY_DB or `db-path` in deny.toml, must be there and readable: otherwise the step fails.
advisories() {
    local given config=deny.toml
    given=${TOOLCRIB_ADVISORY_DB:-$(sed -n 's/^db-path *= *"\(.*\)"/\1/p' deny.toml)}
    if [[ -n $given ]]; then
        compgen -G "$given/*/crates/*" >/dev/null ||
            { echo "the advisory database in $given cannot be read: expected <database>/crates/*/RUSTSEC-*.md below it"; return 1; }
        if [[ -n ${TOOLCRIB_ADVISORY_DB:-} ]]; then
            config=$target/deny-with-database.toml
            { sed '/^db-path *=/d' deny.toml | sed "s|^\\[advisories\\]|&\\ndb-path = \"$given\"|"; } >"$config" || return
        fi
        cargo deny --locked check --config "$config" --disable-fetch advisories
        return
    fi
    cargo deny --locked fetch db || { skip_step advisory-database "cannot be fetched"; return 0; }
    cargo deny --locked check advisories
}

# cargo-fuzz asks for coverage flags that the stable compiler hides.
fuzz_build() {
    cd fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz build --sanitizer none
}

# fuzz TARGET: a short run over the committed seeds and vectors.
fuzz() {
    local corpus=$target/fuzz-corpus/$1 seeds=("seeds/$1") vectors=../vectors/$1
    [[ $1 = json ]] && vectors=../vectors/jcs
    cd fuzz || return
    [[ -d $vectors ]] && seeds+=("$vectors")
    mkdir -p "$corpus"
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none "$1" "$corpus" "${seeds[@]}" -- \
        -max_total_time=20 -dict=json.dict -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
}

# The target for MCP has a workspace of its own: the protocol library and the chain's client are ten times what the others compile.
fuzz_mcp() {
    local corpus=$target/fuzz-corpus/mcp
    cd fuzz/mcp || return
    mkdir -p "$corpus"
    RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir . --sanitizer none --target-dir "$target/fuzz-mcp" mcp "$corpus" seeds -- \
        -max_total_time=20 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1
}

# One target with the address sanitizer: the reader of answers, whose parser, runtime and buffers are code of others with `unsafe` in it.
fuzz_with_sanitizer() {
    local corpus=$target/fuzz-corpus/$1
    cd fuzz || return
    mkdir -p "$corpus"
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer address --target-dir "$target/fuzz-address" "$1" "$corpus" "seeds/$1" -- \
        -max_total_time=20 -timeout=10 -rss_limit_mb=4096 -print_final_stats=1
}

# Foreign x402 clients against foreign servers, with nothing of ours between them.
foreign_matrix() {
    TOOLCRIB_ANVIL=$(find contracts/node_modules/@foundry-rs/anvil-* -path '*/bin/anvil' -type f | head -n 1) node interop/v2/matrix.mjs
}

# MCP clients and suites against the programs that `cargo test` has built.
mcp_suites() {
    [[ -d interop/mcp/node_modules ]] || { skip_step mcp-clients "interop/mcp/run setup has not run"; return 0; }
    SERVER=$target/debug/examples/conformance SHELF=$target/debug/examples/shelf TOOLCRIB=$target/debug/toolcrib interop/mcp/run
}

# Exports of local tools, written by an example that `cargo test` has built, and those who will read them.
export_readers() {
    [[ -d interop/local/node_modules ]] || { skip_step export-readers "interop/local/run setup has not run"; return 0; }
    EXPORTS=$target/debug/examples/exports TOOLCRIB=$target/debug/toolcrib interop/local/run check
}

# Exports of agent manifests, written by an example that `cargo test` has built, and those who will read them.
agent_export_readers() {
    [[ -d interop/agt-js/node_modules ]] || { skip_step agent-export-readers "interop/agt-js/run setup has not run"; return 0; }
    BRIDGES=$target/debug/examples/bridges interop/agt-js/run check
}

# Clients of the public interface against a directory with generated tools, which `cargo test` has built, on a free port.
directory_clients() {
    [[ -d ${TOOLCRIB_CORPUS:-} ]] || { skip_step corpus "it has the published document that the clients are made from"; return 0; }
    [[ -d interop/directory/node_modules ]] || { skip_step directory-clients "interop/directory/run setup has not run"; return 0; }
    local log=$target/test-logs/shelf.out pid status=0 port=
    "$target/debug/examples/shelf" memory 300 0 >"$log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p' "$log" | head -n 1)
        [[ -n $port ]] && break
        sleep 0.1
    done
    EXAMPLES=${EXAMPLES:-15} interop/directory/run check "http://127.0.0.1:$port" || status=$?
    kill "$pid"
    return "$status"
}
