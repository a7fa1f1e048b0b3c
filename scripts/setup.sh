#!/usr/bin/env bash
# Sets this checkout up: a virtual environment in .venv, and the cross tools if this machine lets us install them.
# Safe to run again at any time; a run with nothing to do takes a fraction of a second and needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."

log=build/setup.log
stamp=.venv/setup.stamp # what the packages in .venv were installed for
tried=.venv/apt.failed  # the tools that apt could not install last time
child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null || true' EXIT

say() { printf 'setup: %s\n' "$*"; }

# run LABEL COMMAND...: output goes to the log; a sign of life every ten seconds; the end of the log on failure.
run() {
    local label=$1 start=$SECONDS next=10
    shift
    say "$label"
    mkdir -p "${log%/*}"
    "$@" </dev/null >"$log" 2>&1 &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - start)) -ge "$next" ]; then
            say "  ${next} s: $(tail -n 1 "$log" | tr '\r' '\n' | tail -n 1 | cut -c 1-70)"
            next=$((next + 10))
        fi
    done
    local status=0
    wait "$child" || status=$?
    child=
    [ "$status" -eq 0 ] || { say "failed: $label; the end of $log:"; tail -n 15 "$log"; }
    return "$status"
}

as_root=()
can_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" -ne 0 ] || return 0
    as_root=(sudo -n)
    command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

apt_install() {
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=60
        -o Acquire::http::Timeout=20 -o Acquire::Retries=1)
    run "package lists (apt-get update)" "${as_root[@]}" "${apt[@]}" update &&
        run "apt-get install $*" "${as_root[@]}" "${apt[@]}" install --no-install-recommends "$@"
}

check_python() {
    if ! command -v python3 >/dev/null; then
        say "python3 is missing; fuse2c needs Python 3.11 or newer" && exit 1
    fi
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        say "python3 is $(python3 -V 2>&1 | cut -d' ' -f2); fuse2c needs Python 3.11 or newer" && exit 1
    fi
}

make_venv() {
    ! .venv/bin/python -c "import pip, sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null || return 0
    if ! python3 -c 'import ensurepip' 2>/dev/null && ! { can_install && apt_install python3-venv; }; then
        say "python3 has no ensurepip; please install the package python3-venv" && exit 1
    fi
    run "creating .venv" python3 -m venv --clear .venv
}

install_python_packages() {
    local want
    want=$(pwd && cat pyproject.toml setup.py)
    if [ "$want" != "$(cat "$stamp" 2>/dev/null)" ]; then
        local pip=(.venv/bin/python -m pip --disable-pip-version-check --no-input install)
        # Without build isolation: pip then needs no network when all requirements are met already.
        run "Python build tools" "${pip[@]}" "setuptools>=77"
        run "Python packages" "${pip[@]}" --no-build-isolation -e ".[dev]"
        printf '%s\n' "$want" >"$stamp"
    fi
}

missing_tools() {
    local pair
    for pair in arm-none-eabi-gcc=gcc-arm-none-eabi qemu-system-arm=qemu-system-arm clang=clang cppcheck=cppcheck; do
        command -v "${pair%%=*}" >/dev/null || printf '%s ' "${pair##*=}"
    done
    [ -f "$(arm-none-eabi-gcc -print-file-name=nano.specs 2>/dev/null)" ] || printf 'libnewlib-arm-none-eabi '
}

install_tools() {
    local missing packages again=
    missing=$(missing_tools)
    if [ -n "$missing" ] && [ "$missing" = "$(cat "$tried" 2>/dev/null)" ]; then
        again="(apt failed last time; remove $tried to try again)"
    elif [ -n "$missing" ] && can_install; then
        read -ra packages <<<"$missing"
        apt_install "${packages[@]}" || printf '%s' "$missing" >"$tried"
        missing=$(missing_tools)
    fi
    [ -z "$missing" ] || say "going on without optional packages: $missing$again"
}

check_python
make_venv
install_python_packages
install_tools
