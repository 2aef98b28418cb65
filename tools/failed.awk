# Prints the failed tests of pytest, of Rust's harness and of make, in at most 200 columns.
/^(FAILED|ERROR) / || /^make.*\*\*\* / || /^error(\[|:)/ { print substr($0, 1, 200) }
# Rust's harness prints the outputs of the failed tests below a first such line, and their names below a second one.
/^failures:$/ { names = ""; inside = 1; next }
inside && /^    [^ ]/ { names = names $0 "\n" }
/^test result: / { if (inside) printf "%s", names; inside = 0 }
