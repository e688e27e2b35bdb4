#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC1091,SC2010,SC2016,SC2048,SC2086,SC2154,SC2317
# guest_checks.sh [NAME...]: runs in the guest as root; guest_lib.sh says what it prints. Everything uses dsec's default
# directories, on the guest's own disk.
set -eu

. /payload/guest_lib.sh
groups=/sys/fs/cgroup/dsec
record=/tmp/record.json

# ---- what checks are made of

run() { timeout -s KILL 120 dsec run "$@"; }

# What `run` prints, of both streams; it must succeed.
shell() { # SCRIPT [FLAG...]
  local script=$1 text
  shift
  text=$(run "$@" small sh -c "$script" 2>&1) || fail "exit $?: $text"
  echo "$text"
}

recorded() { # KEY: of the record that --json-file wrote
  tr -d '\n' <$record | sed -n "s/.*\"$1\": *\"\{0,1\}\([^,\"}]*\).*/\1/p"
}

groups_left() { find $groups -mindepth 1 -type d 2>/dev/null || true; }
no_groups() { [ -z "$(groups_left)" ]; }
none_listed() { [ "$(dsec ps | wc -l)" = 1 ]; }
one_running() { dsec ps --json | grep -q '"state": "running"'; }
command_runs() { pidof sleep >/dev/null; }
command_gone() { ! pidof sleep >/dev/null; }
no_monitors() { ! pidof dsec-monitor >/dev/null; }

# ---- the machine

check_kernel() {
  contains "kernel" "6.1." "$(uname -r)"
  same "version 1 hierarchies" "" "$(grep ' cgroup ' /proc/self/mounts || true)"
  contains "controllers" "memory" "$(cat /sys/fs/cgroup/cgroup.controllers)"
  contains "controllers" "pids" "$(cat /sys/fs/cgroup/cgroup.controllers)"
}

check_libraries() {
  for program in dsec lazyfs-keeper lazyfsd dsec-monitor; do
    same "$program misses" "" "$(LD_TRACE_LOADED_OBJECTS=1 $payload/bin/$program | grep 'not found' || true)"
  done
}

check_doctor() {
  dsec doctor >/tmp/doctor || fail "exit $?: $(grep -A 2 '^missing' /tmp/doctor)"
  contains "cgroups" "version 2: cpu, memory, pids, devices" "$(grep '^ok  *cgroups' /tmp/doctor)"
  contains "overlayfs" "mounted" "$(grep '^ok  *overlayfs ' /tmp/doctor)"
  contains "crun" "ran a container" "$(grep '^ok  *crun' /tmp/doctor)"
}

# ---- images and mounts

check_compose() {
  same "status" 0 "$(status_of dsec compose --from "oci:$payload/small:v2" --name small --json)"
  contains "environments" "small" "$(dsec env ls)"
  dsec store check >/tmp/out 2>&1 || fail "store check: $(cat /tmp/out)"
}

check_mount() {
  mkdir -p /mnt/small
  dsec mount small /mnt/small || fail "exit $?"
  list_tree /mnt/small >/tmp/ours
  list_tree $payload/tree >/tmp/theirs
  dsec umount /mnt/small || fail "umount: exit $?"
  [ "$(wc -l </tmp/ours)" -gt 500 ] || fail "only $(wc -l </tmp/ours) lines"
  diff /tmp/theirs /tmp/ours >/tmp/diff || fail "differs from umoci's: $(head -4 /tmp/diff)"
}

# ---- runs

check_statuses() {
  same "true" 0 "$(status_of run small true)"
  same "false" 1 "$(status_of run small false)"
  same "exit 7" 7 "$(status_of run small sh -c 'exit 7')"
  same "kill -9" 137 "$(status_of run small sh -c 'kill -9 $$')"
  same "no such command" 127 "$(status_of run small no-such-command)"
  same "not executable" 126 "$(status_of run small /etc/passwd)"
}

check_streams() {
  head -c 300000 /dev/urandom >/tmp/sent
  run small sh -c 'cat; echo aside >&2' </tmp/sent >/tmp/received 2>/tmp/err || fail "exit $?: $(cat /tmp/err)"
  cmp /tmp/sent /tmp/received || fail "what came back differs"
  same "standard error" "aside" "$(cat /tmp/err)"
}

check_timeout() {
  same "status" 124 "$(status_of run --json-file $record --timeout 2s small sleep 12345)"
  same "timed_out" true "$(recorded timed_out)"
  same "infra" false "$(recorded infra)"
  eventually "the end of the command" command_gone
}

