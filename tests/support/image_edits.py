#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The changes between image versions that a layer composer must get right, as steps on a rootfs.

    image_edits.py plant ROOT EPOCH         makes ROOT/srv/play: what the other steps change; then clamps ROOT
    image_edits.py edit ROOT EPOCH          changes ROOT/srv/play in every way; then clamps ROOT
    image_edits.py clamp ROOT EPOCH         sets every mtime after EPOCH to EPOCH (nothing else)
    image_edits.py opaque-layer TAR EPOCH   writes a layer tar for on top of `edit`, with what umoci repack
                                            never writes: opaque directories (marker first, and marker last),
                                            a whiteout before a new entry of its name, a directory that
                                            becomes a file or a symlink without whiteouts, an mtime with ns
    image_edits.py quirks-layer TAR EPOCH   writes a layer tar for on top of that, where tools disagree:
       implied parents: umoci unpack makes them 0755 root, and gives them and srv/play the time of unpacking,
         so do not compare those mtimes;
       quirk_to_file, quirk_to_symlink: a directory becomes one, and whiteouts for its old children follow, as
         umoci repack writes it. umoci unpack takes it (and follows the symlink, deleting there); podman
         refuses the first (ENOTDIR). The OCI text gives such a whiteout nothing to hide;
       again_last: a whiteout after a new entry of its name. umoci keeps the entry, as whiteouts are for
         lower layers only (OCI image-spec, layer.md, "Whiteouts"); podman deletes it.

