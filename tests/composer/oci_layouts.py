#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""OCI layouts with one thing special each, for oci_source_test.cc.

    oci_layouts.py OUTDIR       writes OUTDIR/CASE/
"""
import gzip
import hashlib
import json
import os
import platform
import subprocess
import sys

from archives import CASES

OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker."
TARS = [CASES["base"](), CASES["whiteouts"]()]
HERE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
REF = "org.opencontainers.image.ref.name"


def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


def squeeze(data):
    return gzip.compress(data, mtime=0)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    def __init__(self, out, name):
        self.dir = os.path.join(out, name)
        os.makedirs(os.path.join(self.dir, "blobs/sha256"))
        self.write("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')

    def write(self, name, data):
        with open(os.path.join(self.dir, name), "wb") as file:
            file.write(data)

    def blob(self, media_type, data, **more):
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        self.write("blobs/sha256/" + digest(data)[7:], data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data), **more}

    def spoil(self, descriptor):
        path = os.path.join(self.dir, "blobs/sha256", descriptor["digest"][7:])
        data = bytearray(open(path, "rb").read())
        data[len(data) // 2] ^= 1
        open(path, "wb").write(data)

    def config(self, diff_ids=None, **more):
        ids = [digest(tar) for tar in TARS] if diff_ids is None else diff_ids
        return {"os": "linux", "architecture": HERE, "rootfs": {"type": "layers", "diff_ids": ids}, "config": {
            "Entrypoint": ["/entry", "x y"], "Cmd": ["arg"], "Env": ["PATH=/bin", "A=b=c"], "WorkingDir": "/work",
            "User": "7:8", "StopSignal": "SIGINT", "Labels": {"k": "v"}, "ExposedPorts": {"80/tcp": {}},
            "Volumes": {"/data": {}}}, **more}

    def manifest(self, layer_type=OCI + "layer.v1.tar+gzip", pack=squeeze, config=None, layers=None,
                 config_type=OCI + "config.v1+json", manifest_type=OCI + "manifest.v1+json", **more):
        self.layers = layers if layers is not None else [self.blob(layer_type, pack(tar)) for tar in TARS]
        self.config_blob = self.blob(config_type, config or self.config())
        document = {"schemaVersion": 2, "config": self.config_blob, "layers": self.layers}
        if manifest_type:
            document["mediaType"] = manifest_type
        return self.blob(manifest_type, document, **more)

    def index(self, *manifests):
        self.write("index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())


def simple_cases(out):
    for name, options in {
            "gzip": {},
            "plain": dict(layer_type=OCI + "layer.v1.tar", pack=bytes),
            "zstd": dict(layer_type=OCI + "layer.v1.tar+zstd", pack=zstd),
            "docker": dict(layer_type=DOCKER + "image.rootfs.diff.tar.gzip", config_type=DOCKER + "container.image.v1+json",
                           manifest_type=DOCKER + "distribution.manifest.v2+json"),
            "foreign": dict(layer_type=OCI + "layer.nondistributable.v1.tar+gzip"),
            "encrypted": dict(layer_type=OCI + "layer.v1.tar+gzip+encrypted"),
            "odd_layer_type": dict(layer_type="application/x-odd"),
            "artifact": dict(config_type="application/vnd.cncf.helm.config.v1+json"),
            "not_gzip": dict(pack=bytes)}.items():
        layout = Layout(out, name)
        layout.index(layout.manifest(**options))
    layout = Layout(out, "untyped")
    descriptor = layout.manifest(manifest_type="")
    del descriptor["mediaType"]
    layout.index(descriptor)


def named(ref, **more):
    return dict(annotations={REF: ref, **more})


def index_cases(out):
    layout = Layout(out, "two_names")
    layout.index(layout.manifest(**named("one")),
                 layout.manifest(**named("two:1", **{"io.containerd.image.name": "docker.io/library/two:1"})))
    layout = Layout(out, "latest")
    layout.index(layout.manifest(layers=[], config=layout.config([]), **named("old")), layout.manifest(**named("latest")))
    here, other = dict(os="linux", architecture=HERE), dict(os="plan9", architecture="mips")
    layout = Layout(out, "nested")
    inner = {"schemaVersion": 2, "manifests": [
        layout.manifest(layers=[], config=layout.config([]), platform=dict(os="unknown", architecture="unknown")),
        layout.manifest(platform=other), layout.manifest(platform=here)]}
    layout.index(layout.blob(OCI + "index.v1+json", inner, **named("x")))
    layout = Layout(out, "other_platforms")
    layout.index(layout.manifest(platform=other), layout.manifest(platform=dict(os="linux", architecture="vax")))
    layout = Layout(out, "too_deep")
    descriptor = layout.manifest()
    for _ in range(5):
        descriptor = layout.blob(OCI + "index.v1+json", {"schemaVersion": 2, "manifests": [descriptor]})
    layout.index(descriptor)


def damaged_cases(out):
    def case(name):
        layout = Layout(out, name)
        descriptor = layout.manifest()
        layout.index(descriptor)
        return layout, descriptor

    layout, _ = case("version_2")
    layout.write("oci-layout", b'{"imageLayoutVersion": "2.0.0"}')
    layout, _ = case("no_layout")
    os.remove(os.path.join(layout.dir, "oci-layout"))
    layout, descriptor = case("bad_manifest")
    layout.spoil(descriptor)
    layout, _ = case("bad_config")
    layout.spoil(layout.config_blob)
    layout, _ = case("bad_blob")
    layout.spoil(layout.layers[0])
    layout, _ = case("missing_blob")
    os.remove(os.path.join(layout.dir, "blobs/sha256", layout.layers[1]["digest"][7:]))
    for name, change in {"bad_size": dict(size=5), "sha512": dict(digest="sha512:" + "0" * 128),
                         "traversal": dict(digest="sha256:../../../../etc/passwd"),
                         "huge_manifest": None}.items():
        layout = Layout(out, name)
        layers = [layout.blob(OCI + "layer.v1.tar+gzip", squeeze(tar)) for tar in TARS]
        if change:
            layers[0].update(change)
        descriptor = layout.manifest(layers=layers)
        layout.index(descriptor if change else {**descriptor, "size": 1 << 40})


def config_cases(out):
    layout = Layout(out, "bad_diff_id")
    layout.index(layout.manifest(config=layout.config(["sha256:" + "0" * 64, digest(TARS[1])])))
    layout = Layout(out, "bad_diff_id_plain")
    layout.index(layout.manifest(layer_type=OCI + "layer.v1.tar", pack=bytes,
                                 config=layout.config([digest(TARS[0]), "sha256:" + "1" * 64])))
    layout = Layout(out, "diff_id_count")
    layout.index(layout.manifest(config=layout.config([digest(TARS[0])])))
    layout = Layout(out, "too_many_layers")
    layout.index(layout.manifest(config=layout.config(["sha256:" + "0" * 64] * 1025)))
    layout = Layout(out, "no_config")
    layout.index(layout.blob(OCI + "manifest.v1+json", {"schemaVersion": 2, "layers": []}))


if __name__ == "__main__":
    for cases in (simple_cases, index_cases, damaged_cases, config_cases):
        cases(sys.argv[1])
