# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Sourced by make_image.sh and make_small_image.sh: build an image directory once, whoever asks first.
#
#   build_once OUTDIR FUNCTION   calls FUNCTION WORK, which fills WORK/out; WORK/out then becomes OUTDIR.
#                                An OUTDIR that exists is complete and is kept. Callers at the same time wait
#                                for each other (flock on .NAME.lock beside OUTDIR, which stays). Nothing else
#                                is left beside OUTDIR, also after a failure; what a kill -9 left is removed
#                                by the next call.
#   step TEXT                    one line on stdout, with the seconds so far
#   die STATUS TEXT              one line on stderr, exit STATUS
#   need COMMAND PACKAGE         exit 3 when COMMAND is missing, naming the Debian package that has it
#
# SOURCE_DATE_EPOCH: every time stamp an image gets is this or up to a day later. CREATED: the same, RFC 3339.

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1747699200}
EDIT_EPOCH=$((SOURCE_DATE_EPOCH + 3600))
CREATED=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
support=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

step() { printf '%4ds %s\n' "$SECONDS" "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$2" >&2; exit "$1"; }
need() { command -v "$1" >/dev/null || die 3 "$1 is missing: apt-get install $2"; }

build_once() {
  local out=$1 function=$2 parent
  mkdir -p "$(dirname "$out")"
  parent=$(cd "$(dirname "$out")" && pwd)
  out=$parent/$(basename "$out")
  exec 9>"$parent/.$(basename "$out").lock"
  flock 9
  if [[ -e $out ]]; then
    step "kept $out"
    return
  fi
  rm -rf --one-file-system "$out".tmp.*
  work=$(mktemp -d "$out.tmp.XXXXXX")   # global: the trap needs it
  trap 'rm -rf --one-file-system "$work"' EXIT
  trap 'exit 130' INT TERM HUP
  mkdir "$work/out"
  "$function" "$work"
  chmod 755 "$work/out"
  mv -T "$work/out" "$out"
  step "made $out: $(du -sb "$out" | cut -f1) bytes"
}

# new_layout LAYOUT TAG CMD: an image without layers, then its bundle is unpacked by the caller.
new_layout() {
  umoci init --layout "$1"
  umoci new --image "$1:$2"
  umoci config --image "$1:$2" --no-history --created "$CREATED" --config.cmd "$3" --config.workingdir / \
    --config.env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
}

# repack LAYOUT:TAG BUNDLE: what changed in the bundle becomes a layer on top, under the tag.
repack() { umoci repack --refresh-bundle --history.created "$CREATED" --image "$1" "$2"; }

# add_layer LAYOUT:TAG NEW_TAG TAR: a tar as it is becomes a layer on top of the tag, under the new tag.
add_layer() { umoci raw add-layer --history.created "$CREATED" --image "$1" --tag "$2" "$3"; }
