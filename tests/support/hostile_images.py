# SPDX-License-Identifier: Apache-2.0
"""The image cases of hostile_tars.py.

oci_cases() yields (name, why, expect, {path: bytes or FIFO}), docker_cases() yields (name, why, expect, bytes).
Every image is the good one (a config and two layers with one file each) with one thing wrong.
"""
import copy
import gzip
import hashlib
import json

from tarwriter import DIR, END, HARD, SYM, entry

REJECT, CONTAINED = "reject", "contained"
FIFO = object()
TYPE = "application/vnd.oci.image."
LAYER_TYPE = TYPE + "layer.v1.tar+gzip"
TARS = [entry(b"one", data=b"1\n") + END, entry(b"two", data=b"2\n") + END]


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def to_json(value):
    return json.dumps(value).encode()


class Oci:
    """A layout under construction. Change the parts, then call files()."""

    def __init__(self, layers=None, layer_type=LAYER_TYPE):
        self.extra = {}
        self.blobs = {}
        self.layout = to_json({"imageLayoutVersion": "1.0.0"})
        packed = [gzip.compress(t, mtime=0) for t in TARS] if layers is None else layers
        self.layers = [self.add(layer_type, data) for data in packed]
        self.config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/one"], "Env": ["A=b"]},
                       "rootfs": {"type": "layers", "diff_ids": [digest(t) for t in TARS[:len(packed)]]}}
        self.config_bytes = None
        self.config_change = {}         # over the config's descriptor
        self.manifest = {"schemaVersion": 2, "mediaType": TYPE + "manifest.v1+json"}
        self.manifest_change = {}       # over the manifest's descriptor
        self.index_bytes = None
        self.drop = set()               # digests of blobs to leave out

    def add(self, media_type, data):
        self.blobs[digest(data)] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def files(self):
        config = self.add(TYPE + "config.v1+json", self.config_bytes or to_json(self.config))
        manifest = {**self.manifest, "config": {**config, **self.config_change}, "layers": self.layers}
        top = {**self.add(self.manifest["mediaType"], to_json(manifest)),
               "annotations": {"org.opencontainers.image.ref.name": "x"}, **self.manifest_change}
        index = self.index_bytes or to_json({"schemaVersion": 2, "manifests": [top]})
        out = {"oci-layout": self.layout, "index.json": index}
        for name, data in self.blobs.items():
            if name not in self.drop:
                out["blobs/sha256/" + name[7:]] = data
        out.update(self.extra)
        return {path: data for path, data in out.items() if data is not None}


def oci_cases():
    for group in (oci_blob_cases, oci_descriptor_cases, oci_json_cases, oci_layer_cases):
        for name, why, expect, image in group():
            yield name, why, expect, image.files()


def changed(**parts):
    image = Oci()
    for name, value in parts.items():
        setattr(image, name, value)
    return image


def with_layer(**changes):
    """The good image with its second layer's descriptor changed."""
    image = Oci()
    image.layers[1] = {**image.layers[1], **changes}
    return image


def oci_blob_cases():
    yield "good", "nothing wrong: shows that the others fail for what is wrong with them", CONTAINED, Oci()
    image = Oci()
    image.drop = {image.layers[1]["digest"]}
    yield "missing_layer", "a layer's blob is missing", REJECT, image
    image = Oci()
    image.drop = {digest(to_json(image.config))}
    yield "missing_config", "the config's blob is missing", REJECT, image
    yield "missing_manifest", "the manifest's blob is missing", REJECT, changed(
        manifest_change={"digest": "sha256:" + "0" * 64})
    image = Oci()
    other = bytearray(image.blobs[image.layers[1]["digest"]])
    other[4] ^= 1       # in gzip's time field: the layer still unpacks to the same bytes
    image.blobs[image.layers[1]["digest"]] = bytes(other)
    yield "digest_mismatch", "a layer's blob has another digest, but unpacks alike", REJECT, image
    image = Oci()
    image.blobs[image.layers[1]["digest"]] += b"more"
    yield "blob_longer", "a blob is longer than its descriptor says", REJECT, image
    image = Oci()
    image.blobs[image.layers[1]["digest"]] = b""
    yield "blob_empty", "a layer's blob is empty", REJECT, image
    image = Oci()
    image.blobs[image.layers[1]["digest"]] = FIFO
    yield "blob_fifo", "a layer's blob is a fifo that nobody writes to: must not hang", REJECT, image