# A tree that lazyfs shows, under an overlay of this kernel, which has no lowerdir+.
check_overlay() {
  local script='set -e
    grep -q "^[^ ]* / overlay " /proc/self/mounts
    echo more >>/etc/passwd; chmod 600 /etc/group; rm -r /srv; mkdir /srv; echo new >/srv/new
    ln /etc/passwd /etc/linked; mv /etc/group /etc/moved; mkfifo /etc/fifo; rm /bin/ls
    [ "$(ls -A /srv 2>/dev/null || busybox ls -A /srv)" = new ]
    [ "$(tail -n 1 /etc/linked)" = more ]; [ "$(stat -c %a /etc/moved)" = 600 ]; ! [ -e /bin/ls ]; echo fine'
  same "first run" "fine" "$(shell "$script")"
  same "second run" "fine" "$(shell "$script")"
  same "what stays" "" "$(ls -A /var/lib/dsec/sandboxes | grep -v '^\.' || true)"
  run --json-file $record --keep --name kept small sh -c 'echo kept >/file' || fail "keep: exit $?"
  same "kept" "kept" "$(cat "$(recorded upper)/file")"
  dsec rm kept || fail "rm: exit $?"
}

# ---- limits

check_memory() {
  local dd='dd if=/dev/zero of=/dev/null count=1'
  # shellcheck disable=SC2086
  same "status" 137 "$(status_of run --json-file $record --memory 64M small $dd bs=200M)"
  same "oom_killed" true "$(recorded oom_killed)"
  same "cause" oom "$(recorded cause)"
  same "infra" false "$(recorded infra)"
  # shellcheck disable=SC2086
  same "below the limit" 0 "$(status_of run --memory 64M small $dd bs=20M)"
  same "memory.max" 67108864 "$(shell 'cat /sys/fs/cgroup/memory.max' --memory 64M)"
  same "memory.oom.group" 1 "$(shell 'cat /sys/fs/cgroup/memory.oom.group' --memory 64M)"
}