A name in srv/play says what becomes of it. EPOCH is in seconds. Same arguments, same result. Needs root.
Exit: 0; 1 with a Python traceback when a step fails; 2 usage.
"""
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile

PLAY = "srv/play"
CASES = ("deleted_file", "file_to_dir", "file_to_symlink", "mode_only", "owner_only", "mtime_only",
         "xattr_only", "content_same_size", "content_grown", "made_hard_link", "unchanged", "again_first",
         "again_last", "deleted_in_opaque_layer", "setuid_added", "cap_added", "deleted_xattr")


def content(name, size=2000):
    """Deterministic bytes that compress to about a half."""
    blocks = (hashlib.sha256(f"{name} {i}".encode()).hexdigest().encode() for i in range(size // 64 + 1))
    return b"".join(blocks)[:size]


def write(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def clamp(root, epoch):
    """Bottom up, as setting a child's time does not change its parent's."""
    limit = epoch * 10**9
    for where, dirs, files in os.walk(os.fsencode(root), topdown=False):
        for path in [os.path.join(where, name) for name in dirs + files] + [where]:
            if os.lstat(path).st_mtime_ns > limit:
                os.utime(path, ns=(limit, limit), follow_symlinks=False)


def plant(root, epoch):
    play = os.path.join(root, PLAY)
    os.makedirs(play)
    os.chdir(play)
    for name in CASES:
        write("./" + name, content(name))
    write("./big_file", content("big", 700_000))
    for directory in ("deleted_dir", "dir_to_file", "dir_to_symlink", "dir_replaced", "dir_opaque_first",
                      "dir_opaque_last", "dir_emptied", "symlink_target", "dir_mode_only", "quirk_to_file",
                      "quirk_to_symlink"):
        for name in ("old", "common", "sub/old", "sub/sub/old"):
            write(f"{directory}/{name}", content(directory + name, 300))
    os.mkdir("deleted_empty_dir")
    os.mkdir("kept_empty_dir", 0o700)
    for group in ("unlinked_one", "changed", "unchanged", "split"):
        write(f"hard_{group}/a", content(group))
        os.link(f"hard_{group}/a", f"hard_{group}/b")
        os.link(f"hard_{group}/a", f"hard_{group}/c")
    for name in ("to_dir", "to_file", "retargeted", "deleted", "unchanged"):
        os.symlink("symlink_target", "symlink_" + name)
    os.mkfifo("fifo_to_file")
    os.setxattr("deleted_xattr", "user.gone", b"1")
    os.setxattr("xattr_only", "user.changed", b"1")
    os.utime("unchanged", ns=(0, 1_600_000_000_123_456_789))
    clamp(root, epoch)


def edit_types():
    for path in ("deleted_file", "file_to_dir", "file_to_symlink", "symlink_to_dir", "symlink_to_file",
                 "symlink_retargeted", "symlink_deleted", "fifo_to_file"):
        os.unlink(path)
    for path in ("deleted_dir", "deleted_empty_dir", "dir_replaced"):
        shutil.rmtree(path)
    write("file_to_dir/new", b"new\n")
    write("symlink_to_dir/new", b"new\n")
    write("dir_replaced/new", b"new\n")
    write("dir_replaced/common", b"other content\n")
    write("dir_replaced/sub/new", b"new\n")
    for path in ("./symlink_to_file", "./fifo_to_file"):
        write(path, b"now a file\n")
    os.symlink("unchanged", "file_to_symlink")
    os.symlink("dangling", "symlink_retargeted")
    for path in ("old", "common", "sub"):
        (shutil.rmtree if path == "sub" else os.unlink)("dir_emptied/" + path)


def edit_metadata(epoch):
    os.chmod("mode_only", 0o600)
    os.chmod("dir_mode_only", 0o1777)
    os.chmod("setuid_added", 0o4755)
    os.lchown("owner_only", 1234, 70000)
    os.lchown("symlink_unchanged", 5, 6)
    os.utime("mtime_only", ns=(0, (epoch - 86400 * 400) * 10**9))
    os.setxattr("xattr_only", "user.changed", b"2")
    os.setxattr("xattr_only", "user.binary", bytes(range(256)))
    os.removexattr("deleted_xattr", "user.gone")
    subprocess.run(["setcap", "cap_net_raw+ep", "cap_added"], check=True)


def edit_content():
    write("./content_same_size", content("other"))
    for path in ("content_grown", "hard_changed/b"):
        with open(path, "ab") as file:
            file.write(b"more\n")
    with open("big_file", "r+b") as file:
        file.seek(333_333)
        file.write(b"a small change in the middle")
    os.link("made_hard_link", "hard_link_to_old")
    os.unlink("hard_unlinked_one/b")
    os.unlink("hard_split/c")
    write("hard_split/c", content("split"))         # same content, no longer a link
    write("new_links/a", content("new links"))
    os.link("new_links/a", "new_links/b")
    write(b"./caf\xe9 \xff not UTF-8", b"latin-1\n")
    write("./new line\n and \\ -> tab\t", b"odd\n")
    os.mkfifo("new_fifo", 0o640)
    os.mknod("new_device", 0o020600, os.makedev(1, 3))


def edit(root, epoch):
    os.chdir(os.path.join(root, PLAY))
    edit_types()
    edit_metadata(epoch)
    edit_content()
    clamp(root, epoch)


def opaque_layer(path, epoch):
    write_layer(path, epoch, [
        ("dir_opaque_first", None), ("dir_opaque_first/.wh..wh..opq", b""),
        ("dir_opaque_first/new", b"new\n"), ("dir_opaque_first/sub", None),
        ("dir_opaque_first/sub/new", b"new\n"),
        ("dir_opaque_last", None), ("dir_opaque_last/new", b"new\n"),
        ("dir_opaque_last/common", b"other\n"), ("dir_opaque_last/.wh..wh..opq", b""),
        (".wh.again_first", b""), ("again_first", b"whiteout first, entry after\n"),
        (".wh.deleted_in_opaque_layer", b""), (".wh.never_existed", b""), ("mtime_ns", b"ns\n"),
        ("symlink_target/added_under_existing", b"parent not listed\n"),
        ("dir_to_file", b"now a file\n"), ("dir_to_symlink", "symlink_target"),
        ("", None)])    # last: gives srv/play its mtime back


def quirks_layer(path, epoch):
    write_layer(path, epoch, [
        ("implied/parents/of/file", b"no entries for its directories\n"),
        ("quirk_to_file", b"now a file\n"), ("quirk_to_file/.wh.common", b""), ("quirk_to_file/.wh.sub", b""),
        ("quirk_to_symlink", "kept_empty_dir"), ("quirk_to_symlink/.wh.common", b""),
        ("again_last", b"entry first, whiteout after\n"), (".wh.again_last", b"")])


def write_layer(path, epoch, entries):
    """A layer tar with the entries in this order. Content None: a directory; a str: a symlink's target."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in entries:
            info = tarfile.TarInfo(f"{PLAY}/{name}".rstrip("/"))
            info.mtime, info.mode = epoch, 0o644
            if name == "mtime_ns":
                info.pax_headers = {"mtime": f"{epoch}.123456789"}
            if data is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o750 if name else 0o755
                tar.addfile(info)
            elif isinstance(data, str):
                info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, data
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


def main():
    steps = {"plant": plant, "edit": edit, "clamp": clamp, "opaque-layer": opaque_layer,
             "quirks-layer": quirks_layer}
    if len(sys.argv) != 4 or sys.argv[1] not in steps or not sys.argv[3].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    os.umask(0o022)
    steps[sys.argv[1]](os.path.abspath(sys.argv[2]), int(sys.argv[3]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