def oci_descriptor_cases():
    hex64 = Oci().layers[1]["digest"][7:]
    for name, value in (("traversal", "sha256:../../../../etc/passwd"), ("traversal_bare", "../../x"), ("empty", ""),
                        ("short", "sha256:abcd"), ("long", "sha256:" + hex64 + "00"), ("slash", "sha256:" + hex64[:40] + "/" + hex64[41:]),
                        ("upper_case", "sha256:" + hex64.upper()), ("no_algorithm", hex64), ("sha1", "sha1:" + "0" * 40),
                        ("unknown", "blake9:" + hex64), ("nul", "sha256:" + hex64[:63] + "\0"), ("number", 7)):
        yield f"digest_{name}", f"a layer's digest is {json.dumps(value)[:60]}", REJECT, with_layer(digest=value)
    yield "manifest_digest_traversal", "the index's digest leads out", REJECT, changed(manifest_change={"digest": "sha256:../../index.json"})
    yield "config_digest_traversal", "the config's digest leads out", REJECT, changed(config_change={"digest": "sha256:../../../index.json"})
    for name, value in (("larger", 10**6), ("smaller", 10), ("negative", -1), ("huge", 10**30), ("fraction", 1.5), ("text", "12"),
                        ("missing", None)):
        yield f"size_{name}", f"a layer's size is {value}", REJECT, with_layer(size=value)
    yield "manifest_size", "the manifest's size is wrong", REJECT, changed(manifest_change={"size": 5})
    for name, value in (("unknown", "application/x-unknown"), ("encrypted", LAYER_TYPE + "+encrypted"), ("xz", TYPE + "layer.v1.tar+xz"),
                        ("empty", ""), ("missing", None)):
        yield f"media_type_{name}", f"a layer's media type is {value!r}", REJECT, with_layer(mediaType=value)
    yield ("media_type_lies", "a gzip layer that says it is plain: decide by magic or refuse", CONTAINED,
           with_layer(mediaType=TYPE + "layer.v1.tar"))
    yield "media_type_zstd_lies", "a gzip layer that says it is zstd", CONTAINED, with_layer(mediaType=TYPE + "layer.v1.tar+zstd")
    foreign = with_layer(mediaType=TYPE + "layer.nondistributable.v1.tar+gzip", urls=["http://127.0.0.1:1/layer"])
    foreign.drop = {foreign.layers[1]["digest"]}
    yield "foreign_layer", "a layer elsewhere, by URL: must not be fetched", REJECT, foreign
    yield "manifest_type_unknown", "the manifest's media type is unknown", REJECT, changed(manifest_change={"mediaType": "application/x-y"})


def nested_index(depth):
    image = Oci()
    top = json.loads(image.files()["index.json"])
    for _ in range(depth):
        inner = image.add(TYPE + "index.v1+json", to_json(top))
        inner["annotations"] = {"org.opencontainers.image.ref.name": "x"}
        top = {"schemaVersion": 2, "mediaType": TYPE + "index.v1+json", "manifests": [inner]}
    image.index_bytes = to_json(top)
    return image


