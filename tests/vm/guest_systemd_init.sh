#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of the guest's second boot until it becomes systemd, which then starts guest_systemd_checks.sh and powers off
# when that has ended. No udev, no getty: no unit of ours needs any.
set -eu
mount -t tmpfs -o nosuid,nodev,mode=755 run /run
mkdir -p /run/systemd/system
cat >/run/systemd/system/dsec-checks.service <<'END'
[Unit]
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Type=oneshot
Environment=HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/bin/sh -c 'exec /payload/guest_systemd_checks.sh $(cat /payload/checks) >/dev/ttyS0 2>&1'
END
echo 0123456789abcdef0123456789abcdef >/etc/machine-id   # without it every unit of systemd's would be enabled
exec /lib/systemd/systemd
