#!/usr/bin/env bash
# Installs what is missing, builds everything and runs the tests.
#   test.sh          the ordinary tests: under 20 minutes on two cores
#   test.sh --ci     also what every change must pass: format, warnings as errors, shellcheck, ten seconds of each fuzz
#                    target, unit tests and every seventh fault of the fault tests under the address and
#                    undefined-behaviour sanitizers
#   test.sh --full   also what takes long: the thread sanitizer, longer fuzzing, static analysis, tests/full (cluster, ...)
# Ends with one line: N passed, N failed, N skipped. Exit status 0 only if nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
full=false ci=false
case ${1:-} in
  '') ;;
  --ci) ci=true ;;
  --full) full=true ci=true ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
passed=0 failed=0 skipped=0
notes=()  # what failed or was skipped, repeated at the end
jobs=$(nproc)

say() { printf '\n=== %s\n' "$*"; }

# step NAME COMMAND...: runs one test; exit status 77 is a skip, whose reason is the line that starts with SKIPPED:
step() {
  local name=$1 log status; shift
  say "$name"
  log=$(mktemp)
  "$@" 2>&1 | tee "$log"; status=${PIPESTATUS[0]}
  case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); notes+=("skipped: $name: $(sed -n 's/^SKIPPED: //p' "$log" | tail -n1)") ;;
    *) failed=$((failed + 1)); notes+=("FAILED: $name (exit $status)") ;;
  esac
  rm -f "$log"
  return "$status"
}

# build PRESET [TARGET]
build() {
  local options=()
  if $ci; then options=(-DPLANESMITH_WERROR=ON); fi
  cmake --preset "$1" "${options[@]}" && cmake --build --preset "$1" --target "${2:-all}"
}

# suite PRESET TARGET [CTEST-ARGUMENT...]: builds the target and runs its ctest entries, all or those selected; each counts
# as a test.
suite() {
  local preset=$1 target=$2 report=build/$1/tests.xml total bad out; shift 2
  step "build $preset" build "$preset" "$target" || return
  say "tests $preset"
  rm -f "$report"
  ctest --preset "$preset" -j "$jobs" --no-tests=error --output-junit tests.xml "$@"
  number() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\"$/\1/p" "$report" 2>/dev/null | head -n1; }
  total=$(number tests) bad=$(number failures) out=$(number skipped)
  if [ -z "$total" ]; then failed=$((failed + 1)); notes+=("FAILED: ctest $preset gave no report"); return; fi
  passed=$((passed + total - bad - out)) failed=$((failed + bad)) skipped=$((skipped + out))
  while IFS= read -r line; do notes+=("$line ($preset)"); done < <(
    awk 'match($0, /<testcase name="[^"]*"/) { name = substr($0, RSTART + 16, RLENGTH - 17) }
         /<testcase .* status="fail"/ { print "FAILED: " name }
         match($0, /SKIPPED: .*/) && !told[name]++ { print "skipped: " name ": " substr($0, RSTART + 9) }' "$report" |
      sed "s/&lt;/</g; s/&gt;/>/g; s/&quot;/\"/g; s/&apos;/'/g; s/&amp;/\&/g")
}

clang_tidy() {
  command -v run-clang-tidy >/dev/null || { echo "SKIPPED: clang-tidy is not installed"; return 77; }
  run-clang-tidy -quiet -p build/tsan "$PWD/(lib|apps)/.*\.cc$"
}
cpp_check() {
  command -v cppcheck >/dev/null || { echo "SKIPPED: cppcheck is not installed"; return 77; }
  cppcheck --quiet -j "$jobs" --std=c++20 --language=c++ --enable=warning,performance,portability --inline-suppr \
    --error-exitcode=1 -I lib -I apps --suppress=missingInclude --suppress=unknownMacro \
    --suppress='*:lib/codebook/fit_batch.inl' lib apps  # cppcheck does not know compiler vectors
}
shell_check() {
  command -v shellcheck >/dev/null || { echo "SKIPPED: shellcheck is not installed"; return 77; }
  # Test scripts share variables with the file that they source, and list files whose names they chose.
  git ls-files -z 'scripts/*.sh' '*.sbatch' .ci/run | xargs -0 shellcheck -S warning &&
    git ls-files -z 'tests/*.sh' | xargs -0 shellcheck -S warning -s bash -e SC2010,SC2034,SC2046,SC2120,SC2154,SC2155,SC2254
}
format_check() {
  command -v clang-format >/dev/null || { echo "SKIPPED: clang-format is not installed"; return 77; }
  git ls-files -z '*.cc' '*.h' '*.inl' '*.cu' | xargs -0 clang-format --dry-run -Werror
}

packages='test'
if $ci; then packages='ci'; fi
if $full; then packages='full'; fi
./scripts/install-deps.sh "$packages" || exit 1
if $ci; then
  step "clang-format" format_check
  step "shellcheck" shell_check
fi
suite release all
if $ci; then
  $full || step "fuzz, 10 s each" bash tests/fuzz/run.sh 10
  if $full; then suite asan-ubsan all; else FAULT_STRIDE=7 suite asan-ubsan unit-tests -R '^(unit|fault)[.]'; fi
fi
if $full; then
  step "fuzz, 600 s each" bash tests/fuzz/run.sh 600
  step "build debug" build debug
  suite tsan all
  step "clang-tidy" clang_tidy
  step "cppcheck" cpp_check
  for script in tests/full/*.sh; do
    step "$script" env BIN="$PWD/build/release/bin" SOURCE="$PWD" bash "$script"
  done
fi

say "summary"
[ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
