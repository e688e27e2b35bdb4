# SPDX-License-Identifier: Apache-2.0
"""A strict reader of Prometheus's text format 0.0.4: what it accepts, every scraper does."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HELP = re.compile(rf"# HELP ({NAME}) (.+)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? ([-+0-9.eE]+|\+Inf)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\\n]*)"')


class Family:
    def __init__(self, name, text):
        self.name, self.help, self.kind = name, text, None
        self.samples = {}  # (name, labels as a sorted tuple) -> number


def labels_of(text):
    labels = []
    while text:
        found = LABEL.match(text)
        assert found, f"no label: {text}"
        labels.append(found.groups())
        text = text[found.end():]
        assert not text or (text[0] == "," and len(text) > 1), f"after a label: {text}"
        text = text[1:]
    assert len({name for name, _ in labels}) == len(labels), f"a label twice: {labels}"
    return tuple(sorted(labels))


def check_histogram(family):
    series = {}
    for (name, labels), value in family.samples.items():
        rest = tuple(label for label in labels if label[0] != "le")
        part = name.removeprefix(family.name)
        bounds = dict(labels).get("le")
        assert (bounds is not None) == (part == "_bucket"), (name, labels)
        series.setdefault(rest, {}).setdefault(part, []).append((float(bounds) if bounds else None, value))
    for rest, parts in series.items():
        assert set(parts) == {"_bucket", "_sum", "_count"}, (family.name, rest)
        buckets = parts["_bucket"]
        assert buckets == sorted(buckets), f"{family.name}{rest}: bounds do not rise"
        assert [count for _, count in buckets] == sorted(count for _, count in buckets), f"{family.name}{rest}: no sums"
        assert buckets[-1] == (math.inf, parts["_count"][0][1]), f"{family.name}{rest}: +Inf is not the count"


def check_family(family):
    assert family.kind, f"{family.name} has no TYPE"
    if family.kind == "histogram":
        check_histogram(family)
        return
    assert all(name == family.name for name, _ in family.samples), f"{family.name} has samples of others"
    assert (family.kind == "counter") == family.name.endswith("_total"), f"{family.name} is a {family.kind}"


def parse(text):
    """name -> Family; AssertionError for whatever the format forbids."""
    assert text.endswith("\n"), "the last line has no end"
    families, now = {}, None
    for line in text[:-1].split("\n"):
        if found := HELP.fullmatch(line):
            assert found[1] not in families, f"{found[1]} twice"
            now = families[found[1]] = Family(*found.groups())
        elif found := TYPE.fullmatch(line):
            assert now and now.name == found[1] and now.kind is None and not now.samples, line
            now.kind = found[2]
        else:
            found = SAMPLE.fullmatch(line)
            assert found, f"no line of the format: {line!r}"
            assert now and now.kind and found[1].startswith(now.name), line
            key = (found[1], labels_of(found[2] or ""))
            assert key not in now.samples, f"{key} twice"
            now.samples[key] = float(found[3])
            assert now.samples[key] >= 0, line
    for family in families.values():
        check_family(family)
    return families


def value(families, name, **labels):
    """The one sample of a counter or gauge with these labels."""
    return families[name].samples[(name, tuple(sorted(labels.items())))]
