#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes OUTDIR/small, an OCI layout of about 2 MB, in under 3 s, for quick tests:
#   tag v1  1 layer: static busybox with its applets, /etc/passwd, the entries image_edits.py plants
#   tag v2  2 layers: v1 + every kind of change (image_edits.py edit), as umoci repack writes it
#   tag v3  3 layers: v2 + opaque directories, whiteouts beside new entries and more that umoci repack does
#           not write (image_edits.py opaque-layer)
#   tag quirks  4 layers: v3 + implied parents and whiteouts below a file (image_edits.py quirks-layer says
#           what umoci and podman make of them). umoci and podman agree on all other tags.
#
#   make_small_image.sh OUTDIR
#
# Idempotent, atomic and safe to run twice at once: see image_lib.sh. Root only (owners, devices).
# Exit: 0 made or kept; 2 usage; 3 a needed package is missing (named; nothing is installed); 1 a step failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/image_lib.sh"

[[ $# == 1 && $1 != -* ]] || die 2 "usage: make_small_image.sh OUTDIR"
[[ $EUID == 0 ]] || die 2 "must be root"
need umoci umoci
need python3 python3
need setcap libcap2-bin
[[ -x /bin/busybox ]] || die 3 "/bin/busybox is missing: apt-get install busybox-static"

fill_rootfs() {
  local root=$1
  mkdir -p "$root"/{bin,dev,etc,proc,root,run,srv,sys,usr/bin,var/lib}
  install -d -m 1777 "$root/tmp"
  install -m 755 /bin/busybox "$root/bin/busybox"
  busybox --list | while read -r applet; do
    [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
  done
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\n' >"$root/etc/group"
}

build() {
  local work=$1 layout=$1/out/small bundle=$1/bundle
  new_layout "$layout" v1 sh
  umoci unpack --image "$layout:v1" "$bundle" 2>/dev/null
  fill_rootfs "$bundle/rootfs"
  "$support/image_edits.py" plant "$bundle/rootfs" "$SOURCE_DATE_EPOCH"
  repack "$layout:v1" "$bundle"
  step "v1: $(find "$bundle/rootfs" | wc -l) entries"
  "$support/image_edits.py" edit "$bundle/rootfs" "$EDIT_EPOCH"
  repack "$layout:v2" "$bundle"
  step "v2: $(find "$bundle/rootfs" | wc -l) entries"
  "$support/image_edits.py" opaque-layer "$work/opaque.tar" "$EDIT_EPOCH"
  add_layer "$layout:v2" v3 "$work/opaque.tar"
  "$support/image_edits.py" quirks-layer "$work/quirks.tar" "$EDIT_EPOCH"
  add_layer "$layout:v3" quirks "$work/quirks.tar"
  umoci gc --layout "$layout"
  step "v3, quirks"
}

build_once "$1" build
