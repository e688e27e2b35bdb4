#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091,SC2009,SC2016,SC2048,SC2086,SC2154,SC2155,SC2317
# guest_systemd_checks.sh [NAME...]: runs in the guest as root, in a unit of systemd's; guest_lib.sh says what it prints.
# Our service, installed and started as INSTALL.md says, under whatever may happen to its processes.
set -eu

. /payload/guest_lib.sh
store=/var/lib/dsec/store
unit=dsec-lazyfs@var-lib-dsec-store.service
mnt=/mnt/small

# ---- what checks are made of

show() { systemctl show -P "$1" $unit; }
is_active() { [ "$(show ActiveState)/$(show SubState)" = active/running ]; }
main_is() { [ "$(cat "/proc/$(show MainPID)/comm" 2>/dev/null)" = "$1" ]; }
journal() { journalctl -u $unit -o cat --no-pager; }
journal_has() { journal | grep -q "$1"; }

fs_status() { dsec fs status --json 2>/dev/null; }
daemon() { fs_status | sed -n 's/^  "pid": \([0-9]*\).*/\1/p'; }
keeper() { fs_status | sed -n '/"keeper": {/,/}/s/.*"pid": \([0-9]*\).*/\1/p'; }
another_daemon() { [ -n "$(daemon)" ] && [ "$(daemon)" != "$1" ]; }
another_keeper() { [ -n "$(keeper)" ] && [ "$(keeper)" != "$1" ]; }
another_main() { is_active && [ "$(show MainPID)" != "$1" ]; }

no_processes() { ! pidof lazyfs-keeper lazyfsd dsec-lazyfs-ser >/dev/null; }
no_mounts() { ! grep -q ' fuse.lazyfs ' /proc/1/mounts; }
running() { # NAME: how many, without those that have ended and nobody has reaped yet
  local pid count=0
  for pid in $(pidof "$1"); do
    grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null || count=$((count + 1))
  done
  echo $count
}
one_each() { [ "$(running lazyfs-keeper) $(running lazyfsd)" = "1 1" ]; }
one_of_each() {
  eventually "one keeper and one daemon" one_each
  same "mounts" "mnt mnt-xattr" "$(sed -n 's|^lazyfs /run/dsec/lazyfs/[0-9a-f]*/\([^ ]*\) fuse.lazyfs .*|\1|p' \
    /proc/1/mounts | sort | xargs)"
}

drop_caches() { echo 3 >/proc/sys/vm/drop_caches; }
mount_it() {
  mkdir -p $mnt
  dsec umount $mnt >/dev/null 2>&1 || true   # what a check that failed has left
  dsec mount small $mnt || fail "mount: exit $?"
}
umount_it() { dsec umount $mnt || fail "umount: exit $?"; }
reads() { # compares with what umoci unpacked
  drop_caches
  list_tree $mnt >/tmp/ours 2>/tmp/err || true
  diff /tmp/theirs /tmp/ours >/tmp/diff || fail "$1: differs from umoci's: $(head -4 /tmp/diff)"
}
# A mount made now reads, and is gone afterwards.
works() {
  mount_it
  reads "$1"
  umount_it
}

resends() { [ "$(uname -r | cut -d. -f1)" -gt 6 ] || [ "$(uname -r | cut -d. -f2)" -ge 9 ]; }

# ---- installing

check_machine() {
  same "process 1" systemd "$(cat /proc/1/comm)"
  list_tree $payload/tree >/tmp/theirs
  [ "$(wc -l </tmp/theirs)" -gt 500 ] || fail "only $(wc -l </tmp/theirs) lines"
}