def oci_json_cases():
    good = Oci().files()["index.json"]
    for name, data in (("cut", good[:-20]), ("empty", b"\n"), ("array", b"[]"), ("null", b"null"), ("text", b"hello"),
                       ("nul", good.replace(b" ", b"\0", 1)), ("deep", b"[" * 100_000), ("not_utf8", good.replace(b'"x"', b'"\xff\xfe"')),
                       ("no_manifests", b'{"schemaVersion": 2}'), ("manifests_text", b'{"schemaVersion": 2, "manifests": "x"}'),
                       ("trailing", good + b"{}"), ("number", b'{"schemaVersion": 2, "manifests": [1e999]}')):
        yield f"index_{name}", f"index.json: {name}", REJECT, changed(index_bytes=data)
    yield "index_missing", "no index.json", REJECT, changed(extra={"index.json": None})
    yield "index_fifo", "index.json is a fifo: must not hang", REJECT, changed(extra={"index.json": FIFO})
    yield "index_nested", "1000 indexes in each other", REJECT, nested_index(1000)
    yield "index_ref_traversal", "a tag named ../../x", CONTAINED, changed(
        manifest_change={"annotations": {"org.opencontainers.image.ref.name": "../../x"}})
    yield "layout_missing", "no oci-layout file", REJECT, changed(layout=None)
    yield "layout_version", "an oci-layout of version 9", REJECT, changed(layout=to_json({"imageLayoutVersion": "9.0.0"}))
    yield "manifest_schema_1", "schemaVersion 1", REJECT, changed(manifest={"schemaVersion": 1, "mediaType": TYPE + "manifest.v1+json"})
    for name, data in (("cut", to_json(Oci().config)[:-10]), ("array", b"[]"), ("deep", b'{"a":' * 100_000), ("not_utf8", b'{"os": "\xff"}')):
        yield f"config_{name}", f"the config: {name}", REJECT, changed(config_bytes=data)
    for name, part, expect in (("env_nul", {"Env": ["A=b\0c"]}, CONTAINED), ("env_no_equals", {"Env": ["A"]}, CONTAINED),
                               ("env_number", {"Env": [1]}, REJECT), ("cmd_text", {"Cmd": "sh -c x"}, REJECT),
                               ("workdir", {"WorkingDir": "/../../etc"}, CONTAINED), ("user", {"User": "../../x:99999999999"}, CONTAINED),
                               ("env_100k", {"Env": ["A%d=b" % i for i in range(100_000)]}, CONTAINED)):
        image = Oci()
        image.config["config"].update(part)
        yield f"config_{name}", f"the config's {json.dumps(part)[:60]}", expect, image


def oci_layer_cases():
    image = Oci()
    image.layers = [image.layers[0]] * 100_000
    yield "layers_100k", "100,000 layers", REJECT, image
    image = Oci()
    image.layers = []
    image.config["rootfs"]["diff_ids"] = []
    yield "layers_none", "an image without layers: an empty tree", CONTAINED, image
    for name, change in (("fewer", lambda ids: ids[:1]), ("more", lambda ids: ids + ids[:1]), ("none", lambda ids: []),
                         ("swapped", lambda ids: ids[::-1]), ("wrong", lambda ids: [ids[0], "sha256:" + "0" * 64]),
                         ("garbage", lambda ids: [ids[0], "../../x"])):
        image = Oci()
        image.config["rootfs"]["diff_ids"] = change(image.config["rootfs"]["diff_ids"])
        yield f"diff_ids_{name}", f"the config's diff_ids are {name}", REJECT, image
    image = Oci()
    image.layers.append(copy.copy(image.layers[0]))
    image.config["rootfs"]["diff_ids"].append(image.config["rootfs"]["diff_ids"][0])
    yield "layer_twice", "one layer twice, which is allowed", CONTAINED, image
    for name, why, data in (("traversal", "a layer with ../escaped", entry(b"../escaped", data=b"x") + END),
                            ("not_tar", "a layer that is no tar", b"hello " * 1000)):
        yield f"layer_{name}", why, REJECT, one_layer(gzip.compress(data, mtime=0), data)
    whole = gzip.compress(TARS[0], mtime=0)
    yield "layer_cut", "a layer whose gzip stream is cut; its digest and size are right", REJECT, one_layer(whole[:-12], TARS[0])


def one_layer(packed, unpacked):
    image = Oci(layers=[packed])
    image.config["rootfs"]["diff_ids"] = [digest(unpacked)]
    return image


