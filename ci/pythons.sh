#!/bin/sh
# Run a check with every Python that noeta supports, each in an environment of its own: ci/pythons.sh [COMMAND...]
#
# Interpreters: python3.11, python3.12 and python3.13 on PATH or, where there is pyenv, among its versions, those that
# run; or NOETA_PYTHONS=path:path, where each must run. NOETA_PYTHONS_LEAVE_OUT: versions, as "3.11 3.12", that are not
# asked. COMMAND finds `python` and `noeta` on PATH; without one it is the quick set, and the simulator, whose traces
# must be the same for every version and every hash seed. A line for each version; exit code 0 only if all passed, 77 if
# none was found.
set -eu
cd "$(dirname "$0")/.."

versions='3.11 3.12 3.13'
check_seconds_max=300       # for one version and command
seeds=1..50

say() { printf 'pythons: %s\n' "$*"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# A name on PATH may be a shim for a version that is not installed: only running it tells. Debian splits venv off.
version_of() { "$1" -c 'import sys, ensurepip; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

find_minor() { # find_minor 3.12
    if version_of "python$1" >/dev/null; then printf '%s\n' "python$1"; return 0; fi
    command -v pyenv >/dev/null 2>&1 || return 1
    for candidate in "$(pyenv root)/versions/$1".*/bin/python; do
        if version_of "$candidate" >/dev/null; then printf '%s\n' "$candidate"; return 0; fi
    done
    return 1
}

make_venv() { # make_venv INTERPRETER FOLDER
    "$1" -m venv "$2" || return 1
    if command -v uv >/dev/null 2>&1; then
        uv pip install --quiet --python "$2/bin/python" -c ci/constraints.txt -e '.[test]' && return 0
    fi
    "$2/bin/python" -m pip install -qq --disable-pip-version-check -c ci/constraints.txt -e '.[test]'
}

bounded() {
    if command -v timeout >/dev/null 2>&1; then timeout --kill-after=30 "$check_seconds_max" "$@"; else "$@"; fi
}

quick_set() {
    bounded python -m pytest -q -n auto -p no:cacheprovider -m 'not pg and not slow and not cluster' || return 1
    for hash_seed in 0 1; do
        PYTHONHASHSEED=$hash_seed bounded noeta sim --seeds "$seeds" >"$work/sim" || { cat "$work/sim"; return 1; }
        trace=$(sed -n 's/.*traces //p' "$work/sim")
        [ -n "$trace" ] || { echo "the simulator printed no trace"; return 1; }
        if [ ! -f "$work/trace" ]; then
            printf '%s\n' "$trace" >"$work/trace"
        elif [ "$trace" != "$(cat "$work/trace")" ]; then
            echo "simulated traces differ: hash seed $hash_seed gives $trace, the first version gave $(cat "$work/trace")"
            echo "find the first line that differs: noeta sim --seed N --trace, with each version"
            return 1
        fi
    done
}

try() { # try INTERPRETER VERSION COMMAND...: the last line of the check is what is told
    interpreter=$1 version=$2
    shift 2
    venv=$work/venv
    rm -rf "$venv"
    if ! make_venv "$interpreter" "$venv" >"$work/log" 2>&1; then
        tail -n 40 "$work/log" >&2
        say "$version: FAILED: its environment could not be made"
        return 1
    fi
    began=$(date +%s)
    code=0
    ( PATH=$venv/bin:$PATH; export PATH
      if [ $# -eq 0 ]; then quick_set; else bounded "$@"; fi ) >"$work/log" 2>&1 || code=$?
    took=$(($(date +%s) - began))
    if [ "$code" -ne 0 ]; then
        tail -n 60 "$work/log" >&2
        say "$version: FAILED after $took s (exit code $code): $(tail -n 1 "$work/log")"
        return 1
    fi
    told=$(tail -n 1 "$work/log")
    if [ $# -eq 0 ]; then told="$told, traces $(cut -c1-12 "$work/trace")"; fi
    say "$version: passed in $took s: $told"
}

passed=0 failed=0
one() { # one INTERPRETER COMMAND...: 1 if it does not run
    interpreter=$1
    shift
    if ! version=$(version_of "$interpreter"); then return 1; fi
    if try "$interpreter" "$version" "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

if [ -n "${NOETA_PYTHONS:-}" ]; then
    rest=$NOETA_PYTHONS:
    while [ -n "$rest" ]; do
        path=${rest%%:*}
        rest=${rest#*:}
        [ -n "$path" ] || continue
        if ! one "$path" "$@"; then
            say "$path: FAILED: asked for by NOETA_PYTHONS, but it does not run"
            failed=$((failed + 1))
        fi
    done
else
    for minor in $versions; do
        case " ${NOETA_PYTHONS_LEAVE_OUT:-} " in *" $minor "*) continue ;; esac
        if ! interpreter=$(find_minor "$minor") || ! one "$interpreter" "$@"; then
            say "python$minor: not tried: no such interpreter is found that runs"
        fi
    done
fi

say "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