# The programs as `./dev install` does, the rest by the commands in the document, but for the last, which starts it.
check_install() {
  mkdir -p /usr/local/bin /etc/systemd/system /etc/dsec
  cp $payload/bin/* /usr/local/bin/
  printf 'node_cache = "on"\n' >/etc/dsec/lazyfsd.toml
  sed -n '/^## The daemon/,/^## /p' $payload/INSTALL.md | sed -n '/^```sh$/,/^```$/p' | sed '/^```/d' >/tmp/commands
  contains "commands" "daemon-reload" "$(cat /tmp/commands)"
  contains "last command" "systemctl enable --now" "$(tail -n 1 /tmp/commands)"
  sed '$d' /tmp/commands >/tmp/commands.install
  (cd $payload && sh -eu /tmp/commands.install) || fail "exit $?: $(cat /tmp/commands.install)"
  same "what is loaded" loaded "$(show LoadState)"
  systemd-analyze verify $unit >/tmp/out 2>&1 || fail "verify: $(cat /tmp/out)"
  same "complaints" "" "$(grep dsec /tmp/out || true)"
}

check_no_store() {
  same "systemctl start" 1 "$(status_of systemctl start $unit)"
  eventually "a message" journal_has "$store is no store: make one with"
  systemctl stop $unit || fail "stop: exit $?"
  same "state" inactive "$(show ActiveState)"
  no_processes || fail "processes are left"
}

check_start() {
  dsec compose --from "oci:$payload/small:v2" --name small >/dev/null 2>&1 || fail "compose: exit $?"
  no_processes || fail "compose has started a daemon"
  (cd $payload && sh -eu -c "$(tail -n 1 /tmp/commands)") || fail "exit $?: $(systemctl status --no-pager $unit)"
  is_active || fail "$(show ActiveState)/$(show SubState) after the start"
  main_is lazyfs-keeper || fail "the main process is no keeper"
  same "keeper" "$(show MainPID)" "$(keeper)"
  [ -L "/etc/systemd/system/multi-user.target.wants/$unit" ] || fail "it is not enabled"
  one_of_each
}

# ---- what it may and has

check_privileges() {
  local file=/proc/$(daemon)/status bits
  contains "status" "NoNewPrivs:1" "$(tr -d '\t' <"$file")"
  bits=$(sed -n 's/^CapEff:\t*//p' "$file")
  same "CAP_SYS_NICE" 1 "$((0x$bits >> 23 & 1))"
  same "CAP_SYS_MODULE" 0 "$((0x$bits >> 16 & 1))"
  same "bounding set" "$bits" "$(sed -n 's/^CapBnd:\t*//p' "$file")"
  same "filtered" 0 "$(sed -n 's/^Seccomp:\t*//p' "$file")"
  same "oom_score_adj" -500 "$(cat "/proc/$(daemon)/oom_score_adj")"
  contains "open files" 1048576 "$(grep '^Max open files' "/proc/$(daemon)/limits")"
  same "mount namespace" "$(readlink /proc/1/ns/mnt)" "$(readlink "/proc/$(daemon)/ns/mnt")"
}

check_mount() {
  mount_it
  reads "first time"
  reads "second time"
  [ -n "$(find /var/lib/dsec/cache -type f -size +0 | head -n 1)" ] || fail "nothing in the cache directory"
  contains "node cache" '"used": true' "$(fs_status | grep '"used"')"
  umount_it
}

# As INSTALL.md says: dsec makes the groups, and needs one that is handed to it.
check_run() {
  local text
  text=$(systemd-run --quiet --scope -p Delegate=yes dsec run --memory 64M small cat /sys/fs/cgroup/memory.max 2>/tmp/err) ||
    fail "exit $?"
  same "memory.max" 67108864 "$text"
}

# ---- whoever dies

check_killed_lazyfsd() {
  local main=$(show MainPID) pid=$(daemon)
  mount_it
  reads "before"
  kill -9 "$pid"
  eventually "another lazyfsd" another_daemon "$pid"
  if resends; then
    reads "after"
  else
    drop_caches
    cat $mnt/etc/passwd >/tmp/out 2>/tmp/err && fail "the old mount reads on a kernel that cannot resend"
    contains "readers" "endpoint is not connected" "$(cat /tmp/err)"
    journal_has "before Linux 6.9" || fail "the journal does not say why"
  fi
  umount_it
  works "new mount"
  is_active || fail "$(show ActiveState)/$(show SubState)"
  same "main process" "$main" "$(show MainPID)"
  same "restarts by systemd" 0 "$(show NRestarts)"
  one_of_each
}

# Of what the kernel kills for want of memory systemd ends the rest, unless the unit says otherwise (OOMPolicy=).
check_lazyfsd_without_memory() {
  local main=$(show MainPID) pid=$(daemon)
  echo 1000 >"/proc/$pid/oom_score_adj"
  echo f >/proc/sysrq-trigger
  eventually "the news" journal_has "has been killed by the OOM killer"
  eventually "another lazyfsd" another_daemon "$pid"
  is_active || fail "$(show ActiveState)/$(show SubState)"
  same "main process" "$main" "$(show MainPID)"
  works "new mount"
}

