#!/bin/sh
# Sets up what the make targets need: `setup.sh python` the virtual environment, `setup.sh java` a JVM.
# Asks nothing, so that it runs the same in CI. Does its work once for each content of the lock.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/.setup-stamp

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$@"
    exit 1
}

# Installs Debian packages if that needs no password; otherwise returns 1 and leaves the message to the caller.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" = 0 ]; then as_root=""; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else return 1; fi
    say "installing $* with apt-get"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >&2 || true
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

new_enough_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3 python3.12 python3.13 python3.14 python; do
        if command -v "$candidate" >/dev/null 2>&1 && new_enough_python "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "needs Python 3.11 or newer: install it (Debian: apt-get install python3.11 python3.11-venv) or" \
        "name it with 'make PYTHON=/path/to/python ...'"
}

make_venv() {
    python=$(find_python)
    # Debian ships venv without ensurepip until python3.x-venv is installed.
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "$package" || fail "$python cannot make virtual environments: install $package"
    fi
    say "making $venv with $("$python" -V)"
    "$python" -m venv --clear $venv
}

setup_python() {
    wanted=$(cat requirements.lock pyproject.toml | cksum)
    if [ -f $stamp ] && [ "$(cat $stamp)" = "$wanted" ] && $venv/bin/python -c '' 2>/dev/null; then return; fi
    if ! { [ -x $venv/bin/python ] && new_enough_python $venv/bin/python; }; then make_venv; fi
    pip="$venv/bin/python -m pip --disable-pip-version-check --no-input install --quiet --retries 5"
    say "installing the locked dependencies (some minutes the first time)"
    $pip --require-hashes -r requirements.lock </dev/null
    # The build backend is in the lock too, so nothing unlocked runs here.
    $pip --no-deps --no-build-isolation -e . </dev/null
    echo "$wanted" >$stamp
}

new_enough_java() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    [ "${major:-0}" -ge 17 ]
}

setup_java() {
    if new_enough_java; then return; fi
    help="Spark needs Java 17 or newer: install a headless JRE (Debian or Ubuntu: apt-get install
openjdk-17-jre-headless; Fedora: dnf install java-17-openjdk-headless; macOS: brew install openjdk@17) or set
JAVA_HOME to one"
    if [ -n "${JAVA_HOME:-}" ]; then fail "no Java 17+ in JAVA_HOME=$JAVA_HOME. $help"; fi
    apt_install openjdk-17-jre-headless || apt_install default-jre-headless || fail "$help"
    new_enough_java || fail "$help"
}

# One at a time: two makes at once would write into the same environment.
if [ "${SETUP_LOCKED:-}" = "" ] && command -v flock >/dev/null 2>&1; then
    SETUP_LOCKED=1 exec flock scripts/setup.sh sh scripts/setup.sh "$@"
fi
for part in "${@:-python}"; do
    case $part in
        python) setup_python ;;
        java) setup_java ;;
        *) fail "unknown part '$part': use python or java" ;;
    esac
done
