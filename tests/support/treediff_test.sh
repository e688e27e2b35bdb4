#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Shows that treediff.py sees each kind of difference, one mutation at a time, from either side, names the path
# and the field it must, and reports nothing for a true copy. Takes a few seconds; works in a temporary directory.
#
#   treediff_test.sh
#
# Needs root (owners, devices, trusted xattrs). Cases whose xattrs the file system refuses are said and skipped.
# Exit: 0 all passed; 1 some failed. The last line is "N passed, N failed, N skipped".
set -euo pipefail
treediff=$(cd "$(dirname "$0")" && pwd)/treediff.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
passed=0 failed=0 skipped=0

make_tree() {
  mkdir -p "$1"/dir/sub "$1"/empty
  cd "$1"
  printf 'hello world' >file
  printf 'one' | tee hard1 hard2alone >/dev/null
  ln hard1 dir/hard1b
  ln hard1 dir/hard1c
  head -c 3000000 /dev/zero | tr '\0' 'x' >large
  printf 'data' | dd of=sparse bs=1 seek=5000000 status=none
  printf 'bytes' >$'n\xe9 \n\\name'
  ln -s file link
  ln -s nowhere dir/dangling
  mkfifo fifo
  mknod char c 1 3
  mknod block b 7 300
  python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
  setfattr -n user.a -v value file
  setfattr -n user.dir -v value dir
  setfattr -n trusted.t -v value link -h
  cd "$work"
}

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); printf 'FAIL %s\n' "$1"; }

# case NAME 'PATH: FIELD' COMMAND...: the command mutates a copy of the tree (cwd); treediff must report
# the field, in both directions, and exit 1.
case_() {
  local name=$1 want=$2 swap status
  shift 2
  rm -rf copy
  cp -a tree copy
  if ! (cd copy && "$@") 2>mutation.err; then
    skipped=$((skipped + 1))
    printf 'SKIP %s: %s\n' "$name" "$(head -1 mutation.err)"
    return
  fi
  for swap in "tree copy" "copy tree"; do
    status=0
    # shellcheck disable=SC2086
    "$treediff" $swap >out 2>&1 || status=$?
    if [[ $status != 1 ]] || ! grep -qF -- "$want" out; then
      fail "$name ($swap): exit $status, wanted '$want' in:"
      sed 's/^/    /' out
      return
    fi
  done
  pass
}

# same NAME ARG...: treediff tree copy ARG... must find nothing and print nothing.
same() {
  local name=$1
  shift
  if "$treediff" tree copy "$@" >out 2>&1 && [[ ! -s out ]]; then pass; else fail "$name"; cat out; fi
}

keep_mtime() {   # PATH COMMAND...: runs the command, then gives PATH its old mtime back
  local path=$1 stamp
  shift
  stamp=$(mktemp "$work/stamp.XXXX")
  touch -r "$path" "$stamp"
  "$@"
  touch -hr "$stamp" "$path"
}
overwrite() { printf '%s' "$2" | dd of="$1" conv=notrunc bs=1 seek="$3" status=none; }

make_tree tree
cp -a tree copy
same "a cp -a copy is equal"
rm -rf copy && cp -a --sparse=never tree copy
same "a copy with its hole filled is equal"

case_ "missing file" 'file: path: ' rm file
case_ "missing directory" 'empty: path: ' rmdir empty
case_ "missing in a subdirectory" 'dir/dangling: path: ' rm dir/dangling
case_ "extra file" 'extra: path: ' touch extra
case_ "odd name is escaped" 'n\xe9 \n\\name: path: ' rm $'n\xe9 \n\\name'
case_ "type" 'file: type: ' sh -c 'rm file && mkdir file'
case_ "type: device for fifo" 'fifo: type: ' sh -c 'rm fifo && mknod fifo c 1 3'
case_ "mode" 'file: mode: ' keep_mtime file chmod 600 file
case_ "mode: sticky directory" 'dir: mode: ' chmod +t dir
case_ "mode: suid" 'file: mode: ' chmod u+s file
case_ "mode of the root" '.: mode: ' chmod 700 .
case_ "uid" 'file: uid: ' chown 70000 file
case_ "gid of a symlink" 'link: gid: ' chown -h :4294967294 link
case_ "mtime by 1 ns" 'file: mtime: ' python3 -c \
  'import os; os.utime("file", ns=(0, os.stat("file").st_mtime_ns + 1))'
