#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC3045
# Process 1 of the guest: the mounts that an init makes, with cgroup v2 alone, then the checks, then power off.
set -eu
export PATH=/payload/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs -o nosuid dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o nosuid,noexec,gid=5,mode=620 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev shm /dev/shm
mount -t tmpfs -o nosuid,nodev,mode=755 run /run
mount -t tmpfs -o nosuid,nodev tmp /tmp
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 /sys/fs/cgroup
ln -sfn /proc/self/fd /dev/fd
mount --make-rshared /   # as systemd leaves it
for module in fuse overlay erofs loop; do
  modprobe "$module" || echo "no module $module"
done
hostname guest
ulimit -n 20000
ip link set lo up

cd /tmp
# shellcheck disable=SC2046
/payload/guest_checks.sh $(cat /payload/checks) </dev/null || echo "guest_checks.sh ended with status $?"
sync
poweroff -f
