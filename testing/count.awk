# Counts the tests in the log of one step. Reads the record of skipped tests (input, binary, test, reason), then the log.
# Prints passed, failed and skipped, and appends a line (step, binary, test, result) to the file `list` for each test.
BEGIN { FS = "\t"; OFS = "\t"; program = "-" }

FILENAME ~ /\.skipped$/ {
    if ($2 != "step") without[$2 "\t" $3] = 1
    next
}

# `Running tests/it/main.rs (target/debug/deps/it-0123456789abcdef)`: the last two parts of the path are in the record, too.
/^ +Running .*\)$/ {
    path = $0
    sub(/^.*\(/, "", path)
    sub(/\)$/, "", path)
    count = split(path, parts, "/")
    program = parts[count - 1] "/" parts[count]
    next
}
/^ +Doc-tests / {
    program = $0
    sub(/^ +Doc-tests /, "doc-tests/", program)
    next
}

# Cargo's tests.
/^test .* \.\.\. (ok|FAILED|ignored)/ {
    result = /\.\.\. ok/ ? "passed" : /\.\.\. FAILED/ ? "failed" : "skipped"
    name = $0
    sub(/^test /, "", name)
    sub(/ \.\.\. .*$/, "", name)
    sub(/ - should panic$/, "", name)
    if (result == "failed") broken[program "\t" name] = 1
    if (result == "passed" && (program "\t" name) in without) result = "skipped"
    print step, program, name, result >> list
    next
}
# Forge's tests: the suite, then its tests.
/^Ran [0-9]+ tests? for / {
    program = $0
    sub(/^.* for /, "", program)
    next
}
/^\[(PASS|FAIL|SKIP)[^]]*\] / {
    name = $0
    sub(/^\[[^]]*\] /, "", name)
    sub(/ .*$/, "", name)
    print step, program, name, /^\[PASS/ ? "passed" : /^\[FAIL/ ? "failed" : "skipped" >> list
    next
}
# The sums of both. Lines of single tests may be torn by what programs print, sums are not.
/^(test|Suite) result: / {
    sums++
    count = split($0, words, /[ ;]+/)
    for (i = 2; i <= count; i++) {
        if (words[i] == "passed") passed += words[i - 1]
        if (words[i] == "failed") failed += words[i - 1]
        if (words[i] == "ignored" || words[i] == "skipped") skipped += words[i - 1]
    }
}

END {
    for (test in without) if (!(test in broken)) moved++
    # A benchmark has no tests, and counts as a step that was skipped.
    if (!sums) print 0, 0, 0
    else print passed - moved, failed + 0, skipped + moved
}