case_ "mtime of a symlink" 'link: mtime: ' touch -hd @5 link
case_ "mtime of a directory" 'dir: mtime: ' touch -d @5 dir
case_ "content, same size and mtime" 'file: content: ' keep_mtime file overwrite file J 0
case_ "content: last byte" 'large: content: ' keep_mtime large overwrite large y 2999999
case_ "content: a byte in a hole" 'sparse: content: ' keep_mtime sparse overwrite sparse y 4000000
case_ "size" 'file: size: ' truncate -s 12 file
case_ "size of a hole at the end" 'sparse: size: ' truncate -s +1 sparse
case_ "content under a hard link" 'dir/hard1c: content: ' overwrite hard1 O 0
case_ "target" 'link: target: ' ln -sfn filf link
case_ "rdev of a character device" 'char: rdev: ' sh -c 'rm char && mknod char c 1 5'
case_ "rdev of a block device" 'block: rdev: ' sh -c 'rm block && mknod block b 7 301'
case_ "xattr added" 'file: xattr user.b: ' setfattr -n user.b file
case_ "xattr removed" 'dir: xattr user.dir: ' setfattr -x user.dir dir
case_ "xattr value" 'file: xattr user.a: ' setfattr -n user.a -v valuE file
case_ "xattr emptied" 'file: xattr user.a: ' setfattr -n user.a file
case_ "xattr of a symlink" 'link: xattr trusted.t: ' setfattr -h -n trusted.t -v x link
case_ "capability" 'file: xattr security.capability: ' setcap cap_net_raw+ep file
case_ "ACL" 'dir: xattr system.posix_acl_default: ' setfacl -d -m u:5:rwx dir
case_ "hard link broken, same content" 'hard1: hardlink: ' sh -c \
  'cp -a dir/hard1c x && mv x dir/hard1c'
case_ "hard link made" 'hard2alone: hardlink: ' ln -f hard1 hard2alone
case_ "nlink from outside the tree" 'file: nlink: ' ln file ../outside
rm -f outside
case_ "nlink of a directory" 'dir: nlink: ' sh -c 'rmdir dir/sub && touch dir/sub'

rm -rf copy && cp -a tree copy && chmod 600 copy/file && printf 'J' | dd of=copy/file conv=notrunc status=none
same "--ignore, --no-content" --no-content --ignore mode,mtime
rm -rf copy && cp -a tree copy && setfattr -n user.b copy/file
same "--ignore xattrs" --ignore xattrs
same "--ignore xattrs:PREFIX" --ignore xattrs:user.b
if "$treediff" tree copy --ignore xattrs:user.c >out; then fail "another xattr prefix must not hide it"; else pass; fi
"$treediff" tree copy --json >out || true
if [[ $(jq -r '.path + " " + .field' out) == "file xattr user.b" ]]; then pass; else fail "--json"; cat out; fi

exits() {   # STATUS NAME COMMAND...
  local want=$1 name=$2 got=0
  shift 2
  "$@" >out 2>&1 || got=$?
  if [[ $got == "$want" ]]; then pass; else fail "$name: exit $got, not $want"; cat out; fi
}
exits 2 "no arguments" "$treediff"
exits 2 "a root that is missing" "$treediff" tree missing
exits 2 "a root that is a file" "$treediff" tree tree/file
exits 2 "an unknown --ignore key" "$treediff" tree copy --ignore colour

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[[ $failed == 0 ]]
