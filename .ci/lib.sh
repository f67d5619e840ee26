# Shared by the scripts in .ci: source it from a script whose working directory is the root of the checkout.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=${PIP_QUIET:-2} # errors only

# Real data sets, if they lie beside the checkout. Tests that need them are skipped without.
if [ -z "${BAYOU_DATA:-}" ] && [ -d ../shared/data ]; then
    BAYOU_DATA=$(cd ../shared/data && pwd)
    export BAYOU_DATA
fi

# The folder of a virtual environment that holds its programs.
if [ "${OS:-}" = Windows_NT ]; then bin=Scripts; else bin=bin; fi

# Print the commands in the first fenced block after <!-- NAME --> in the README.
readme_block() {
    awk -v marker="<!-- $1 -->" '
        { sub(/\r$/, "") }
        $0 == marker { found = 1; next }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside { print }
    ' README.md | grep . || { echo "README.md has no block after <!-- $1 -->" >&2; return 1; }
}

# Run a block of the README as it stands (on Windows with the paths of its virtual environments).
run_readme_block() {
    local commands
    commands=$(readme_block "$1")
    if [ "$bin" = Scripts ]; then
        commands=$(printf '%s\n' "$commands" | sed -e 's#\.venv/bin/#.venv/Scripts/#g' -e 's#^python3 #python #')
    fi
    bash -euo pipefail -c "$commands"
}

# Have a .venv with the tests' packages: create it, or complete one that a demo made. Arguments are more to install.
need_venv() {
    [ -d ".venv/$bin" ] || "${PYTHON:-python3}" -m venv .venv
    ".venv/$bin/python" -c 'import bayou, mypy, pytest' 2>/dev/null ||
        ".venv/$bin/python" -m pip install --no-compile '.[test]'
    if [ $# -gt 0 ]; then ".venv/$bin/python" -m pip install "$@"; fi
}

# Print a command's output only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || { echo "$output"; return 1; }
}
