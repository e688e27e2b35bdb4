#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Process 1 of the guest's initial RAM disk: finds the root file system and our disk, and becomes init=.
set -eu
busybox=/bin/busybox
$busybox mount -t proc none /proc
$busybox mount -t devtmpfs none /dev
while read -r module; do
  $busybox insmod "/modules/$module"
done </modules/order

wait_for() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ ! -b "$1" ] || return 0
    $busybox sleep 1
  done
  echo "no $1"
}
wait_for /dev/vda
wait_for /dev/vdb
$busybox mount -t ext4 /dev/vda /root
$busybox mount -t ext4 -o ro /dev/vdb /root/payload

init=/bin/sh
for word in $($busybox cat /proc/cmdline); do
  case $word in
    init=*) init=${word#init=} ;;
  esac
done
$busybox umount /dev
$busybox umount /proc
exec $busybox switch_root -c /dev/console /root "$init"
