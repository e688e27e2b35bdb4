# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2034
# Sourced by guest_checks.sh and guest_systemd_checks.sh, under busybox's shell. Each check_NAME of theirs runs in a shell
# of its own and is one line, "CHECK NAME ok|FAIL detail"; the last line is "GUEST n passed, n failed".

payload=/payload
passed=0
failed=0

fail() {
  echo "$*"
  [ ! -s /tmp/err ] || echo "(standard error: $(tail -n 3 /tmp/err))"
  exit 1
}

same() { # WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

contains() { # WHAT PART TEXT
  case $3 in
    *"$2"*) ;;
    *) fail "$1: no '$2' in '$3'" ;;
  esac
}

status_of() {
  local status=0
  "$@" >/tmp/out 2>/tmp/err || status=$?
  echo $status
}

eventually() { # WHAT COMMAND...: within 12 s and the time that the command takes
  local what=$1 tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || fail "$what does not happen: $(dsec ps)"
    sleep 0.2
  done
}

# One line for each entry; a directory's size and links are its file system's affair.
list_tree() {
  (cd "$1" && find . ! -type d -exec stat -c '%n %f %u:%g %s %h %Y %t:%T' {} + -o -exec stat -c '%n %f %u:%g %Y' {} + &&
    find . -type l -exec readlink {} \; && find . -type f -exec sha256sum {} +) | sort
}

check() {
  local name=$1 detail begin
  begin=$(cut -d. -f1 /proc/uptime)
  : >/tmp/err
  if detail=$("check_$name" 2>&1 </dev/null); then
    passed=$((passed + 1))
    echo "CHECK $name ok $(($(cut -d. -f1 /proc/uptime) - begin)) s"
  else
    failed=$((failed + 1))
    echo "CHECK $name FAIL $(echo "$detail" | tr -s '\n ' ' ' | cut -c 1-600)"
  fi
}

# NAME...: counts what passes and fails.
check_all() {
  local name
  for name in "$@"; do
    check "$name"
  done
}

summary() { echo "GUEST $passed passed, $failed failed"; }
