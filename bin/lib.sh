# shellcheck shell=bash
# Sourced by bin/test, bin/demo and .ci/run: finds or installs what they need, and goes to the
# project's root.

elixir_needed=1.17
rust_needed=1.95
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ex_burn"

# The same default as in lib/ex_burn/native_build.ex.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"

# Without a UTF-8 locale the Erlang VM reads and writes Latin-1.
if [ -z "${LC_ALL:-}${LC_CTYPE:-}${LANG:-}" ]; then export LC_ALL=C.UTF-8; fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'ex_burn: %s\n' "$*" >&2; }

fail() {
  say "$@"
  exit 1
}

# Is version $2 at least $1?
at_least() { [ -n "$2" ] && printf '%s\n' "$1" "$2" | sort -V -C; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Sets elixir_side to yes, or to no where only the Rust part can be built and run.
setup() {
  check_rust
  elixir_side=yes
  if ! have_elixir && ! install_elixir; then
    leave_out_elixir "Elixir $elixir_needed or newer isn't here. Install it with Erlang/OTP 25 or" \
      "newer, from your system's packages or as https://elixir-lang.org/install.html says."
  elif ! have_dependencies; then
    leave_out_elixir "The dependencies can't be had. Install Hex (mix local.hex), or name a folder of" \
      "their checkouts (nx, axon, telemetry ...) in EX_BURN_DEPS; see 'Without Hex' in README.md."
  fi
}

check_rust() {
  if ! command -v cargo >/dev/null; then PATH="$HOME/.cargo/bin:$PATH"; fi
  local found
  found=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) || true
  at_least "$rust_needed" "$found" && command -v cargo >/dev/null ||
    fail "Rust $rust_needed or newer is needed, with cargo (found: ${found:-none}). Install it with" \
      "rustup, see https://www.rust-lang.org/tools/install, or run 'rustup update stable'."
  command -v cc >/dev/null ||
    fail "Rust needs a C compiler to link with: install gcc (Debian: apt-get install gcc libc6-dev)."
}

have_elixir() {
  command -v erl >/dev/null && at_least "$elixir_needed" "$(elixir --short-version 2>/dev/null)"
}

# Debian only: from its own packages, if need be those of the next release.
install_elixir() {
  [ "$(. /etc/os-release 2>/dev/null && echo "$ID")" = debian ] || return 1
  say "Elixir $elixir_needed or newer isn't here: installing it from Debian's packages"
  as_root apt-get update -q || return 1
  local release=()
  if ! at_least "$elixir_needed" "$(apt_candidate elixir)"; then
    add_trixie || return 1
    release=(-t trixie)
  fi
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    ${release[@]+"${release[@]}"} elixir erlang-dev erlang-nox || return 1
  have_elixir
}

apt_candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: *//p'; }

# Adds trixie from the mirror that this machine uses, with a priority so low that nothing is taken
# from it unasked.
add_trixie() {
  local sources
  sources=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages')
  if ! grep -q '^trixie main ' <<<"$sources"; then
    local codename mirror
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$(sed -n "s/^$codename main //p" <<<"$sources" | head -n 1)
    [ -n "$mirror" ] || return 1
    as_root tee /etc/apt/sources.list.d/ex_burn-trixie.list >/dev/null <<<"deb $mirror trixie main"
    as_root tee /etc/apt/preferences.d/ex_burn-trixie >/dev/null \
      <<<$'Package: *\nPin: release n=trixie\nPin-Priority: 100'
    as_root apt-get install -q -y debian-archive-keyring
    as_root apt-get update -q
  fi
}

# A Vulkan driver: one of the machine's, or that of Mesa for the CPU, which counts as a GPU in the tests.
setup_gpu() {
  export EX_BURN_SOFTWARE_GPU=1
  # Mesa's layer that chooses among its devices looks for a display, and complains where there is none.
  export NODEVICE_SELECT=1
  if [ "$(uname -s)" != Linux ] || have_vulkan; then return; fi
  say "there is no Vulkan driver: installing Mesa's"
  as_root apt-get update -q
  install_mesa || install_mesa -t trixie || true
  have_vulkan || fail "EX_BURN_TEST_DEVICE=gpu needs a Vulkan driver, such as mesa-vulkan-drivers."
}

have_vulkan() { compgen -G "/usr/share/vulkan/icd.d/*.json" || compgen -G "/etc/vulkan/icd.d/*.json"; } >/dev/null

install_mesa() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    "$@" libvulkan1 mesa-vulkan-drivers
}

# From a folder of checkouts (mix/deps_folder.exs), else from Hex, which is installed if it can be.
have_dependencies() {
  if [ -n "${EX_BURN_DEPS:-}" ]; then
    [ -d "$EX_BURN_DEPS" ] || fail "EX_BURN_DEPS names $EX_BURN_DEPS, which isn't a folder."
  elif [ -n "${EX_BURN_DEPS+empty}" ] || [ ! -d "$cache/deps" ]; then
    mix local.hex --force --if-missing && mix local.rebar --force --if-missing
  fi
}

# Says so at once and again at the end, below all that cargo prints.
leave_out_elixir() {
  elixir_side=no
  left_out=("$@")
  tell_left_out
  if [ "${CI:-}" = true ]; then fail "CI=true: leaving out the Elixir side counts as a failure."; fi
  trap tell_left_out EXIT
}

tell_left_out() {
  say "======================================================================"
  say "THE ELIXIR SIDE IS LEFT OUT; only the Rust engine is built and run."
  say "${left_out[@]}"
  say "======================================================================"
}
