#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a real image for tests and benches: OUTDIR/debian (an OCI layout) and OUTDIR/docker-archive.tar.
#   tag base     1 layer: Debian 12, mmdebstrap's minbase
#   tag tools    2 layers: base + python3, git, gcc, file capabilities on usr/local/bin/capped, and what
#                image_edits.py plants in srv/play
#   tag edited   4 layers: tools + every kind of change in srv/play and some to Debian's own files, as umoci
#                repack writes it + a layer of opaque directories (image_edits.py)
#   tag edited2  3 layers: version 2 of tools, 1 % of all bytes changed (make_version2.py); still runs
#   docker-archive.tar: `edited` as docker save writes it, named debian:edited
#
#   make_image.sh OUTDIR
#
# Packages come from the mirror that this machine's own apt uses; its name is not left in the image.
# The mirror must be one that apt inside a minbase can use: http.
# Idempotent, atomic and safe to run twice at once: see image_lib.sh. Root only. Takes about 50 s on two
# cores, 1.5 GB while it runs. Mounts are made in a private mount namespace, so that none can stay.
# Exit: 0 made or kept; 2 usage; 3 a needed package is missing (named; nothing is installed); 1 a step failed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/image_lib.sh"

[[ $# == 1 && $1 != -* ]] || die 2 "usage: make_image.sh OUTDIR"
[[ $EUID == 0 ]] || die 2 "must be root"
need umoci umoci
need skopeo skopeo
need mmdebstrap mmdebstrap
need setcap libcap2-bin
need python3 python3

SUITE=bookworm
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# The machine's own apt sources for the suite, whatever form they are in, and its apt's transport settings.
write_apt_sources() {
  apt-get indextargets --format "deb [signed-by=$KEYRING] \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
    'Created-By: Packages' | { grep " $SUITE" || true; } | sort -u >"$1"
  [[ -s $1 ]] || die 1 "apt on this machine has no sources for $SUITE"
}
write_apt_options() { apt-config dump | { grep -E '^Acquire::(https?|Check|Retries)' || true; } >"$1"; }

# Removes what names the mirror, or differs from run to run. The package lists are kept in $work for later.
clean_rootfs() {
  local root=$1
  rm -rf "$root"/etc/apt/sources.list.d/* "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/var/lib/apt/lists/* \
    "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb "$root"/var/cache/ldconfig/aux-cache \
    "$root"/etc/{resolv.conf,hostname,machine-id} "$root"/var/lib/dbus/machine-id \
    "$root"/var/lib/dpkg/*-old "$root"/var/cache/debconf/*-old "$root"/tmp/* "$root"/run/*
  find "$root/var/log" -type f -delete
  "$support/image_edits.py" clamp "$root" "$SOURCE_DATE_EPOCH"
}

make_base() {
  local root=$1
  unshare --mount mmdebstrap --quiet --variant=minbase --mode=root --aptopt="$work/apt.conf" \
    --dpkgopt=force-unsafe-io --skip=cleanup/apt/lists "$SUITE" "$root" "$work/apt.list"
  mv "$root/var/lib/apt/lists" "$work/lists"
  mkdir -p "$root/var/lib/apt/lists/partial"
  clean_rootfs "$root"
}

install_tools() {
  local root=$1
  cp "$work/apt.list" "$root/etc/apt/sources.list.d/0000apt.list"
  cp "$work/apt.conf" "$root/etc/apt/apt.conf.d/99mmdebstrap"
  [[ ! -e /etc/resolv.conf ]] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp -a "$work/lists/." "$root/var/lib/apt/lists/"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child sh -ec '
    mount --bind /dev "$1/dev" && mount -t proc proc "$1/proc"
    exec chroot "$1" env DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      apt-get install -qq -y --no-install-recommends python3 git gcc libc6-dev' sh "$root" \
    </dev/null >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; die 1 "apt-get install failed"; }
  cp "$root/usr/bin/true" "$root/usr/local/bin/capped"
  setcap cap_net_raw,cap_net_admin+ep "$root/usr/local/bin/capped"
  "$support/image_edits.py" plant "$root" "$SOURCE_DATE_EPOCH"
  clean_rootfs "$root"
}

# Changes to files of Debian's own, on top of those in srv/play.
edit_debian() {
  local root=$1
  rm -rf "$root/usr/share/doc/git" "$root/usr/share/common-licenses" "$root/etc/motd"
  rm "$root/usr/bin/perl"
  ln -s perl-is-gone "$root/usr/bin/perl"
  printf '\n# edited\n' >>"$root/etc/bash.bashrc"
  chmod 4755 "$root/usr/bin/env"
  mv "$root/etc/skel" "$root/etc/skel.moved"
  "$support/image_edits.py" edit "$root" "$EDIT_EPOCH"
}

build() {
  local layout=$work/out/debian bundle=$work/bundle root=$work/bundle/rootfs
  write_apt_sources "$work/apt.list"
  write_apt_options "$work/apt.conf"
  new_layout "$layout" base bash
  umoci unpack --image "$layout:base" "$bundle" 2>/dev/null
  make_base "$root"
  repack "$layout:base" "$bundle"
  step "base: $(find "$root" | wc -l) entries"
  install_tools "$root"
  repack "$layout:tools" "$bundle"
  step "tools: $(find "$root" | wc -l) entries"
  "$support/make_version2.py" "$root" "$work/layer.tar" "$EDIT_EPOCH"
  add_layer "$layout:tools" edited2 "$work/layer.tar"
  step "edited2: $(tar tf "$work/layer.tar" | wc -l) files changed"
  edit_debian "$root"
  repack "$layout:edited" "$bundle"
  "$support/image_edits.py" opaque-layer "$work/layer.tar" "$EDIT_EPOCH"
  add_layer "$layout:edited" edited "$work/layer.tar"
  step "edited: $(find "$root" | wc -l) entries before its opaque layer"
  umoci gc --layout "$layout"
  skopeo --insecure-policy --tmpdir "$work" copy --quiet "oci:$layout:edited" \
    "docker-archive:$work/out/docker-archive.tar:debian:edited"
  step "docker-archive.tar"
}

build_once "$1" build
