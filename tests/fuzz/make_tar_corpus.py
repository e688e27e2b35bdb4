#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of fuzz_tar_source: make_tar_corpus.py corpus/tar_source. The first byte is the target's options."""
import gzip
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "../composer"))
from archives import CASES  # noqa: E402

SEEDS = ("python_pax", "star", "v7", "libarchive_xattrs", "schily_xattrs", "acl_numeric", "global", "dumpdir", "whiteouts",
         "old_sparse_short", "link_with_size", "good")

for name in SEEDS:
    with open(os.path.join(sys.argv[1], name), "wb") as file:
        file.write(b"\x08" + CASES[name]())
with open(os.path.join(sys.argv[1], "good.gz"), "wb") as file:
    file.write(b"\x02" + gzip.compress(CASES["good"](), mtime=0))
