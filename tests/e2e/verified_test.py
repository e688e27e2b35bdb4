#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A damaged store: who needs the damaged bytes gets an error that names them, everybody else is served. Never other
bytes, never a crash, never a hang."""
import errno
import json
import os
import random
import shutil
import struct
import subprocess

import harness
from harness import WorldTest

ENTRY = struct.Struct("<32sQIII")  # docs/format.md, section "Pack"


def pack_entries(pack):
    """(digest, offset, stored bytes, plain bytes, codec) of each chunk."""
    with open(pack, "rb") as file:
        data = file.read()
    offset, count = struct.unpack_from("<QI", data, len(data) - 56)
    return data, [ENTRY.unpack_from(data, offset + i * ENTRY.size) for i in range(count)]


def read_tree(root):
    """path -> content, or the errno of reading it."""
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            try:
                with open(path, "rb") as file:
                    found[os.path.relpath(path, root)] = file.read()
            except OSError as error:
                found[os.path.relpath(path, root)] = error.errno
    return found


def begun_pack(tmp):
    """Whether something has been written to a file in `tmp`."""
    try:
        return any(entry.stat().st_size > 0 for entry in os.scandir(tmp))
    except FileNotFoundError:
        return False


class Damaged(WorldTest):
    SEED = 20240607

    @classmethod
    def prepare(cls):
        cls.random = random.Random(cls.SEED)
        cls.tree = cls.world.make_dir("tree")
        shared = cls.random.randbytes(50000)
        contents = {f"small{i}": cls.random.randbytes(500 + i * 4000) for i in range(12)}
        contents.update(big=cls.random.randbytes(2 << 20), twin_a=shared, twin_b=shared, empty=b"",
                        text=b"some text that shrinks\n" * 3000)
        contents["big_with_shared_middle"] = contents["big"][:1 << 20] + cls.random.randbytes(300000)
        for name, content in contents.items():
            with open(os.path.join(cls.tree, name), "wb") as file:
                file.write(content)
        cls.contents = contents
        cls.report = cls.world.compose(f"dir:{cls.tree}", "env")
        other = cls.world.make_dir("other")
        with open(os.path.join(other, "file"), "wb") as file:
            file.write(cls.random.randbytes(100000))
        cls.other_layer = cls.world.compose(f"dir:{other}", "other")["layers"][0]["digest"]
        cls.saved = cls.world.path("saved")
        shutil.copytree(cls.world.store, cls.saved, symlinks=True)
        for pack in cls.world.packs():
            data, entries = pack_entries(pack)
            if len(entries) > 5:
                cls.pack, cls.data, cls.entries = pack, data, entries

    def setUp(self):
        self.addCleanup(self.restore)

    def restore(self):
        if os.path.ismount(self.world.path("mnt")):
            self.world.umount()
        self.world.stop_daemon()
        shutil.rmtree(self.world.path("state"), ignore_errors=True)
        shutil.rmtree(self.world.store)
        shutil.copytree(self.saved, self.world.store, symlinks=True)

    def hurt_by(self, entry):
        _, offset, stored, _, codec = entry
        content = self.data[offset:offset + stored]
        if codec != 0:
            return {"text"} if b"some text" in content else None  # a recipe or something else compressed
        return {name for name, whole in self.contents.items() if content in whole}

    def check_fails_and_names(self, *parts):
        done = self.world.try_dsec("store", "check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stdout)
        report = json.loads(self.world.try_dsec("store", "check", "--json").stdout)
        self.assertTrue(report["problems"])

    def check_reads(self, hurt):
        """Reads everything through fresh mounts: exactly `hurt` fail, with EIO."""
        for mode in ("tree", "auto"):
            found = read_tree(self.world.mount("env", mode=mode))
            self.world.umount()
            self.check_found(found, hurt)

    def check_found(self, found, hurt):
        for name, content in self.contents.items():
            if name in hurt:
                self.assertEqual(found[name], errno.EIO, name)
            else:
                self.assertIs(type(found[name]), bytes, f"{name}: errno {found[name]}")
                self.assertTrue(found[name] == content, f"{name} has other bytes")
        self.assertEqual(sorted(found), sorted(self.contents))

    def test_nothing_is_wrong_at_first(self):
        self.world.dsec("store", "check")
        self.check_reads(set())

    def test_one_flipped_byte_hurts_exactly_the_files_that_need_it(self):
        plain = [entry for entry in self.entries if self.hurt_by(entry)]
        sizes = sorted(plain, key=lambda entry: len(self.hurt_by(entry)))
        for entry in [sizes[-1], *self.random.sample(plain, 3)]:
            digest, offset, stored = entry[0].hex(), entry[1], entry[2]
            with self.subTest(chunk=digest, seed=self.SEED):
                with open(self.pack, "r+b") as file:
                    at = offset + self.random.randrange(stored)
                    file.seek(at)
                    file.write(bytes([self.data[at] ^ 1 << self.random.randrange(8)]))
                self.check_reads(self.hurt_by(entry))
                log = self.world.daemon_log()
                self.assertIn("chunk_corrupt", log)
                self.assertIn(digest, log)
                self.assertIn(self.report["layers"][0]["digest"], log)
                self.check_fails_and_names(digest, "env:latest")
            self.restore()

    def test_damage_while_mounted_is_found_when_the_pages_are_gone(self):
        mounted = self.world.mount("env")
        before = read_tree(mounted)
        self.assertEqual(before["small3"], self.contents["small3"])
        entry = next(entry for entry in self.entries if self.hurt_by(entry) == {"small3"})
        with open(self.pack, "r+b") as file:
            file.seek(entry[1])
            file.write(bytes([self.data[entry[1]] ^ 0xff]))
        # What the kernel and lazyfsd still have is right; it is the store that is damaged.
        self.assertEqual(read_tree(mounted)["small3"], self.contents["small3"])
        self.world.umount()
        self.world.stop_daemon()
        self.check_reads({"small3"})

    def test_a_pack_that_is_gone(self):
        os.remove(self.pack)
        self.check_reads(set(self.contents) - {"empty"})
        self.assertIn(os.path.basename(self.pack)[:64], self.world.daemon_log())
        self.check_fails_and_names("env:latest")
        self.assertEqual(len(read_tree(self.world.mount("other"))["file"]), 100000)

    def test_a_pack_that_is_cut_short(self):
        size = len(self.data) // 2
        os.truncate(self.pack, size)
        beyond = [entry for entry in self.entries if entry[1] + entry[2] > size]
        found = read_tree(self.world.mount("env"))
        self.world.umount()
        bad = {name for name, content in found.items() if not isinstance(content, bytes)}
        self.assertTrue(bad)
        for entry in beyond:
            self.assertLessEqual(self.hurt_by(entry) or set(), bad)
        for name in set(found) - bad:
            self.assertTrue(found[name] == self.contents[name], f"{name} has other bytes")
        self.assertEqual({found[name] for name in bad}, {errno.EIO})
        self.check_fails_and_names("env:latest")

    def test_a_pack_with_other_content(self):
        with open(self.pack, "wb") as file:
            file.write(self.random.randbytes(len(self.data)))
        self.check_reads(set(self.contents) - {"empty"})

    def path_of(self, suffix):
        layer = self.report["layers"][0]["digest"]
        return os.path.join(self.world.store, "layers", layer[:2], layer + suffix)

    def check_mount_refused(self, *parts):
        """`dsec mount` and `dsec run` say what is wrong, and the daemon goes on serving others."""
        for command in (("mount", "env", self.world.make_dir("mnt")), ("run", "env", "true")):
            done = self.world.try_dsec(*command)
            self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
            for part in parts:
                self.assertIn(part, done.stderr)
        self.assertEqual(len(read_tree(self.world.mount("other"))["file"]), 100000)

    def garble(self, path, how):
        with open(path, "rb") as file:
            data = file.read()
        changed = {"flip": bytes([data[0]]) + bytes([data[1] ^ 1]) + data[2:], "cut": data[:len(data) // 2], "empty": b"",
                   "noise": self.random.randbytes(len(data)), "longer": data + b"x"}[how]
        with open(path, "wb") as file:
            file.write(changed)

    def check_garbled(self, path, *parts):
        for how in ("flip", "cut", "empty", "noise", "longer"):
            with self.subTest(how):
                self.garble(path, how)
                self.check_mount_refused(*parts)
                self.check_fails_and_names("env:latest")
            self.restore()

    def test_a_garbled_layer_image(self):
        self.check_garbled(self.path_of(".erofs"), self.report["layers"][0]["digest"])

    def test_a_garbled_location_map(self):
        self.check_garbled(self.path_of(".map"), self.report["layers"][0]["digest"])

    def test_a_garbled_environment(self):
        env = self.report["env"]
        self.check_garbled(os.path.join(self.world.store, "envs", env[:2], env + ".json"), env)

    def test_a_layer_or_map_that_is_gone(self):
        for suffix in (".erofs", ".map"):
            os.remove(self.path_of(suffix))
            self.check_mount_refused(self.report["layers"][0]["digest"])
            self.check_fails_and_names("env:latest")
            self.restore()

    def map_of(self, layer):
        return os.path.join(self.world.store, "layers", layer[:2], layer + ".map")

    def local_map_of(self, layer):
        found = [os.path.join(directory, layer + ".map") for directory, _, names in os.walk(self.world.path("state"))
                 if layer + ".map" in names]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_the_map_of_another_layer(self):
        layer = self.report["layers"][0]["digest"]
        good = self.world.path("good.map")
        shutil.copy(self.map_of(layer), good)
        shutil.copy(self.map_of(self.other_layer), self.map_of(layer))
        self.check_mount_refused(layer, self.map_of(layer), "dsec store check")
        self.world.umount()
        self.check_fails_and_names("env:latest")
        shutil.copy(good, self.map_of(layer))
        self.check_reads(set())

    def test_a_local_copy_of_a_wrong_map_lasts_no_longer_than_the_wrong_map(self):
        """As if the store had been wrong when the copy was made. In the end nothing but the store was put right."""
        layer = self.report["layers"][0]["digest"]
        for mode in ("tree", "auto"):
            with self.subTest(mode):
                self.world.mount("env", mode=mode)
                self.world.umount()
                self.world.mount("other", mode=mode)
                self.world.umount()
                self.world.stop_daemon()
                shutil.copy(self.local_map_of(self.other_layer), self.local_map_of(layer))
                shutil.copy(self.map_of(self.other_layer), self.map_of(layer))
                mounted = self.world.mount("env", mode=mode)
                self.check_found(read_tree(mounted), set(self.contents) - {"empty"})
                shutil.copy(os.path.join(self.saved, os.path.relpath(self.map_of(layer), self.world.store)), self.map_of(layer))
                harness.wait_until(lambda: errno.EIO not in read_tree(mounted).values(), 60)
                self.check_found(read_tree(mounted), set())
                self.world.umount()
                self.check_reads(set())
            self.restore()

    def test_a_pack_that_is_gone_and_its_layer_composed_again(self):
        other = self.world.make_dir("more")
        with open(os.path.join(other, "more"), "wb") as file:
            file.write(self.random.randbytes(10000))
        manifest = ('version = 1\nname = "env2"\n[[layer]]\nname = "env"\nfrom = "dir:tree"\n'
                    '[[layer]]\nname = "more"\nfrom = "dir:more"\ntarget = "/more"\n')
        self.check_reads(set())  # so that this node has a copy of the map
        self.world.stop_daemon()
        os.remove(self.pack)
        mounted = self.world.mount("env")
        self.check_found(read_tree(mounted), set(self.contents) - {"empty"})
        takes = self.world.path("takes.toml")
        with open(takes, "w", encoding="utf-8") as file:
            file.write(manifest.replace('from = "dir:tree"\n', ""))
        refused = self.world.try_dsec("compose", "-f", takes)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("compose it again", refused.stderr)
        again = self.world.manifest(manifest)
        self.assertEqual(again["layers"][0]["digest"], self.report["layers"][0]["digest"])
        self.world.dsec("store", "check")
        harness.wait_until(lambda: errno.EIO not in read_tree(mounted).values(), 60)
        self.check_found(read_tree(mounted), set())
        self.world.umount()
        self.world.mount("env2")
        with open(os.path.join(mounted, "more", "more"), "rb") as file:
            self.assertEqual(len(file.read()), 10000)
        self.world.umount()
        self.check_reads(set())

    def test_what_a_killed_compose_left_is_mentioned_and_removed_when_it_is_old(self):
        tmp = os.path.join(self.world.store, "tmp")
        large = self.world.make_dir("large")
        for i in range(8):
            with open(os.path.join(large, str(i)), "wb") as file:
                file.write(self.random.randbytes(16 << 20))
        self.addCleanup(shutil.rmtree, large)
        begun = subprocess.Popen([os.path.join(harness.BIN, "dsec"), "compose", "--from", f"dir:{large}", "--name", "large"],
                                 env=self.world.env, cwd=self.world.tmp, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.assertTrue(harness.wait_until(lambda: begun.poll() is not None or begun_pack(tmp), 60))
        finally:
            begun.kill()
            begun.wait()
        left = os.listdir(tmp)
        self.assertEqual(len(left), 1)
        self.assertIn("unfinished files in tmp/: 1 (", self.world.dsec("store", "check"))
        self.assertEqual(json.loads(self.world.dsec("store", "check", "--json"))["unfinished"]["files"], 1)
        self.world.compose(f"dir:{self.tree}", "env")
        self.assertEqual(os.listdir(tmp), left)
        path = os.path.join(tmp, left[0])
        os.utime(path, (os.stat(path).st_mtime - 25 * 3600,) * 2)
        self.world.compose(f"dir:{self.tree}", "env")
        self.assertEqual(os.listdir(tmp), [])
        self.assertNotIn("unfinished", self.world.dsec("store", "check"))

    def test_a_damaged_local_copy_is_replaced(self):
        self.check_reads(set())
        self.world.stop_daemon()
        for directory, _, names in os.walk(self.world.path("state", "cache", "layers")):
            for name in names:
                with open(os.path.join(directory, name), "r+b") as file:
                    file.write(b"damaged")
        self.check_reads(set())


if __name__ == "__main__":
    harness.main()