# lazyfsd loses no reader, whatever the kernel: the first keeper is systemd's child, those that lazyfsd starts are not.
check_killed_keeper() {
  local pid=$(daemon) main before
  mount_it
  for _ in first second third; do
    before=$(keeper)
    main=$(show MainPID)
    kill -9 "$before"
    reads "$_ time, without a keeper"
    eventually "another keeper" another_keeper "$before"
    eventually "another main process" another_main "$main"
    main_is dsec-lazyfs-ser || fail "nobody stands in for the keeper"
    same "daemon" "$pid" "$(daemon)"
  done
  reads "after all"
  umount_it
  one_of_each
}

check_reload() {
  local pid=$(daemon) main=$(show MainPID)
  mount_it
  systemctl reload $unit || fail "reload: exit $?"
  another_daemon "$pid" || fail "the daemon is the same one"
  same "main process" "$main" "$(show MainPID)"
  reads "after the upgrade"
  umount_it
}

# Of one that stands in for a keeper here.
check_restart() {
  local pid=$(daemon)
  main_is lazyfs-keeper && fail "nobody stands in"
  systemctl restart $unit || fail "restart: exit $?"
  is_active || fail "$(show ActiveState)/$(show SubState)"
  main_is lazyfs-keeper || fail "the main process is no keeper"
  another_daemon "$pid" || fail "the daemon is the same one"
  one_of_each
  works "new mount"
}

check_killed_all() {
  local pid=$(daemon) main=$(show MainPID)
  systemctl kill -s KILL $unit || fail "kill: exit $?"
  eventually "another main process" another_main "$main"
  main_is lazyfs-keeper || fail "the main process is no keeper"
  another_daemon "$pid" || fail "the daemon is the same one"
  one_of_each
  works "new mount"
}

# ---- stopping

check_stop() {
  mount_it
  systemctl stop $unit || fail "stop: exit $?"
  same "state" inactive "$(show ActiveState)"
  same "result" success "$(show Result)"
  no_processes || fail "left: $(ps | grep '[l]azyfs')"
  drop_caches
  cat $mnt/etc/passwd >/tmp/out 2>/tmp/err && fail "the mount still reads"
  umount_it
  no_processes || fail "umount has started a daemon"
  no_mounts || fail "left: $(grep fuse.lazyfs /proc/1/mounts)"
}

# Where one stands in for the keeper.
check_stop_after_killed_keeper() {
  local before
  systemctl start $unit || fail "start: exit $?"
  before=$(keeper)
  kill -9 "$before"
  eventually "another keeper" another_keeper "$before"
  eventually "another main process" another_main "$before"
  systemctl stop $unit || fail "stop: exit $?"
  same "state" inactive "$(show ActiveState)"
  same "result" success "$(show Result)"
  eventually "the end of the processes" no_processes
  no_mounts || fail "left: $(grep fuse.lazyfs /proc/1/mounts)"
}

# What dsec has started by itself is not taken over, and the unit waits for its end.
check_started_by_dsec() {
  systemd-run --quiet --scope dsec mount small $mnt || fail "mount: exit $?"
  same "systemctl start" 1 "$(status_of systemctl start $unit)"
  eventually "a message" journal_has "another lazyfs-keeper or lazyfsd serves"
  reads "while the unit tries"
  umount_it
  dsec fs stop || fail "dsec fs stop: exit $?"
  eventually "the unit" is_active
  works "new mount"
}

check_dsec_fs_stop() {
  dsec fs stop || fail "exit $?"
  eventually "the end of the processes" no_processes
  same "state" inactive "$(show ActiveState)"
  no_mounts || fail "left: $(grep fuse.lazyfs /proc/1/mounts)"
}

# ---- all of it

echo "INFO $(systemctl --version | head -n 1), up $(cut -d. -f1 /proc/uptime) s"
all='machine install no_store start privileges mount run killed_lazyfsd lazyfsd_without_memory reload killed_keeper restart
  killed_all stop stop_after_killed_keeper started_by_dsec dsec_fs_stop'
check_all ${*:-$all}
if [ $failed != 0 ]; then
  journal | sed 's/^/INFO journal: /' | tail -n 60
  systemctl --failed --no-pager --plain | sed 's/^/INFO /'
fi
# The machine goes down with the service and a mount in use.
systemctl start $unit || true
dsec mount small $mnt || true
summary
