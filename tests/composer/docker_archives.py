#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docker-save archives with one thing special each, for docker_archive_test.cc.

    docker_archives.py OUTDIR       writes OUTDIR/CASE
"""
import gzip
import hashlib
import json
import os
import subprocess
import sys

from archives import CASES, DIR, END, HARD, SYM, entry

TARS = [CASES["base"](), CASES["whiteouts"]()]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def config(tars):
    return json.dumps({"os": "linux", "config": {"Cmd": ["/one"]},
                       "rootfs": {"type": "layers", "diff_ids": [digest(tar) for tar in tars]}}).encode()


def manifest(*images):
    return entry(b"manifest.json", data=json.dumps(images).encode())


def image(layers, tags=(), config_name="config.json"):
    return {"Config": config_name, "RepoTags": list(tags) or None, "Layers": layers}


def plain(layers=("1/layer.tar", "2/layer.tar"), files=None):
    return (entry(b"1", DIR) + entry(b"1/layer.tar", data=TARS[0]) + entry(b"./2/layer.tar", data=TARS[1]) +
            entry(b"config.json", data=config(TARS)) + manifest(image(list(layers))) + END)


def two():
    first = image(["a.tar", "b.tar"], ["docker.io/library/one:1"])
    second = image(["a.tar"], ["local/two:latest"], "second.json")
    return (entry(b"a.tar", data=TARS[0]) + entry(b"b.tar", data=TARS[1]) + entry(b"config.json", data=config(TARS)) +
            entry(b"second.json", data=config(TARS[:1])) + manifest(first, second) + END)


def linked(kind, target):
    return (manifest(image(["1/layer.tar", "2/layer.tar"])) + entry(b"1/layer.tar", kind, link=target) +
            entry(b"blobs/one", data=TARS[0]) + entry(b"2/layer.tar", data=TARS[1]) +
            entry(b"config.json", data=config(TARS)) + END)


def with_config(data):
    return (entry(b"1/layer.tar", data=TARS[0]) + entry(b"2/layer.tar", data=TARS[1]) +
            entry(b"config.json", data=data) + manifest(image(["1/layer.tar", "2/layer.tar"])) + END)


def cases():
    yield "plain", plain()
    yield "outer.gz", gzip.compress(plain(), mtime=0)
    yield "outer.zst", subprocess.run(["zstd", "-qc"], input=plain(), stdout=subprocess.PIPE, check=True).stdout
    yield "inner_gzip", (entry(b"a", data=gzip.compress(TARS[0])) + entry(b"b", data=gzip.compress(TARS[1])) +
                         entry(b"config.json", data=config(TARS)) + manifest(image(["a", "b"])) + END)
    yield "symlinked", linked(SYM, b"../blobs/one")
    yield "hardlinked", linked(HARD, b"blobs/one")
    yield "two", two()
    yield "no_manifest", entry(b"config.json", data=config(TARS)) + END
    yield "no_layer", plain(("1/layer.tar", "missing.tar"))
    yield "link_loop", linked(SYM, b"layer.tar")
    yield "bad_diff_id", with_config(config([TARS[0], b"other"]))
    yield "layer_count", plain(("1/layer.tar",))
    yield "cut", plain()[:-2000]


if __name__ == "__main__":
    for name, data in cases():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)
