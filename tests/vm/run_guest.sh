#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Boots Debian 12's own kernel (6.1) with cgroup v2 and nothing else, and runs our programs in it: what a newer kernel or
# a hybrid cgroup layout on this machine cannot show. Twice: "bare" has no init but guest_init.sh and runs
# guest_checks.sh; "systemd" has systemd and runs guest_systemd_checks.sh. QEMU translates (TCG); no KVM.
#
#   DSEC_VM_TESTS=ON run_guest.sh BUILD_BIN_DIR WORKDIR
#
# WORKDIR keeps the guest's root file system and kernel (remove it to get newer packages), the small image, and
# console-BOOT.log of the last run. $DSEC_VM_TIMEOUT: seconds that each boot may take, 900. $DSEC_VM_BOOTS: "bare" or
# "systemd", for one of them only; $DSEC_VM_CHECKS: names of checks of that one, to run these only; nearly all need
# "compose", or "machine install start", before them.
# Exit: 0 every check passed; 1 one did not, or a guest did not get that far (the console is printed); 2 usage;
# 77 it cannot be done here, with the reason.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$here/../..
support=$here/../support
source "$here/guest_root.sh"

GUEST_TIMEOUT=${DSEC_VM_TIMEOUT:-900}
# Process 1, and what follows it on the kernel's command line.
declare -A INIT=([bare]=guest_init.sh
  [systemd]='guest_systemd_init.sh systemd.wants=dsec-checks.service systemd.getty_auto=no systemd.show_status=error')
PROGRAMS=(dsec lazyfs-keeper lazyfsd dsec-monitor dsec-init)

say() { printf '%4ds %s\n' "$SECONDS" "$*"; }
die() { printf 'run_guest.sh: %s\n' "$2" >&2; exit "$1"; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
need() { command -v "$1" >/dev/null || skip "$1 is not installed (Debian has it in $2)"; }

check_machine() {
  [[ ${DSEC_VM_TESTS:-OFF} == ON ]] || skip "takes minutes; set DSEC_VM_TESTS=ON to run it"
  [[ $EUID == 0 ]] || skip "needs root, to make file systems with other owners and devices"
  need qemu-system-x86_64 qemu-system-x86
  need mmdebstrap mmdebstrap
  need mkfs.ext4 e2fsprogs
  need umoci umoci
  local program
  for program in "${PROGRAMS[@]}"; do
    [[ -x $bin/$program ]] || die 2 "$bin/$program is not there: build it first"
  done
}

# The second disk: our programs and what is installed with them, the image as an OCI layout, the same image unpacked by
# umoci, and the scripts.
make_payload() {
  local image=$work/small-image payload=$scratch/payload status=0
  "$support/make_small_image.sh" "$image" >"$scratch/log" 2>&1 || status=$?
  [[ $status != 3 ]] || skip "$(tail -1 "$scratch/log")"
  [[ $status == 0 ]] || die 1 "making the small image failed: $(tail -3 "$scratch/log")"
  mkdir -p "$payload/bin"
  cp "${PROGRAMS[@]/#/$bin/}" "$payload/bin/"
  cp -r "$image/small" "$payload/small"
  umoci raw unpack --image "$image/small:v2" "$payload/tree" >/dev/null 2>&1
  cp -r "$top/INSTALL.md" "$top/conf" "$here"/guest_*.sh "$payload/"
  echo "${DSEC_VM_CHECKS:-}" >"$payload/checks"
  make_disk "$payload" "$scratch/payload.img" 64
}

# Dies with us and at the deadline: TERM from setpriv reaches timeout, which passes it on.
boot() {
  local drive=format=raw,if=virtio,cache=unsafe status=0
  ended=
  : >"$console"
  TMPDIR=$scratch setpriv --pdeathsig TERM timeout --kill-after=10 "$GUEST_TIMEOUT" \
    qemu-system-x86_64 -accel tcg,thread=multi -M q35 -cpu max -m 1536 -smp 2 \
    -nodefaults -display none -no-reboot -nic none -serial "file:$console" \
    -drive "file=$root/root.img,snapshot=on,$drive" -drive "file=$scratch/payload.img,readonly=on,$drive" \
    -kernel "$root/vmlinuz" -initrd "$root/initrd" \
    -append "console=ttyS0 loglevel=2 panic=-1 cgroup_no_v1=all init=/payload/${INIT[$1]}" \
    </dev/null || status=$?
  case $status in
    0) ;;
    124 | 137) ended="the guest did not end within $GUEST_TIMEOUT s" ;;
    *) ended="qemu ended with status $status" ;;
  esac
}

# 0 when the guest counted to its end, nothing failed, it went down without a complaint and qemu ended well.
judge() {
  local text summary
  text=$(tr -d '\r' <"$console")
  summary=$(grep -E '^GUEST [0-9]+ passed, [0-9]+ failed$' <<<"$text" | tail -1) || true
  if [[ -z $ended ]] && sed -n '/^GUEST /,$p' <<<"$text" | grep -q FAILED; then
    ended="the guest did not go down well"
  fi
  if [[ -z $ended && $summary =~ ^GUEST\ [1-9][0-9]*\ passed,\ 0\ failed$ ]]; then
    grep -E '^(CHECK|INFO) ' <<<"$text"
    say "$summary"
    return 0
  fi
  printf '%s\n' "--- the guest's console" "$text" "---"
  grep -E '^CHECK ' <<<"$text" || true
  say "${summary:-the guest did not finish its checks}${ended:+; $ended}"
  return 1
}

[[ $# == 2 ]] || die 2 "usage: DSEC_VM_TESTS=ON run_guest.sh BUILD_BIN_DIR WORKDIR"
bin=$1
work=$2
failed=0
check_machine
mkdir -p "$work"
work=$(cd "$work" && pwd)
exec 9>"$work/.lock"
flock 9
rm -rf --one-file-system "$work"/tmp.*   # what a killed run left
scratch=$(mktemp -d "$work/tmp.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

root=$work/root-$(guest_root_key)
[[ -e $root ]] || make_guest_root "$root"
say "guest root and kernel: $(cat "$root/kernel")"
make_payload
for boot in ${DSEC_VM_BOOTS:-bare systemd}; do
  [[ -n ${INIT[$boot]:-} ]] || die 2 "no boot '$boot': bare, systemd"
  console=$work/console-$boot.log
  say "booting: $boot"
  boot "$boot"
  judge || failed=1
done
exit "$failed"