check_pids() {
  local most=0 now bomb file
  same "pids.max" 22 "$(shell 'cat /sys/fs/cgroup/pids.max' --pids 20)"   # two are ours
  same "default pids.max" 4098 "$(shell 'cat /sys/fs/cgroup/pids.max')"
  run --pids 20 --timeout 8s --json-file $record small sh -c 'f() { f | f & }; f; sleep 100' >/dev/null 2>&1 &
  bomb=$!
  while kill -0 $bomb 2>/dev/null; do
    for file in "$groups"/*/pids.current; do
      now=$(cat "$file" 2>/dev/null) || continue
      [ "${now:-0}" -le "$most" ] || most=$now
    done
    sleep 0.2
  done
  wait $bomb || true
  [ "$most" -gt 10 ] || fail "there were only $most processes"
  [ "$most" -le 22 ] || fail "there were $most processes"
  same "infra" false "$(recorded infra)"
}

check_cpu() {
  local script='cat /sys/fs/cgroup/cpu.max; timeout 3 sh -c "while :; do :; done"
    sed -n "s/^nr_throttled //p" /sys/fs/cgroup/cpu.stat' text
  text=$(shell "$script" --cpus 0.25)
  same "cpu.max" "25000 100000" "$(echo "$text" | head -n 1)"
  [ "$(echo "$text" | tail -n 1)" -gt 0 ] || fail "never throttled: $text"
}

check_groups_inside() {
  same "own group" "0::/" "$(shell 'cat /proc/self/cgroup')"
  same "version 1" "" "$(shell 'grep " cgroup " /proc/self/mounts || true')"
  contains "cgroup mount" "ro," "$(shell 'grep " /sys/fs/cgroup cgroup2 " /proc/self/mounts')"
  contains "writing" "ead-only" "$(shell 'echo max >/sys/fs/cgroup/pids.max || true')"
}

# ---- confinement

# On version 2 the device policy is an eBPF program. The same open works outside, and mknod is allowed inside.
check_devices() {
  local disk text node
  disk=$(tr : ' ' </sys/class/block/vda/dev)
  head -c 1 /dev/vda >/tmp/out || fail "the disk cannot be read outside either"
  # /dev inside is a tmpfs without nodev, so nothing but the policy refuses.
  for node in "b $disk" "c 1 1" "c 1 11" "c 10 229"; do
    text=$(shell "mknod /dev/node $node && { head -c 1 /dev/node || true; }")
    contains "read of $node" "not permitted" "$text"
    text=$(shell "mknod /dev/node $node && { : >/dev/node || true; }")
    contains "write to $node" "not permitted" "$text"
  done
  text=$(shell "mknod /node b $disk && { head -c 1 /node || true; }")
  contains "read on the root file system" "ermi" "$text"
  text='for d in null zero full random urandom; do : </dev/$d; done; echo x >/dev/null; head -c 3 /dev/urandom | wc -c'
  same "what is allowed" 3 "$(shell "$text")"
}

check_capabilities() {
  local status
  status=$(shell 'cat /proc/self/status' | tr '\t' ' ')
  contains "effective" "CapEff: 00000000a80425fb" "$status"
  contains "bounding" "CapBnd: 00000000a80425fb" "$status"
  contains "ambient" "CapAmb: 0000000000000000" "$status"
  contains "seccomp" "Seccomp: 2" "$status"
  contains "privileges" "NoNewPrivs: 1" "$status"
  same "mount" 1 "$(status_of run small mount -t tmpfs none /tmp)"
  same "unshare" 1 "$(status_of run small unshare -U true)"
}

# ---- whoever dies, nothing stays

clean() {
  eventually "the end of the command" command_gone
  eventually "an empty dsec ps" none_listed
  same "the next run" 0 "$(status_of run small true)"
  eventually "the end of the monitors" no_monitors
  eventually "an empty $groups" no_groups
  same "mounts left" "" "$(grep /var/lib/dsec/sandboxes /proc/self/mounts || true)"
  same "files left" "" "$(ls -A /var/lib/dsec/sandboxes | grep -v '^\.' || true)"
}

kill_during_run() { # VICTIM...: program names; the client is called dsec
  local client status=0 victims
  eventually "the end of earlier monitors" no_monitors
  dsec run --json-file $record small sleep 12345 >/dev/null 2>&1 &
  client=$!
  eventually "a running sandbox" one_running
  eventually "the command" command_runs
  victims=$(pidof "$@") || fail "no $*"
  # shellcheck disable=SC2086
  kill -9 $victims
  wait $client || status=$?
  echo $status
}

check_killed_monitor() {
  same "status" 125 "$(kill_during_run dsec-monitor)"
  clean
}

check_killed_crun() {
  same "status" 125 "$(kill_during_run crun)"
  same "infra" true "$(recorded infra)"
  clean
}

check_killed_client() {
  same "status" 137 "$(kill_during_run dsec)"
  clean
}

# Nobody is left to clean up: the next run that sweeps does, at most 10 s later.
check_killed_client_and_monitor() {
  same "status" 137 "$(kill_during_run dsec dsec-monitor)"
  eventually "the end of the command" command_gone
  contains "dsec ps" dead "$(dsec ps)"
  sleep 11
  same "the run that sweeps" 0 "$(status_of run small true)"
  clean
}

check_parallel() {
  local i runs=''
  for i in 0 1 2 3 4 5 6 7 8 9; do
    run --memory 64M --cpus 1 --pids 50 small sh -c "echo $i >/mine; sleep 2; cat /mine; exit $i" \
      >/tmp/parallel.$i 2>&1 &
    runs="$runs $!"
  done
  i=0
  for client in $runs; do
    status=0
    wait "$client" || status=$?
    same "run $i" "$i $i" "$status $(cat /tmp/parallel.$i)"
    i=$((i + 1))
  done
  clean
}

# As in a container with a cgroup namespace: the top of what we see has processes in it, ours, so no controller can be
# handed on (cgroup-v2.rst, "No Internal Process Constraint"). Without a limit that works; with one it is our failure.
check_inside_a_group() {
  # busybox's unshare has no -C.
  local inside='umount /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec dsec run "$@"' status
  # Hands the controllers to the group and starts lazyfsd.
  same "outside" 0 "$(status_of run --memory 64M small true)"
  mkdir -p /sys/fs/cgroup/box
  contains "controllers" "cpu memory pids" "$(tr '\n' ' ' </sys/fs/cgroup/box/cgroup.controllers)"
  in_box() {
    sh -c 'echo 0 >/sys/fs/cgroup/box/cgroup.procs; exec /usr/bin/unshare -C -m sh -c "$@"' sh "$inside" sh "$@"
  }
  same "without limits" 0 "$(status_of in_box small true)"
  status=$(status_of in_box --memory 64M small true)
  same "with a limit" 125 "$status"
  contains "message" "has processes" "$(cat /tmp/err)"
  same "groups left" "" "$(find /sys/fs/cgroup/box -mindepth 1 -type d)"
  eventually "an empty group" rmdir /sys/fs/cgroup/box 2>/dev/null
}

# ---- all of it

echo "INFO kernel $(uname -r), up $(cut -d. -f1 /proc/uptime) s; $(crun --version | head -n 1)"
all='kernel libraries doctor compose mount statuses streams timeout overlay memory pids cpu groups_inside devices
  capabilities parallel killed_monitor killed_crun killed_client killed_client_and_monitor inside_a_group'
check_all ${*:-$all}
[ ! -e /tmp/doctor ] || sed 's/^/INFO doctor: /' /tmp/doctor
if [ $failed != 0 ]; then
  sed 's/^/INFO daemon: /' /run/dsec/lazyfs/*/*.log 2>/dev/null | tail -n 20 || true
  dmesg | sed 's/^/INFO kernel: /' | tail -n 30
fi
dsec fs stop --force || true
summary