def docker_archive(manifest=None, config=None, layers=(("a/layer.tar", TARS[0]), ("b/layer.tar", TARS[1])), extra=b"", **change):
    """What docker save writes. change is over manifest.json's one item; None drops a key; manifest replaces the file."""
    config = config if config is not None else to_json(Oci().config)
    name = digest(config)[7:] + ".json"
    item = {"Config": name, "RepoTags": ["x:y"], "Layers": [path for path, _ in layers], **change}
    out = entry(name.encode(), data=config) + b"".join(entry(path.encode(), data=data) for path, data in layers if data is not None)
    if manifest != b"":
        out += entry(b"manifest.json", data=manifest or to_json([{k: v for k, v in item.items() if v is not None}]))
    return out + extra + END


def docker_cases():
    yield "good", "nothing wrong: shows that the others fail for what is wrong with them", CONTAINED, docker_archive()
    for name, path in (("traversal", "../../../../etc/passwd"), ("absolute", "/etc/passwd"), ("missing", "c/layer.tar"),
                       ("empty", ""), ("nul", "a/layer.tar\0x"), ("number", 3), ("manifest", "manifest.json")):
        yield f"layer_{name}", f"manifest.json names a layer {path!r}", REJECT, docker_archive(Layers=["a/layer.tar", path])
    for name, path in (("traversal", "../../../../etc/passwd"), ("missing", "none.json"), ("none", None), ("layer", "a/layer.tar")):
        yield f"config_{name}", f"manifest.json names the config {path!r}", REJECT, docker_archive(Config=path)
    config = Oci().config
    short = {**config, "rootfs": {"type": "layers", "diff_ids": config["rootfs"]["diff_ids"][:1]}}
    yield "diff_ids_fewer", "one diff_id for two layers", REJECT, docker_archive(config=to_json(short))
    yield "diff_ids_wrong", "a layer's content does not have its diff_id", REJECT, docker_archive(
        layers=(("a/layer.tar", TARS[0]), ("b/layer.tar", TARS[0])))
    yield "manifest_missing", "no manifest.json", REJECT, docker_archive(manifest=b"")
    for name, data in (("cut", b'[{"Config": "'), ("object", b"{}"), ("empty_array", b"[]"), ("null", b"[null]"), ("deep", b"[" * 100_000)):
        yield f"manifest_{name}", f"manifest.json: {name}", REJECT, docker_archive(manifest=data)
    yield "manifest_twice", "manifest.json twice; the second leads out", CONTAINED, docker_archive(
        extra=entry(b"manifest.json", data=to_json([{"Config": "../../x", "Layers": ["/etc/passwd"]}])))
    yield "manifest_symlink", "manifest.json is a symlink out of the archive", REJECT, docker_archive(
        manifest=b"", extra=entry(b"manifest.json", SYM, link=b"/etc/passwd"))
    dropped = (("a/layer.tar", TARS[0]), ("b/layer.tar", None))
    yield "layer_symlink", "a layer is a symlink out of the archive", REJECT, docker_archive(
        layers=dropped, extra=entry(b"b/layer.tar", SYM, link=b"../../../etc/passwd"))
    yield "layer_symlink_loop", "a layer is a symlink to itself", REJECT, docker_archive(
        layers=dropped, extra=entry(b"b/layer.tar", SYM, link=b"layer.tar"))
    yield "layer_hardlink", "a layer is a hard link out of the archive", REJECT, docker_archive(
        layers=dropped, extra=entry(b"b/layer.tar", HARD, link=b"/etc/passwd"))
    yield "layer_dir", "a layer is a directory", REJECT, docker_archive(layers=dropped, extra=entry(b"b/layer.tar", DIR))
    twice = {**config, "rootfs": {"type": "layers", "diff_ids": [digest(TARS[0])] * 2}}
    yield "layer_symlink_inside", "a layer is a symlink to another layer, as docker save writes it", CONTAINED, docker_archive(
        config=to_json(twice), layers=dropped, extra=entry(b"b/layer.tar", SYM, link=b"../a/layer.tar"))
    yield "tags_hostile", "RepoTags that lead out", CONTAINED, docker_archive(RepoTags=["../../x:y", "", "a:b:c", "\n"])
    yield "cut", "the archive is cut in its second layer", REJECT, docker_archive()[:4096]
    yield "escape", "an entry of the archive itself leads out, though manifest.json does not name it", CONTAINED, docker_archive(
        extra=entry(b"../escaped", data=b"x"))
